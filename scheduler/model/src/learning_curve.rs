//! How errors of predictions fall while configurations are measured, by the order in which they are: from measurements of all of
//! them.

use formats::{
    fitted::FormulaName,
    rows::{CurvePoint, MeasuringOrder},
};

use crate::{
    Fit, Launches, Observation, Options, Setting,
    fit::{FEWEST, fit_described},
    formula,
    suggest::{Candidate, Choice, Design, suggest},
};

/// A configuration that was measured, and what it cost: seconds times devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredConfiguration {
    pub observation: Observation,
    pub device_s: f64,
}

/// The measurements of several workloads, each with a formula that describes them.
#[derive(Clone, Debug)]
pub struct LearningCurve {
    workloads: Vec<Workload>,
    launches: Launches,
    options: Options,
}

#[derive(Clone, Debug)]
struct Workload {
    formula: FormulaName,
    rows: Vec<MeasuredConfiguration>,
}

/// The formula that describes most of the settings; of equal ones, the first.
pub fn widest<'a>(settings: impl Iterator<Item = &'a Setting> + Clone) -> FormulaName {
    let described =
        |formula| settings.clone().filter(|setting| formula::applies(formula, setting).is_ok()).count();
    let widest = |best: FormulaName, next: &FormulaName| {
        if described(*next) > described(best) { *next } else { best }
    };
    FormulaName::ALL.iter().fold(FormulaName::ALL[0], widest)
}

impl LearningCurve {
    /// Measurements that the widest formula of their workload does not describe are left out, and so are workloads of which no more
    /// than a fit needs are left. Of a configuration that was measured several times, the first measurement is taken.
    pub fn new(
        workloads: impl IntoIterator<Item = Vec<MeasuredConfiguration>>,
        launches: Launches,
        options: Options,
    ) -> LearningCurve {
        let of = |rows: Vec<MeasuredConfiguration>| {
            let formula = widest(rows.iter().map(|row| &row.observation.setting));
            let mut kept: Vec<MeasuredConfiguration> = Vec::new();
            for row in rows {
                let setting = &row.observation.setting;
                let is_new = kept.iter().all(|other| other.observation.setting != *setting);
                if is_new && formula::applies(formula, setting).is_ok() {
                    kept.push(row);
                }
            }
            (kept.len() > FEWEST).then_some(Workload { formula, rows: kept })
        };
        LearningCurve { workloads: workloads.into_iter().filter_map(of).collect(), launches, options }
    }

    /// The number of configurations.
    pub fn configurations(&self) -> usize {
        self.workloads.iter().map(|workload| workload.rows.len()).sum()
    }

    /// A point after the first configurations of each workload, and one after every further `step` of them, as long as there are
    /// others to predict. The seed decides which are the first, except in the order of the grid; it is the same for both others.
    pub fn points(&self, order: MeasuringOrder, seed: u64, step: usize) -> Vec<CurvePoint> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut orders: Vec<Vec<usize>> =
            self.workloads.iter().map(|workload| (0..workload.rows.len()).collect()).collect();
        if order != MeasuringOrder::Grid {
            orders.iter_mut().for_each(|order| random.shuffle(order));
        }
        let mut measured: Vec<Vec<usize>> = orders.iter().map(|order| order[..FEWEST].to_vec()).collect();
        let mut waiting = self.waiting(order, &orders, &mut random);
        let mut fits: Vec<Fit> =
            self.workloads.iter().zip(&measured).map(|(workload, own)| self.fit(workload, own)).collect();
        let mut points = Vec::new();
        while let Some(point) = self.point(order, seed, &fits, &measured) {
            points.push(point);
            let next = match order {
                MeasuringOrder::Suggested => self.suggested(&fits, &measured, step),
                MeasuringOrder::Random | MeasuringOrder::Grid => {
                    waiting.split_off(waiting.len().saturating_sub(step))
                }
            };
            for Choice { design, candidate } in &next {
                measured[*design].push(*candidate);
            }
            for (number, fit) in fits.iter_mut().enumerate() {
                if next.iter().any(|choice| choice.design == number) {
                    *fit = self.fit(&self.workloads[number], &measured[number]);
                }
            }
            if next.is_empty() {
                break;
            }
        }
        points
    }

    /// What is measured after the first configurations, the last of all first.
    fn waiting(
        &self,
        order: MeasuringOrder,
        orders: &[Vec<usize>],
        random: &mut fastrand::Rng,
    ) -> Vec<Choice> {
        let longest = orders.iter().map(Vec::len).max().unwrap_or(0);
        let turn = |place: usize| {
            let of = move |(design, order): (usize, &Vec<usize>)| {
                Some(Choice { design, candidate: *order.get(place)? })
            };
            orders.iter().enumerate().filter_map(of)
        };
        let mut waiting: Vec<Choice> = (FEWEST..longest).flat_map(turn).collect();
        if order == MeasuringOrder::Random {
            random.shuffle(&mut waiting);
        }
        waiting.reverse();
        waiting
    }

    fn suggested(&self, fits: &[Fit], measured: &[Vec<usize>], count: usize) -> Vec<Choice> {
        let open: Vec<Vec<usize>> = self
            .workloads
            .iter()
            .zip(measured)
            .map(|(workload, own)| (0..workload.rows.len()).filter(|index| !own.contains(index)).collect())
            .collect();
        let candidate = |fit: &Fit, setting: Setting| {
            let step_s = fit.predict(&setting).map_or(0.0, |(step_s, _)| step_s);
            Candidate { setting, device_s: self.launches.device_s(&setting, step_s) }
        };
        let of = |((workload, fit), open): ((&Workload, _), &Vec<usize>)| {
            let settings = open.iter().map(|index| workload.rows[*index].observation.setting);
            Design::new(fit, settings.map(|setting| candidate(fit, setting)).collect())
        };
        let mut designs: Vec<Design<'_>> = self.workloads.iter().zip(fits).zip(&open).map(of).collect();
        let chosen = suggest(&mut designs, count).into_iter();
        chosen.map(|choice| Choice { candidate: open[choice.design][choice.candidate], ..choice }).collect()
    }

    fn fit(&self, workload: &Workload, measured: &[usize]) -> Fit {
        let rows: Vec<Observation> = measured.iter().map(|index| workload.rows[*index].observation).collect();
        fit_described(workload.formula, &rows, &self.options)
    }

    /// The errors on the configurations that are not measured; `None` if all of them are.
    fn point(
        &self,
        order: MeasuringOrder,
        seed: u64,
        fits: &[Fit],
        measured: &[Vec<usize>],
    ) -> Option<CurvePoint> {
        let mut percents = Vec::new();
        let (mut device_s, mut configurations) = (0.0, 0);
        for ((workload, fit), own) in self.workloads.iter().zip(fits).zip(measured) {
            for (index, MeasuredConfiguration { observation, device_s: cost }) in
                workload.rows.iter().enumerate()
            {
                if own.contains(&index) {
                    device_s += cost;
                    configurations += 1;
                } else if let Some((predicted_s, _)) = fit.predict(&observation.setting) {
                    percents.push(100.0 * (predicted_s / observation.step_s - 1.0).abs());
                }
            }
        }
        percents.sort_by(f64::total_cmp);
        let count = percents.len();
        // The rank of the nearest.
        let p95_percent = *percents.get(((0.95 * count as f64).ceil() as usize).max(1) - 1)?;
        let mean_percent = percents.iter().sum::<f64>() / count as f64;
        Some(CurvePoint { order, configurations, device_s, mean_percent, p95_percent, seed })
    }
}

#[cfg(test)]
mod tests {
    use record::facts::Facts;
    use schema::plan::Plan;

    use super::*;
    use crate::{Length, Parts, Placement, formula::step};

    const LAUNCHES: Launches = Launches { repeats: 2, startup_s: 1.0, length: Length::Steps(30.0) };

    /// All plans of data parallelism of a model of 0.1 G parameters, with times of the formula itself.
    fn planted(seconds_per_sample: f64) -> Vec<MeasuredConfiguration> {
        let facts = Facts { parameters: Some(100_000_000), ..Facts::default() };
        let mut values: Vec<f64> =
            Fit::of_priors(FormulaName::Tandem, &Parts::A800, &[]).priors.iter().map(|it| it.mean).collect();
        values[0] = seconds_per_sample;
        let plans = "dp1 ga2 ga4 gc ga2-gc bf16 gc-bf16 dp2 dp2-ga2 dp2-gc dp2-bf16 dp2-zero1 dp2-zero2 dp4 \
                     dp4-ga2 dp4-gc dp4-bf16 dp4-zero1 dp4-zero2 dp4-zero3";
        let of = |plan: &str| {
            let plan: Plan = plan.parse().unwrap();
            let placement = Placement::of(&[plan.ranks()]);
            let setting =
                Setting { facts, global_batch: 64, plan, placement, cpus: None, ranks_per_device: 1 };
            let step_s = step(FormulaName::Tandem, &values, &setting).total;
            let device_s = LAUNCHES.device_s(&setting, step_s);
            MeasuredConfiguration { observation: Observation::new(setting, step_s), device_s }
        };
        plans.split_whitespace().map(of).collect()
    }

    #[test]
    fn each_order_measures_everything_once_and_errors_fall() {
        let options = Options::new(Parts::A800, 1);
        let (a, b) = (planted(0.01), planted(0.1));
        let whole: f64 = a.iter().chain(&b).map(|row| row.device_s).sum();
        let curve = LearningCurve::new([a, b, planted(1.0)[..3].to_vec()], LAUNCHES, options);
        assert_eq!(curve.configurations(), 40, "a workload without anything to predict is left out");
        for order in [MeasuringOrder::Suggested, MeasuringOrder::Random, MeasuringOrder::Grid] {
            let points = curve.points(order, 7, 4);
            let counts: Vec<u32> = points.iter().map(|point| point.configurations).collect();
            assert_eq!(counts, [6, 10, 14, 18, 22, 26, 30, 34, 38], "{order}");
            assert!(points.windows(2).all(|pair| pair[0].device_s < pair[1].device_s), "{points:?}");
            assert!(points.iter().all(|point| point.order == order && point.seed == 7));
            let last = points.last().unwrap();
            assert!(last.device_s < whole, "two are left");
            // The times are those of the formula, so that little is left to learn.
            assert!(last.mean_percent < 0.5 && last.mean_percent < points[0].mean_percent, "{points:?}");
        }
        // Both begin with the same configurations.
        let first = |order, seed| {
            let points = curve.points(order, seed, 40);
            (points[0].device_s, points[0].mean_percent)
        };
        assert_eq!(first(MeasuringOrder::Suggested, 3), first(MeasuringOrder::Random, 3));
        assert_ne!(first(MeasuringOrder::Random, 3), first(MeasuringOrder::Random, 4));
        assert_eq!(first(MeasuringOrder::Grid, 3), first(MeasuringOrder::Grid, 4));
    }
}
