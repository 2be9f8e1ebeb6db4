//! What a round of a policy that chooses the resources of all jobs costs.
//!
//! `rounds`: by how many jobs there are, the mean over the rounds of a run on 64 devices, in which all jobs arrive at once and each
//! scales in its own way.
//!
//! `rubick`: by the numbers of devices and of jobs, the mean over the rounds at arrivals while as many jobs as devices are there, half
//! of them guaranteed. The curves are known by then, as in any round but the first, whose time is printed.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use engine::{
    Engine, Settings,
    job::{JobRequest, Payload},
    journal::Unrecorded,
    policy::{Decision, Policy},
    topology::Topology,
    view::{PolicyContext, View},
};
use formats::trace::Class;
use jobs::plans::Judgement;
use launches::simulated;
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use schema::{
    catalog::{Catalog, CatalogEntry},
    plan::Plan,
    units::Nanos,
};

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;

use scheduler::legal_plans;
use support::{SECOND, asked, built};

/// A job is the faster on more devices, the larger its batch.
struct ByBatch;

impl Throughput for ByBatch {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let devices: u32 = question.placement.iter().sum();
        let exponent = 0.3 + 0.6 * f64::from(question.job.global_batch? % 101) / 101.0;
        let step_ns = SECOND as f64 / f64::from(devices).powf(exponent);
        Some(Prediction { step_ns, step_ns_ci: None })
    }
}

/// Adds up the times of decisions that are rounds.
struct Timed<'a> {
    policy: Box<dyn Policy>,
    spent: &'a Cell<(Duration, u32, Duration)>,
}

impl Policy for Timed<'_> {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(view);
        if view.now.0.is_multiple_of(60 * SECOND) {
            let (sum, count, most) = self.spent.get();
            let took = began.elapsed();
            self.spent.set((sum + took, count + 1, most.max(took)));
        }
        decision
    }
}

fn job(id: u32, steps: u64) -> JobRequest {
    asked(id, 0, 1, steps, 1).with(|request| {
        request.what = Payload::Training { workload: "lstm".into(), global_batch: Some(8 * (id + 1)) };
        request.plan = "dp1".parse().ok();
        request.elastic = true;
        request.step_ns = None;
    })
}

fn rounds(criterion: &mut Criterion) {
    let topology = Topology::uniform(64, 8, "GPU");
    let costs = Named::constant(Nanos(30 * SECOND));
    let mut group = criterion.benchmark_group("rounds");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for count in [100u32, 400] {
        let mut random = fastrand::Rng::with_seed(1);
        let jobs: Vec<_> = (0..count).map(|id| job(id, random.u64(60..3_000))).collect();
        let legal = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
        let plans = legal_plans::enumerate(&jobs, &Catalog::embedded(), &topology, legal);
        for name in ["optimus", "sia", "pollux-fixed-batch"] {
            let spent = Cell::new((Duration::ZERO, 0, Duration::ZERO));
            let run = || {
                let known =
                    PolicyContext { costs: Some(&costs), plans: Some(&plans), history: &[], classes: None };
                let settings = simulated::Settings::default();
                let mut sim = simulated::cluster(&topology, &jobs, Box::new(ByBatch), &costs, settings)
                    .expect("all is known");
                let mut engine = Engine::new(&topology, &jobs, ByBatch, Settings::default()).knowing(known);
                let mut policy = Timed { policy: built(name), spent: &spent };
                engine::run(&mut engine, &mut sim, &mut policy, &mut Unrecorded).expect("every job ends")
            };
            group.bench_function(BenchmarkId::new(name, count), |bencher| {
                bencher.iter_custom(|iterations| {
                    let mut means = Duration::ZERO;
                    for _ in 0..iterations {
                        spent.set(Default::default());
                        run();
                        means += spent.get().0 / spent.get().1;
                    }
                    means
                });
            });
            let (_, count, most) = spent.get();
            println!("{name}: {count} rounds, the longest {most:?}");
        }
    }
    group.finish();
}

/// Jobs of six workloads and four requests, half of them guaranteed. All but the last twenty arrive at once, and the others one a
/// second.
fn mixed(count: u32) -> Vec<JobRequest> {
    let workloads = [
        ("gpt2-mini", 16),
        ("bert-mini", 32),
        ("t5-mini", 16),
        ("lstm", 64),
        ("vit-mini", 64),
        ("resnet18-mini", 32),
    ];
    let job = |id: u32| {
        let (workload, batch) = workloads[id as usize % workloads.len()];
        let plan: Plan =
            ["dp1", "dp2", "dp4", "dp8"][id as usize / workloads.len() % 4].parse().expect("it is a plan");
        let arrival = id.saturating_sub(count - 21);
        asked(id, u64::from(arrival) * SECOND, plan.ranks(), 100_000 + u64::from(id), 1).with(|request| {
            request.what = Payload::Training { workload: workload.into(), global_batch: Some(batch) };
            request.plan = Some(plan);
            request.elastic = true;
            request.class = if id.is_multiple_of(2) { Class::Guaranteed } else { Class::BestEffort };
            request.step_ns = None;
        })
    };
    (0..count).map(job).collect()
}

/// Plans that divide the model scale better and cost more, and accumulation and checkpointing take time.
struct ByPlan;

impl Throughput for ByPlan {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let plan = question.job.plan?;
        let exponent = 0.4 + 0.5 * (question.job.workload.len() as f64 / 13.0);
        let divided = 1.0 + 0.05 * f64::from(plan.tp * plan.pp - 1);
        let saving = 1.0 + 0.1 * f64::from(plan.ga - 1) + if plan.gc { 0.3 } else { 0.0 };
        let step_ns = SECOND as f64 * divided * saving / f64::from(plan.ranks()).powf(exponent);
        Some(Prediction { step_ns, step_ns_ci: None })
    }
}

/// Times the decisions at arrivals, and ends the run after the last of them.
struct AtArrivals<'a> {
    policy: Box<dyn Policy>,
    times: &'a RefCell<Vec<Duration>>,
}

impl Policy for AtArrivals<'_> {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(view);
        if view.now.0.is_multiple_of(SECOND) {
            self.times.borrow_mut().push(began.elapsed());
        }
        decision
    }

    fn failure(&mut self) -> Option<anyhow::Error> {
        (self.times.borrow().len() > 20).then(|| anyhow::anyhow!("enough is known"))
    }
}

fn rubick(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rubick");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for count in [100u32, 1_000, 10_000] {
        let topology = Topology::uniform(count, 8, "GPU");
        let costs = Named::constant(Nanos(30 * SECOND));
        let jobs = mixed(count);
        let legal = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
        let plans = legal_plans::enumerate(&jobs, &Catalog::embedded(), &topology, legal);
        let times = RefCell::new(Vec::new());
        let run = || {
            times.borrow_mut().clear();
            let known =
                PolicyContext { costs: Some(&costs), plans: Some(&plans), history: &[], classes: None };
            let settings = simulated::Settings::default();
            let mut sim = simulated::cluster(&topology, &jobs, Box::new(ByPlan), &costs, settings)
                .expect("all is known");
            let mut engine = Engine::new(&topology, &jobs, ByPlan, Settings::default()).knowing(known);
            let mut policy = AtArrivals { policy: built("rubick"), times: &times };
            let ended = engine::run(&mut engine, &mut sim, &mut policy, &mut Unrecorded);
            ended.expect_err("it ends after the arrivals");
            let times = times.borrow();
            times[1..].iter().sum::<Duration>() / (times.len() as u32 - 1)
        };
        group.bench_function(BenchmarkId::new("devices and jobs", count), |bencher| {
            bencher.iter_custom(|iterations| (0..iterations).map(|_| run()).sum());
        });
        let times = times.borrow();
        println!(
            "{count}: the first round {:?}, the longest of the others {:?}",
            times[0],
            times[1..].iter().max()
        );
    }
    group.finish();
}

criterion_group!(benches, rounds, rubick);
criterion_main!(benches);
