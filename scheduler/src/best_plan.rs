//! The best plan of a job for each number of devices and cores, and its resource-sensitivity curve.

use std::collections::BTreeSet;

use formats::{
    fitted::{BasisWord, FittedRow, FittedWorkload, FormulaName, ModelFile},
    rows::{BestPlan, MemorySource, RankBy},
};
use jobs::plans::{self, memory::DeviceMemory};
use model::{Answer, Basis, FittedModel, Placement, Setting, formula};
use record::facts::Facts;
use schema::{
    catalog::CatalogEntry,
    plan::{Plan, Precision},
    units::{HumanBytes, Nanos},
};

use crate::rank_memory::{Peak, RankMemory};

/// One more unit of a resource is worth taking if it raises the throughput by more than this (Rubick, arXiv 2408.08586).
const WORTH: f64 = 0.01;

/// The plan with the shortest mean has the smallest expected regret, if the logarithms of times are normal: the time of the plan that
/// is really the best is the same whichever is chosen.
pub const DEFAULT_RANK: RankBy = RankBy::Mean;

/// Half of a 95 % interval of a normal distribution over its standard deviation.
const HALF_WIDTH: f64 = 1.96;

/// The job of which plans are wanted, and the devices that it may have.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    pub model: &'a FittedModel,
    entry: CatalogEntry<'a>,
    pub global_batch: u32,
    facts: Facts,
    memory: RankMemory<'a>,
    kind: DeviceMemory,
    /// Whether a row is in bf16.
    knows_bf16: bool,
    /// The formulas that are asked, and the values of their parameters.
    formulas: Vec<(FormulaName, Vec<f64>)>,
    /// The plans of measured rows.
    measured: BTreeSet<Plan>,
    /// Devices of a node; `None` if all are on one.
    pub per_node: Option<u32>,
    /// Memory of a device in bytes; `None` if it is not known, so that every plan is taken to fit.
    pub capacity: Option<u64>,
    /// By what plans are compared.
    pub rank_by: RankBy,
    /// How many of the best plans there are for each number of devices.
    pub top: usize,
}

/// A plan, and what is predicted of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub plan: Plan,
    pub nodes: u32,
    pub answer: Answer,
    /// The time by which it is compared: the answer's median, mean or upper end, in seconds.
    pub score_s: f64,
    pub peak: Option<Peak>,
}

/// The point of a curve: the plan, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub plan: Plan,
    pub devices: u32,
    pub cpus: Option<u16>,
    pub samples_per_s: f64,
    /// The throughput by which points are compared: that of the time by which their plans are.
    pub rate: f64,
}

/// Why no plan is found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlan {
    #[error(
        "no plan of {job} fits on up to {devices} devices with {} each; {smallest} takes least, up to {}: take devices of \
         --memory {}MiB or more, or more devices", HumanBytes(*capacity), HumanBytes(*needed), needed.div_ceil(1 << 20)
    )]
    Fits { job: String, devices: u32, capacity: u64, smallest: Plan, needed: u64 },
    #[error(
        "no plan of {job} is known to fit on up to {devices} devices: all need as much memory as one that did not fit, or more; take \
         more devices, or name their memory with --memory"
    )]
    Unfit { job: String, devices: u32 },
    #[error(
        "the model describes no plan of {job} on up to {devices} devices; fit rows of several plans with `sched fit`"
    )]
    Described { job: String, devices: u32 },
}

impl<'a> Search<'a> {
    /// A search among the plans of a workload or program that `file` has a model of.
    pub fn new(
        model: &'a FittedModel,
        file: &ModelFile,
        fitted: &'a FittedWorkload,
        entry: CatalogEntry<'a>,
        global_batch: u32,
    ) -> Search<'a> {
        let kind = if file.is_on_cores { DeviceMemory::Host } else { DeviceMemory::Own };
        let of_workload = model.fits(&fitted.workload);
        let is_bf16 = |row: &FittedRow| row.plan.precision == Precision::Bf16;
        Search {
            model,
            entry,
            global_batch,
            facts: fitted.facts,
            memory: RankMemory::new(entry, fitted, kind).with_outcomes(file),
            kind,
            knows_bf16: fitted.rows.iter().any(is_bf16),
            formulas: of_workload.iter().map(|fit| (fit.formula, fit.values())).collect(),
            measured: fitted.rows.iter().map(|row| row.plan).collect(),
            per_node: None,
            capacity: None,
            rank_by: DEFAULT_RANK,
            top: 1,
        }
    }

    /// The plans that the job can run under on up to `devices`. Those in bf16 are left out if no row is: how fast the arithmetic of
    /// a device is cannot be known without a measurement.
    pub fn plans(&self, devices: u32) -> Vec<Plan> {
        let mut plans = plans::possible(self.entry, self.global_batch, devices, self.kind);
        plans.retain(|plan| self.knows_bf16 || plan.precision == Precision::Fp32);
        plans
    }

    /// The prediction for a plan that fits, on as many devices as it has ranks.
    pub fn choice(&self, plan: &Plan, cpus: Option<u16>) -> Option<Choice> {
        let peak = self.peak(plan);
        let setting = self.fits(peak).then(|| self.setting(plan, cpus)).flatten()?;
        let answer = self.model.answer(self.entry.name(), &setting)?;
        let score_s = score_s(self.rank_by, &answer);
        Some(Choice { plan: *plan, nodes: setting.placement.nodes, answer, score_s, peak })
    }

    fn peak(&self, plan: &Plan) -> Option<Peak> {
        self.memory.peak(plan, self.global_batch)
    }

    fn setting(&self, plan: &Plan, cpus: Option<u16>) -> Option<Setting> {
        let placement = self.placement(plan)?;
        let (facts, global_batch, plan) = (self.facts, self.global_batch, *plan);
        Some(Setting { facts, global_batch, plan, placement, cpus, ranks_per_device: 1 })
    }

    /// The time of a step in seconds, as in [`Search::choice`] but without its interval, which takes longer to find; infinite if there is
    /// none.
    fn step_s(&self, plan: &Plan, cpus: Option<u16>) -> f64 {
        let time = || {
            let setting = self.setting(plan, cpus)?;
            if self.measured.contains(plan) {
                return Some(self.model.answer(self.entry.name(), &setting)?.step_s);
            }
            if !self.model.covers(self.entry.name(), &setting) {
                return None;
            }
            let mut asked = self.formulas.iter();
            let (formula, values) =
                asked.find(|(formula, _)| formula::applies(*formula, &setting).is_ok())?;
            Some(formula::step(*formula, values, &setting).total)
        };
        time().unwrap_or(f64::INFINITY)
    }

    /// Whether a rank with this peak fits on a device, by the upper end of its interval. If the memory of the device is not known, it is
    /// that of the rows, on which some plans did not fit.
    fn fits(&self, peak: Option<Peak>) -> bool {
        peak.is_none_or(|peak| match self.capacity {
            Some(capacity) => peak.at_most <= capacity,
            None => peak.source != MemorySource::Unfit,
        })
    }

    /// Full nodes, and one with the rest. Nodes are alike if the plan divides the model, and tensor-parallel ranks are never on several;
    /// `None` if that is not possible.
    fn placement(&self, plan: &Plan) -> Option<Placement> {
        let devices = plan.ranks();
        let most = self.per_node.unwrap_or(devices).clamp(1, devices);
        if plan.tp == 1 && plan.pp == 1 {
            let mut nodes = vec![most; (devices / most) as usize];
            nodes.extend(Some(devices % most).filter(|rest| *rest > 0));
            return Some(Placement::of(&nodes));
        }
        let is_possible = |each: &u32| devices.is_multiple_of(*each) && each.is_multiple_of(plan.tp.into());
        let each = (1..=most).rev().find(is_possible)?;
        Some(Placement::of(&vec![each; (devices / each) as usize]))
    }

    /// For each number of devices from 1 the best of the plans that take at most as many, with a number of cores for each rank. The best
    /// is the first.
    fn best(&self, plans: &[Plan], devices: u32, cpus: Option<u16>) -> Vec<Vec<Choice>> {
        let mut by_time: Vec<(f64, Plan)> =
            plans.iter().map(|plan| (self.step_s(plan, cpus), *plan)).collect();
        by_time.sort_by(|(a, plan), (b, other)| a.total_cmp(b).then_with(|| plan.cmp(other)));
        let mut best: Vec<Vec<Choice>> = vec![Vec::new(); devices as usize];
        for (step_s, plan) in by_time.into_iter().take_while(|(step_s, _)| step_s.is_finite()) {
            let for_ranks = &mut best[plan.ranks() as usize - 1];
            // No score is below its median, and those of all plans from here on are longer.
            let is_behind = |last: &Choice| for_ranks.len() == self.top && last.score_s <= step_s;
            if !for_ranks.last().is_some_and(is_behind)
                && let Some(choice) = self.choice(&plan, cpus)
            {
                for_ranks.push(choice);
                self.keep_best(for_ranks);
            }
        }
        for index in 1..best.len() {
            let mut at_most = best[index - 1].clone();
            at_most.append(&mut best[index]);
            self.keep_best(&mut at_most);
            best[index] = at_most;
        }
        best
    }

    /// Sorts choices, the best first, and keeps as many as are wanted. Of equal ones the first stays ahead.
    fn keep_best(&self, choices: &mut Vec<Choice>) {
        choices.sort_by(|a, b| a.score_s.total_cmp(&b.score_s));
        choices.truncate(self.top);
    }

    /// For each number of devices from 1 the best of the measured plans that fit and take at most as many.
    fn best_measured(&self, plans: &[Plan], devices: u32, cpus: Option<u16>) -> Vec<Option<Choice>> {
        let mut best: Vec<Option<Choice>> = vec![None; devices as usize];
        for plan in plans.iter().filter(|plan| self.measured.contains(plan)) {
            let choice = self.choice(plan, cpus).filter(|choice| choice.answer.basis == Basis::Measured);
            let for_ranks = &mut best[plan.ranks() as usize - 1];
            *for_ranks = better(*for_ranks, choice);
        }
        for index in 1..best.len() {
            best[index] = better(best[index - 1], best[index]);
        }
        best
    }

    /// The best plan for each number of devices from `first` to `last` and of cores for each rank, in ascending order.
    ///
    /// # Errors
    /// No plan fits, or the model describes none.
    pub fn rows(&self, first: u32, last: u32, cpus: &[Option<u16>]) -> Result<Vec<BestPlan>, NoPlan> {
        let plans = self.plans(last);
        let best: Vec<Vec<Vec<Choice>>> = cpus.iter().map(|cpus| self.best(&plans, last, *cpus)).collect();
        if best.iter().flatten().flatten().next().is_none() {
            return Err(self.no_plan(&plans, last, cpus));
        }
        let measured: Vec<Vec<Option<Choice>>> =
            cpus.iter().map(|cpus| self.best_measured(&plans, last, *cpus)).collect();
        let points = |choices: &[Vec<Choice>], cpus| -> Vec<Option<Point>> {
            let point = |choices: &Vec<Choice>| Some(choices.first()?.point(self.global_batch, cpus));
            choices.iter().map(point).collect()
        };
        let raw: Vec<Vec<Option<Point>>> =
            best.iter().zip(cpus).map(|(of, cpus)| points(of, *cpus)).collect();
        let curve = flattened(&raw);
        let indices = (first.max(1) as usize - 1)..last as usize;
        let of_cpus = |(number, cpus): (usize, &Option<u16>)| {
            let rows = |index: usize| {
                let best_measured = measured[number][index];
                self.rows_of(index, *cpus, (&best[number][index], best_measured), curve[number][index])
            };
            indices.clone().flat_map(rows).collect::<Vec<_>>()
        };
        Ok(cpus.iter().enumerate().flat_map(of_cpus).collect())
    }

    fn no_plan(&self, plans: &[Plan], devices: u32, cpus: &[Option<u16>]) -> NoPlan {
        let job = format!("{}@b{}", self.entry.name(), self.global_batch);
        let unlimited = Search { capacity: Some(u64::MAX), ..self.clone() };
        let described = plans
            .iter()
            .filter(|plan| cpus.iter().any(|cpus| unlimited.choice(plan, *cpus).is_some()))
            .filter_map(|plan| Some((self.peak(plan)?.at_most, *plan)));
        match (described.min(), self.capacity) {
            (None, _) => NoPlan::Described { job, devices },
            (Some((needed, smallest)), Some(capacity)) if needed < u64::MAX => {
                NoPlan::Fits { job, devices, capacity, smallest, needed }
            }
            (Some(_), _) => NoPlan::Unfit { job, devices },
        }
    }

    /// The rows of a number of devices: one for each of the best plans, or one without a plan. The first has the point of the curve, and
    /// the best plan that was measured if it is none itself.
    fn rows_of(
        &self,
        index: usize,
        cpus: Option<u16>,
        (best, best_measured): (&[Choice], Option<Choice>),
        curve: Option<Point>,
    ) -> Vec<BestPlan> {
        let empty = BestPlan {
            workload: self.entry.name().to_owned(),
            global_batch: self.global_batch,
            devices: index as u32 + 1,
            cpus,
            order: 1,
            ..BestPlan::default()
        };
        let row = |(number, choice): (usize, &Choice)| {
            let order = number as u32 + 1;
            self.row(BestPlan { order, ..empty.clone() }, *choice)
        };
        let mut rows: Vec<BestPlan> = best.iter().enumerate().map(row).collect();
        let (Some(first), Some(curve)) = (rows.first_mut(), curve) else { return vec![empty] };
        let best_measured = best_measured.filter(|_| first.basis != Some(BasisWord::Measured));
        first.measured_plan = best_measured.map(|choice| choice.plan);
        first.measured_step_ns = best_measured.map(|choice| nanoseconds(choice.answer.step_s));
        first.curve_plan = Some(curve.plan);
        first.curve_devices = Some(curve.devices);
        first.curve_cpus = curve.cpus;
        first.curve_samples_per_s = Some(curve.samples_per_s);
        rows
    }

    fn row(&self, row: BestPlan, best: Choice) -> BestPlan {
        let (basis, formula) = best.answer.basis.in_rows();
        BestPlan {
            plan: Some(best.plan),
            ranks: Some(best.plan.ranks()),
            nodes: Some(best.nodes),
            step_ns: Some(nanoseconds(best.answer.step_s)),
            step_ns_ci_lo: Some(nanoseconds(best.answer.interval_s.0)),
            step_ns_ci_hi: Some(nanoseconds(best.answer.interval_s.1)),
            samples_per_s: Some(f64::from(self.global_batch) / best.answer.step_s),
            basis: Some(basis),
            formula,
            memory_bytes: best.peak.map(|peak| peak.bytes),
            memory_bytes_ci_hi: best.peak.map(|peak| peak.at_most),
            memory_source: best.peak.map(|peak| peak.source),
            ..row
        }
    }
}

impl Choice {
    fn point(&self, global_batch: u32, cpus: Option<u16>) -> Point {
        let [samples_per_s, rate] =
            [self.answer.step_s, self.score_s].map(|seconds| f64::from(global_batch) / seconds);
        Point { plan: self.plan, devices: self.plan.ranks(), cpus, samples_per_s, rate }
    }
}

/// The time by which an answer is compared, which is no shorter than its median.
fn score_s(rank_by: RankBy, answer: &Answer) -> f64 {
    let (lo, hi) = answer.interval_s;
    match rank_by {
        RankBy::Median => answer.step_s,
        RankBy::Mean => {
            let deviation = (hi / lo).ln() / (2.0 * HALF_WIDTH);
            answer.step_s * (0.5 * deviation * deviation).exp()
        }
        RankBy::Upper => hi.max(answer.step_s),
    }
}

/// The better of two choices; of equal ones the first.
fn better(first: Option<Choice>, second: Option<Choice>) -> Option<Choice> {
    let is_better = |second: &Choice| first.is_none_or(|first| second.score_s < first.score_s);
    second.filter(is_better).or(first)
}

/// A time in whole nanoseconds, at most [`Nanos::LONGEST`], where wide intervals end.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    Nanos::from_secs_f64(seconds).min(Nanos::LONGEST).0
}

/// The resource-sensitivity curve over cores (outer) and devices (inner), both ascending: a point is kept from one unit less, with its
/// smaller allocation, unless the unit raises the throughput by more than 1 %. So it never falls.
pub fn flattened(best: &[Vec<Option<Point>>]) -> Vec<Vec<Option<Point>>> {
    let mut curve: Vec<Vec<Option<Point>>> = Vec::new();
    for of_cpus in best {
        let mut row: Vec<Option<Point>> = Vec::new();
        for (index, own) in of_cpus.iter().enumerate() {
            let fewer_devices = row.last().copied().flatten();
            let fewer_cpus = curve.last().and_then(|fewer: &Vec<Option<Point>>| fewer[index]);
            let kept = match (fewer_devices, fewer_cpus) {
                (Some(a), Some(b)) if b.rate > a.rate => Some(b),
                (a, b) => a.or(b),
            };
            let is_worth = |own: &Point| kept.is_none_or(|kept| own.rate > kept.rate * (1.0 + WORTH));
            row.push(own.filter(is_worth).or(kept));
        }
        curve.push(row);
    }
    curve
}
