//! Every plan computes the same thing: one table over all plans of one and two ranks.

mod cover;
mod restored;

use std::{
    fmt,
    process::ExitStatus,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use schema::{
    catalog::{Catalog, Optimizer},
    device::Device,
    plan::{Plan, Precision},
    spec::{LaunchSpec, Program},
    wire::EventLine,
};

use self::cover::pairwise;
use crate::support::{Worker, launch_of, steps};

const STEPS: u64 = 20;
const GLOBAL_BATCH: u32 = 8;

const SGD: Optimizer = Optimizer::Sgd { learning_rate: 0.02, momentum: 0.9, weight_decay: 1e-4 };
/// It hides a gradient that is wrong by a constant factor, which SGD shows.
const ADAMW: Optimizer =
    Optimizer::Adamw { learning_rate: 1e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 };
const OPTIMIZERS: [(&str, Optimizer); 2] = [("SGD", SGD), ("AdamW", ADAMW)];

/// Those of `definitions.toml`.
const MODELS: [&str; 4] = ["transformer", "recurrent", "convolutional", "residual"];
/// The others have no tensor-parallel form.
const WITH_TENSOR_PARALLELISM: &str = "transformer";
/// Without exactness its batch norm looks at a micro-batch as a whole, so plans that cut the batch differ.
const WITH_BATCH_NORM: &str = "residual";

/// A row of the table.
#[derive(Clone, Copy, PartialEq)]
struct Case {
    model: &'static str,
    optimizer: (&'static str, Optimizer),
    plan: Plan,
    exact: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (optimizer, _) = self.optimizer;
        let numbers = if self.exact { "fp64" } else { "fp32" };
        write!(f, "{} with {optimizer} in {numbers} under '{}'", self.model, self.plan)
    }
}

impl Case {
    fn spec(&self) -> LaunchSpec {
        let mut catalog = Catalog::default();
        catalog.add("definitions.toml", include_str!("plans/definitions.toml")).unwrap();
        let mut workload = catalog.get(self.model).expect("the file defines it").clone();
        workload.optimizer = self.optimizer.1;
        let mut spec = launch_of(workload, GLOBAL_BATCH, self.plan, Some(STEPS));
        spec.devices = vec![Device::AllCores; self.plan.ranks() as usize];
        let Program::Training(training) = &mut spec.program else { unreachable!("it trains") };
        training.exact = self.exact;
        spec
    }

    /// What its losses are held to. In fp64 bf16 rounds nothing; in fp32 it does, so that it is held to itself.
    fn reference(&self) -> Case {
        let precision = if self.exact { Precision::Fp32 } else { self.plan.precision };
        Case { plan: Plan { precision, ..Plan::default() }, ..*self }
    }

    /// The largest difference of two losses, relative to them.
    fn tolerance(&self) -> f64 {
        if self.exact { 1e-9 } else { 1e-2 }
    }

    /// From this column on, the values are those of the plan.
    const PLAN_COLUMN: usize = 2;

    /// Columns of the table.
    fn values(&self) -> Vec<usize> {
        let Plan { dp, tp, pp, zero, ga, gc, offload, precision } = self.plan;
        let place = |model| MODELS.iter().position(|other| *other == model).expect("it is one of them");
        vec![
            place(self.model),
            usize::from(self.optimizer == OPTIMIZERS[0]),
            // The division among ranks, and then what each of them does.
            usize::from(dp) + 10 * usize::from(tp) + 100 * usize::from(pp) + 1000 * usize::from(zero),
            ga.into(),
            gc.into(),
            offload.into(),
            usize::from(precision == Precision::Bf16),
        ]
    }
}

/// Every plan of one or two ranks that all models have, `dp1` first.
fn plans() -> Vec<Plan> {
    ["dp1", "dp2", "dp2-zero1", "dp2-zero2", "dp2-zero3", "pp2"]
        .into_iter()
        .flat_map(plans_of_ranks)
        .collect()
}

/// Every plan that divides a job among ranks as `ranks` does.
fn plans_of_ranks(ranks: &str) -> Vec<Plan> {
    let ranks: Plan = ranks.parse().expect("a canonical plan");
    let mut plans = Vec::new();
    for ga in [1, 2, 4] {
        for switches in 0..8 {
            let [gc, offload, bf16] = [1, 2, 4].map(|switch| switches & switch != 0);
            let precision = if bf16 { Precision::Bf16 } else { Precision::Fp32 };
            plans.push(Plan { ga, gc, offload, precision, ..ranks });
        }
    }
    plans
}

fn table(exact: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for model in MODELS.into_iter().filter(|model| exact || *model != WITH_BATCH_NORM) {
        for optimizer in OPTIMIZERS {
            let mut plans = plans();
            if model == WITH_TENSOR_PARALLELISM {
                plans.extend(plans_of_ranks("tp2"));
            }
            cases.extend(plans.into_iter().map(|plan| Case { model, optimizer, plan, exact }));
        }
    }
    cases
}

/// The job's losses when it has come to its end.
fn losses(case: &Case) -> Vec<f64> {
    let ranks = Worker::start_ranks(&case.spec());
    ranks[0].grant.extend_to(u64::MAX);
    let losses = losses_of(ranks);
    assert_eq!(losses.len() as u64, STEPS, "{case}");
    losses
}

/// The job's loss of each step, when its ranks have ended: the mean over those that have samples, which are equally many.
fn losses_of(ranks: Vec<Worker>) -> Vec<f64> {
    let ends: Vec<_> = ranks.into_iter().map(Worker::finish).collect();
    let last = |(said, _): &(Vec<EventLine>, ExitStatus)| said.last().map(|line| line.event.clone());
    assert!(
        ends.iter().all(|(_, status)| status.success()),
        "{:#?}",
        ends.iter().map(last).collect::<Vec<_>>()
    );
    let losses: Vec<Vec<f64>> = ends
        .iter()
        .map(|(said, _)| steps(said))
        .filter(|steps| steps.iter().all(|step| step.samples > Some(0)))
        .map(|steps| steps.iter().map(|step| step.loss.expect("it is finite")).collect())
        .collect();
    assert!(losses.iter().all(|of_rank| of_rank.len() == losses[0].len()));
    let mean = |step: usize| losses.iter().map(|of_rank| of_rank[step]).sum::<f64>() / losses.len() as f64;
    (0..losses[0].len()).map(mean).collect()
}

/// Relative to what is expected.
fn largest_difference(ours: &[f64], expected: &[f64]) -> f64 {
    let apart = |(ours, expected): (&f64, &f64)| (ours - expected).abs() / expected.abs();
    ours.iter().zip(expected).map(apart).fold(0.0, f64::max)
}

/// Applies `work` to all of `items`, with one thread per core.
fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < items.len()) {
            done.push((index, work(&items[index])));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("what it found is above")).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// All rows, or without TANDEM_SLOW=1 so few that every two values of different columns meet.
fn chosen<T: Clone>(rows: Vec<T>, values: impl Fn(&T) -> Vec<usize>) -> Vec<T> {
    if std::env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1") {
        return rows;
    }
    let few = pairwise(&rows, values);
    println!("{} of {} rows: set TANDEM_SLOW=1 for all", few.len(), rows.len());
    few
}

fn assert_losses_of_dp1(table: Vec<Case>) {
    let mut cases = chosen(table, Case::values);
    for reference in cases.iter().map(Case::reference).collect::<Vec<_>>() {
        if !cases.contains(&reference) {
            cases.push(reference);
        }
    }
    let losses = at_once(&cases, losses);
    let mut wrong = Vec::new();
    for (case, ours) in cases.iter().zip(&losses) {
        let at = cases.iter().position(|other| *other == case.reference()).expect("it was launched");
        let expected = &losses[at];
        assert!(expected.last() < expected.first(), "{case}: it learns nothing: {expected:?}");
        let apart = largest_difference(ours, expected);
        println!("{apart:.1e} {case}");
        if apart > case.tolerance() {
            wrong.push(format!("{case}: losses are {apart:.1e} apart: {ours:?} for {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_plan_gives_the_losses_of_dp1_in_fp64() {
    assert_losses_of_dp1(table(true));
}

#[test]
fn every_plan_gives_nearly_the_losses_of_dp1_in_fp32() {
    assert_losses_of_dp1(table(false));
}

/// In fp64 autocast rounds nothing, so only this shows whether a segment is made again as it was made at first.
#[test]
fn activations_that_are_made_again_are_the_same_to_the_bit() {
    let mut rows = Vec::new();
    for model in MODELS {
        for precision in [Precision::Fp32, Precision::Bf16] {
            let plan = Plan { gc: true, precision, ..Plan::default() };
            rows.push(Case { model, optimizer: OPTIMIZERS[0], plan, exact: false });
        }
    }
    let kept = |case: &Case| Case { plan: Plan { gc: false, ..case.plan }, ..*case };
    let pairs = at_once(&rows, |case| (losses(case), losses(&kept(case))));
    for (case, (again, kept)) in rows.iter().zip(pairs) {
        assert_eq!(again, kept, "{case}");
    }
}
