//! The best plan of a job for each number of devices and cores, and its resource-sensitivity curve.

use std::collections::BTreeSet;

use jobs::plans::{self, memory::DeviceMemory};
use model::{Answer, FittedModel, Placement, Setting, formula};
use schema::{
    catalog::Workload,
    fitted::{Facts, FittedRow, FittedWorkload, FormulaName, ModelFile},
    plan::{Plan, Precision},
    rows::{BestPlan, MemorySource},
    units::HumanBytes,
};

use crate::rank_memory::{Peak, RankMemory};

/// One more unit of a resource is worth taking if it raises the throughput by more than this (Rubick, arXiv 2408.08586).
const WORTH: f64 = 0.01;

/// The job of which plans are wanted, and the devices that it may have.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    pub model: &'a FittedModel,
    pub workload: &'a Workload,
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
}

/// A plan, and what is predicted of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub plan: Plan,
    pub nodes: u32,
    pub answer: Answer,
    pub peak: Option<Peak>,
}

/// The point of a curve: the plan, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub plan: Plan,
    pub devices: u32,
    pub cpus: Option<u16>,
    pub samples_per_s: f64,
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
    /// A search among the plans of a workload that `file` has a model of.
    pub fn new(
        model: &'a FittedModel,
        file: &ModelFile,
        fitted: &'a FittedWorkload,
        workload: &'a Workload,
        global_batch: u32,
    ) -> Search<'a> {
        let kind = if file.is_on_cores { DeviceMemory::Host } else { DeviceMemory::Own };
        let of_workload = model.fits(&fitted.workload);
        let is_bf16 = |row: &FittedRow| row.plan.precision == Precision::Bf16;
        Search {
            model,
            workload,
            global_batch,
            facts: fitted.facts,
            memory: RankMemory::new(workload, fitted, kind).with_outcomes(file),
            kind,
            knows_bf16: fitted.rows.iter().any(is_bf16),
            formulas: of_workload.iter().map(|fit| (fit.formula, fit.values())).collect(),
            measured: fitted.rows.iter().map(|row| row.plan).collect(),
            per_node: None,
            capacity: None,
        }
    }

    /// The plans that the workload can run under on up to `devices`. Those in bf16 are left out if no row is: how fast the arithmetic of
    /// a device is cannot be known without a measurement.
    pub fn plans(&self, devices: u32) -> Vec<Plan> {
        let mut plans = plans::possible(self.workload, self.global_batch, devices, self.kind);
        plans.retain(|plan| self.knows_bf16 || plan.precision == Precision::Fp32);
        plans
    }

    /// The prediction for a plan that fits, on as many devices as it has ranks.
    pub fn choice(&self, plan: &Plan, cpus: Option<u16>) -> Option<Choice> {
        let peak = self.memory.peak(plan, self.global_batch);
        let setting = self.fits(peak).then(|| self.setting(plan, cpus)).flatten()?;
        let answer = self.model.answer(&self.workload.name, &setting)?;
        Some(Choice { plan: *plan, nodes: setting.placement.nodes, answer, peak })
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
                return Some(self.model.answer(&self.workload.name, &setting)?.step_s);
            }
            if !self.model.covers(&self.workload.name, &setting) {
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

    /// For each number of devices from 1 the best of the plans that take at most as many, with a number of cores for each rank.
    fn best(&self, plans: &[Plan], devices: u32, cpus: Option<u16>) -> Vec<Option<Choice>> {
        let mut by_time: Vec<(f64, Plan)> =
            plans.iter().map(|plan| (self.step_s(plan, cpus), *plan)).collect();
        by_time.sort_by(|(a, plan), (b, other)| a.total_cmp(b).then_with(|| plan.cmp(other)));
        let mut best: Vec<Option<Choice>> = vec![None; devices as usize];
        for (_, plan) in by_time.into_iter().take_while(|(step_s, _)| step_s.is_finite()) {
            let of_ranks = &mut best[plan.ranks() as usize - 1];
            if of_ranks.is_none() {
                *of_ranks = self.choice(&plan, cpus);
            }
        }
        for index in 1..best.len() {
            let fewer = best[index - 1];
            let is_better = |own: &Choice| fewer.is_none_or(|fewer| own.answer.step_s < fewer.answer.step_s);
            best[index] = best[index].filter(is_better).or(fewer);
        }
        best
    }

    /// The best plan for each number of devices from `first` to `last` and of cores for each rank, in ascending order.
    ///
    /// # Errors
    /// No plan fits, or the model describes none.
    pub fn rows(&self, first: u32, last: u32, cpus: &[Option<u16>]) -> Result<Vec<BestPlan>, NoPlan> {
        let plans = self.plans(last);
        let best: Vec<Vec<Option<Choice>>> = cpus.iter().map(|cpus| self.best(&plans, last, *cpus)).collect();
        if best.iter().flatten().flatten().next().is_none() {
            return Err(self.no_plan(&plans, last, cpus));
        }
        let points = |of: &[Option<Choice>], cpus| -> Vec<Option<Point>> {
            of.iter().map(|choice| choice.map(|choice| choice.point(self.global_batch, cpus))).collect()
        };
        let raw: Vec<Vec<Option<Point>>> =
            best.iter().zip(cpus).map(|(of, cpus)| points(of, *cpus)).collect();
        let curve = flattened(&raw);
        let indices = (first.max(1) as usize - 1)..last as usize;
        let of_cpus = |(number, cpus): (usize, &Option<u16>)| {
            let row = |index: usize| self.row(index, *cpus, best[number][index], curve[number][index]);
            indices.clone().map(row).collect::<Vec<_>>()
        };
        Ok(cpus.iter().enumerate().flat_map(of_cpus).collect())
    }

    fn no_plan(&self, plans: &[Plan], devices: u32, cpus: &[Option<u16>]) -> NoPlan {
        let job = format!("{}@b{}", self.workload.name, self.global_batch);
        let unlimited = Search { capacity: Some(u64::MAX), ..self.clone() };
        let described = plans
            .iter()
            .filter(|plan| cpus.iter().any(|cpus| unlimited.choice(plan, *cpus).is_some()))
            .filter_map(|plan| Some((self.memory.peak(plan, self.global_batch)?.at_most, *plan)));
        match (described.min(), self.capacity) {
            (None, _) => NoPlan::Described { job, devices },
            (Some((needed, smallest)), Some(capacity)) if needed < u64::MAX => {
                NoPlan::Fits { job, devices, capacity, smallest, needed }
            }
            (Some(_), _) => NoPlan::Unfit { job, devices },
        }
    }

    fn row(&self, index: usize, cpus: Option<u16>, best: Option<Choice>, curve: Option<Point>) -> BestPlan {
        let row = BestPlan {
            workload: self.workload.name.clone(),
            global_batch: self.global_batch,
            devices: index as u32 + 1,
            cpus,
            ..BestPlan::default()
        };
        let (Some(best), Some(curve)) = (best, curve) else { return row };
        let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
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
            curve_plan: Some(curve.plan),
            curve_devices: Some(curve.devices),
            curve_cpus: curve.cpus,
            curve_samples_per_s: Some(curve.samples_per_s),
            ..row
        }
    }
}

impl Choice {
    fn point(&self, global_batch: u32, cpus: Option<u16>) -> Point {
        let samples_per_s = f64::from(global_batch) / self.answer.step_s;
        Point { plan: self.plan, devices: self.plan.ranks(), cpus, samples_per_s }
    }
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
                (Some(a), Some(b)) if b.samples_per_s > a.samples_per_s => Some(b),
                (a, b) => a.or(b),
            };
            let is_worth =
                |own: &Point| kept.is_none_or(|kept| own.samples_per_s > kept.samples_per_s * (1.0 + WORTH));
            row.push(own.filter(is_worth).or(kept));
        }
        curve.push(row);
    }
    curve
}
