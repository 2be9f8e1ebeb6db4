//! Errors of a fit on configurations that it was not fitted to.

use formats::fitted::{FitErrors, FormulaName};
use schema::plan::{Plan, Precision};

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{
    Fit, Observation, Options, Setting,
    choice::described,
    fit::{FEWEST, fit_described, fit_quickly},
    formula,
};

/// The prediction of a row that was left out of the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeftOut {
    pub setting: Setting,
    pub measured_s: f64,
    pub predicted_s: f64,
    /// The 95 % interval.
    pub interval_s: (f64, f64),
}

impl LeftOut {
    /// `|predicted / measured - 1|`, in percent.
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.predicted_s / self.measured_s - 1.0).abs()
    }

    fn is_covered(&self) -> bool {
        (self.interval_s.0..=self.interval_s.1).contains(&self.measured_s)
    }
}

/// Predicts rows that were not fitted to.
pub fn predict(fit: &Fit, observations: &[Observation]) -> Vec<LeftOut> {
    let of = |row: &Observation| {
        let (predicted_s, interval_s) = fit.predict(&row.setting)?;
        Some(LeftOut { setting: row.setting, measured_s: row.step_s, predicted_s, interval_s })
    };
    observations.iter().filter_map(of).collect()
}

/// The most parts into which configurations are divided to leave out one after another.
const MOST_PARTS: usize = 20;

/// The prediction of a row by a fit to the rows of other configurations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single {
    /// The number of its configuration.
    pub(crate) configuration: usize,
    row: Observation,
    /// Logarithm of the predicted time.
    log: f64,
    /// Its standard deviation.
    pub(crate) deviation: f64,
}

impl Single {
    /// Logarithm of predicted over measured.
    pub(crate) fn error(&self) -> f64 {
        self.log - self.row.step_s.ln()
    }

    /// The error over its standard deviation.
    pub(crate) fn ratio(&self) -> f64 {
        self.error() / self.deviation
    }
}

/// Fits without each configuration in turn, and predicts it. Of more than twenty configurations, a twentieth is left out at a time.
/// The formula describes all rows. Nothing of a row that is left out is in what is assumed before its fit. Empty if too few are left.
pub(crate) fn singly(formula: FormulaName, described: &[Observation], options: &Options) -> Vec<Single> {
    let (numbers, count) = numbers(described);
    if count <= FEWEST {
        return Vec::new();
    }
    let mut all = Vec::new();
    let parts = count.min(MOST_PARTS);
    for part in 0..parts {
        let rows = described.iter().zip(&numbers);
        let (own, others): (Vec<_>, Vec<_>) = rows.partition(|(_, number)| *number % parts == part);
        let others: Vec<Observation> = others.into_iter().map(|(row, _)| *row).collect();
        let again = fit_quickly(formula, &others, options);
        for (row, number) in own {
            let (log, derivatives) = formula::log_step(formula, &again.logarithms, &row.setting).total;
            let deviation = again.deviation_at(&row.setting, &derivatives);
            all.push(Single { configuration: *number, row: *row, log, deviation });
        }
    }
    all
}

/// Predicts each configuration from the others, and sets the reach of the intervals of `fit` by the errors.
pub fn leave_one_out(fit: &mut Fit, observations: &[Observation], options: &Options) -> Vec<LeftOut> {
    let singly = singly(fit.formula, &described(fit.formula, observations), options);
    fit.reach = reach(singly.iter().map(|single| single.ratio().abs()).collect());
    let of = |Single { row, log, deviation, .. }: &Single| {
        let half = fit.reach * deviation;
        let interval_s = ((log - half).exp(), (log + half).exp());
        LeftOut { setting: row.setting, measured_s: row.step_s, predicted_s: log.exp(), interval_s }
    };
    singly.iter().map(of).collect()
}

/// Half of a 95 % interval over the standard deviation, by the sizes of errors over their standard deviations.
///
/// Of [`MANY`] or more it is their 95 % quantile, as that of split conformal prediction (Lei et al., JASA 2018). Of fewer, that quantile
/// would be close to their maximum or beyond: it is that of Student's t for errors that are normal, with a variance that is the mean of
/// their squares and of [`ASSUMED`] more of the size that was expected. At least that of a normal distribution.
pub(crate) fn reach(mut ratios: Vec<f64>) -> f64 {
    const NORMAL: f64 = 1.96;
    const MANY: usize = 60;
    const ASSUMED: f64 = 3.0;
    if ratios.len() >= MANY {
        return conformal(&mut ratios).unwrap_or(NORMAL).max(NORMAL);
    }
    let freedom = ratios.len() as f64 + ASSUMED;
    let squares: f64 = ratios.iter().map(|ratio| ratio * ratio).sum();
    let quantile = StudentsT::new(0.0, 1.0, freedom).map_or(NORMAL, |of| of.inverse_cdf(0.975));
    (quantile * ((squares + ASSUMED) / freedom).sqrt()).max(NORMAL)
}

/// The `ceil(0.95 (n + 1))`-th of n sizes in ascending order, or the largest; `None` of no sizes.
pub(crate) fn conformal(ratios: &mut [f64]) -> Option<f64> {
    ratios.sort_by(f64::total_cmp);
    let rank = (0.95 * (ratios.len() + 1) as f64).ceil() as usize;
    ratios.get(rank.clamp(1, ratios.len().max(1)) - 1).copied()
}

/// Fits to a share of the configurations, chosen by the seed, and predicts the others. `None` if too few are left to fit to.
pub fn held_out(
    formula: FormulaName,
    observations: &[Observation],
    share: f64,
    options: &Options,
) -> Option<Vec<LeftOut>> {
    let (own, others) = split(&described(formula, observations), share, options.seed)?;
    let mut fit = fit_described(formula, &own, options);
    leave_one_out(&mut fit, &own, options);
    Some(predict(&fit, &others))
}

/// The rows of the configurations that are fitted to, and those of the share that is predicted. `None` if either are too few.
pub(crate) fn split(
    rows: &[Observation],
    share: f64,
    seed: u64,
) -> Option<(Vec<Observation>, Vec<Observation>)> {
    let (numbers, count) = numbers(rows);
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    let kept = (count as f64 * (1.0 - share)).round() as usize;
    let (own, others): (Vec<_>, Vec<_>) =
        rows.iter().zip(numbers).partition(|(_, number)| order[..kept].contains(number));
    let [own, others] = [own, others].map(|rows| rows.into_iter().map(|(row, _)| *row).collect::<Vec<_>>());
    (kept >= FEWEST && !others.is_empty()).then_some((own, others))
}

/// The number of the configuration of each row, counted from 0 in the order in which they appear, and how many there are.
fn numbers(observations: &[Observation]) -> (Vec<usize>, usize) {
    let mut first: Vec<usize> = Vec::new();
    let mut number = |(index, row): (usize, &Observation)| {
        let known = first.iter().position(|first| observations[*first].setting == row.setting);
        known.unwrap_or_else(|| {
            first.push(index);
            first.len() - 1
        })
    };
    let numbers = observations.iter().enumerate().map(&mut number).collect();
    (numbers, first.len())
}

/// The family of a plan, by which errors are listed.
pub fn family(plan: &Plan) -> &'static str {
    match plan {
        Plan { tp: 2.., .. } | Plan { pp: 2.., .. } => "3d",
        Plan { offload: true, .. } => "offload",
        Plan { zero: 1.., .. } => "zero",
        Plan { precision: Precision::Bf16, .. } => "bf16",
        Plan { gc: true, .. } => "gc",
        _ => "dp",
    }
}

/// The leave-one-out errors, by which the reach of the intervals was set, as [`errors`] has them, without the
/// share that is covered.
pub fn errors_singly(left_out: &[LeftOut]) -> Vec<FitErrors> {
    let uncovered = |errors: FitErrors| FitErrors { covered_percent: None, ..errors };
    errors(left_out).into_iter().map(uncovered).collect()
}

/// The errors of all rows, and of the rows of each family if there are several.
pub fn errors(left_out: &[LeftOut]) -> Vec<FitErrors> {
    let mut families: Vec<&str> = left_out.iter().map(|row| family(&row.setting.plan)).collect();
    families.sort_unstable();
    families.dedup();
    let of = |name: &str, rows: &[&LeftOut]| {
        let covered = rows.iter().filter(|row| row.is_covered()).count();
        summary(name, rows.iter().map(|row| row.error_percent()).collect(), Some(covered))
    };
    let mut errors = Vec::new();
    if left_out.is_empty() {
        return errors;
    }
    errors.push(of("all", &left_out.iter().collect::<Vec<_>>()));
    if families.len() > 1 {
        for name in families {
            let rows: Vec<&LeftOut> =
                left_out.iter().filter(|row| family(&row.setting.plan) == name).collect();
            errors.push(of(name, &rows));
        }
    }
    errors
}

/// The errors of some rows, of which there is at least one and `covered` lie in their intervals, if that is known.
pub(crate) fn summary(plans: &str, mut percents: Vec<f64>, covered: Option<usize>) -> FitErrors {
    percents.sort_by(f64::total_cmp);
    let count = percents.len() as f64;
    FitErrors {
        plans: plans.into(),
        rows: percents.len() as u32,
        mean_percent: percents.iter().sum::<f64>() / count,
        // That of the nearest rank.
        p95_percent: percents[((0.95 * count).ceil() as usize).max(1) - 1],
        max_percent: percents[percents.len() - 1],
        covered_percent: covered.map(|covered| 100.0 * covered as f64 / count),
    }
}
