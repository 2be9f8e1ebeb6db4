//! What a decision of Lucid costs, and a simulation under it.
//!
//! `decision`: by the number of jobs that wait, the mean over 2,000 decisions on 1,000 devices, at arrivals and ends of jobs, while jobs
//! share. The estimates are learned from 5,000 earlier jobs.
//!
//! `simulation`: 24,000 jobs in 15 virtual clusters of 72 devices each, with a profiler stage of two nodes, under Lucid and others.

use std::{
    cell::RefCell,
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
use formats::history::PastJob;
use launches::simulated;
use model::{
    Classified, JobKey, PackingClass, PackingClasses, PredictRequest, Prediction, Throughput,
    switch_costs::Named,
};
use record::manifest::{AlikeNodes, NodeFacts};
use schema::units::Nanos;

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;

use support::{SECOND, asked, built};

/// The classes of jobs by their batches.
struct Classes;

impl PackingClasses for Classes {
    fn class(&self, job: &JobKey<'_>) -> Option<Classified> {
        let classes = [PackingClass::Tiny, PackingClass::Medium, PackingClass::Jumbo];
        let class = classes[job.global_batch? as usize / 8 % 3];
        Some(Classified { class, path: Vec::new() })
    }
}

/// A job takes longer beside others, by its batch and theirs. Of a quarter of the pairs, nothing is known.
struct Beside;

impl Throughput for Beside {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let batch = question.job.global_batch?;
        let mut factor = 1.0;
        for other in question.co_runners {
            let both = batch + other.global_batch?;
            factor *= (both / 8 % 4 > 0).then(|| 1.0 + f64::from(both % 80) / 60.0)?;
        }
        Some(Prediction { step_ns: factor * question.job.trace_time?.step_ns as f64, step_ns_ci: None })
    }
}

/// The truth knows all pairs.
struct BesideAll;

impl Throughput for BesideAll {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let factor = 1.3f64.powi(question.co_runners.len() as i32);
        Some(Prediction { step_ns: factor * question.job.trace_time?.step_ns as f64, step_ns_ci: None })
    }
}

/// Times the decisions after the first second, and ends the run after 2,000 of them.
struct Later<'a> {
    policy: Box<dyn Policy>,
    times: &'a RefCell<Vec<Duration>>,
}

impl Policy for Later<'_> {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(view);
        if view.now.0 > SECOND {
            self.times.borrow_mut().push(began.elapsed());
        }
        decision
    }

    fn failure(&mut self) -> Option<anyhow::Error> {
        (self.times.borrow().len() >= 2_000).then(|| anyhow::anyhow!("enough is known"))
    }
}

/// Jobs of 60 kinds, of which all but the last hundred arrive at once.
fn of_kinds(count: u32) -> Vec<JobRequest> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut job = |id: u32| {
        let kind = random.u32(..60);
        let arrival = u64::from(id.saturating_sub(count - 101));
        asked(id, arrival * SECOND, 1 << (kind % 4), random.u64(20..20_000), SECOND / 10).with(|request| {
            request.what =
                Payload::Training { workload: "lstm".into(), global_batch: Some(8 * (kind / 4 + 1)) };
            request.user = format!("user-{}", random.u32(..50));
            request.recurring_job = Some(format!("job-{}", random.u32(..300)));
        })
    };
    (0..count).map(&mut job).collect()
}

/// A job that has run for its length.
fn past(job: &JobRequest) -> PastJob {
    PastJob {
        name: job.name.clone(),
        user: job.user.clone(),
        vc: job.virtual_cluster.clone(),
        recurring_job: job.recurring_job.clone(),
        workload: job.what.workload().into_owned(),
        global_batch: job.what.global_batch(),
        plan: job.plan,
        devices: job.devices,
        submit_utc: None,
        duration_ns: Nanos(job.steps.unwrap_or_default() * job.step_ns.unwrap_or_default()),
    }
}

fn decisions(criterion: &mut Criterion) {
    let topology = Topology::uniform(1_000, 8, "GPU");
    let costs = Named::constant(Nanos(SECOND));
    let mut group = criterion.benchmark_group("lucid");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for count in [1_000u32, 5_000] {
        // Several hundred of them run.
        let jobs = of_kinds(count + 500);
        let times = RefCell::new(Vec::new());
        let past: Vec<PastJob> = of_kinds(5_000).iter().map(past).collect();
        let run = || {
            times.borrow_mut().clear();
            let known = PolicyContext {
                costs: Some(&costs),
                history: &past,
                classes: Some(&Classes),
                ..PolicyContext::default()
            };
            let settings = simulated::Settings::default();
            let mut sim = simulated::cluster(&topology, &jobs, Box::new(BesideAll), &costs, settings)
                .expect("all is known");
            let mut engine = Engine::new(&topology, &jobs, Beside, Settings::default()).knowing(known);
            let mut policy = Later { policy: built("lucid:sharing=on"), times: &times };
            let ended = engine::run(&mut engine, &mut sim, &mut policy, &mut Unrecorded);
            ended.expect_err("it ends after so many decisions");
            times.borrow().iter().sum::<Duration>() / times.borrow().len() as u32
        };
        group.bench_function(BenchmarkId::new("decision", count), |bencher| {
            bencher.iter_custom(|iterations| (0..iterations).map(|_| run()).sum());
        });
        let times = times.borrow();
        let long = times.iter().filter(|time| **time > Duration::from_millis(5)).count();
        println!(
            "{count}: the longest decision {:?}, {long} of {} above 5 ms",
            times.iter().max(),
            times.len()
        );
    }
    group.finish();
}

fn simulations(criterion: &mut Criterion) {
    let (topology, jobs) = in_virtual_clusters();
    let mut group = criterion.benchmark_group("lucid");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    let costs = Named::constant(Nanos(10 * SECOND));
    for name in ["lucid", "lucid:sharing=on", "lucid:sharing=off", "qssf-backfill", "tiresias"] {
        group.bench_function(BenchmarkId::new("simulation", name), |bencher| {
            bencher.iter(|| {
                let known = PolicyContext {
                    costs: Some(&costs),
                    classes: Some(&Classes),
                    ..PolicyContext::default()
                };
                let settings = simulated::Settings::default();
                let mut sim = simulated::cluster(&topology, &jobs, Box::new(BesideAll), &costs, settings)
                    .expect("all is known");
                let mut engine = Engine::new(&topology, &jobs, Beside, Settings::default()).knowing(known);
                engine::run(&mut engine, &mut sim, &mut *built(name), &mut Unrecorded)
                    .expect("every job ends")
            });
        });
    }
    group.finish();
}

/// Nine nodes of eight devices in each virtual cluster, of which one of the first and one of the second are the profiler stage, and jobs
/// that need nine tenths of them. Their lengths are log-normal with a median of 200 s.
fn in_virtual_clusters() -> (Topology, Vec<JobRequest>) {
    let group = |number: u32, nodes, profiling| AlikeNodes {
        nodes,
        devices: 8,
        device_type: "GPU".into(),
        virtual_cluster: Some(format!("vc{number}")),
        facts: NodeFacts { profiling, ..NodeFacts::default() },
    };
    let mut groups: Vec<AlikeNodes> =
        (0..15).map(|number| group(number, 9 - u32::from(number < 2), false)).collect();
    groups.extend((0..2).map(|number| group(number, 1, true)));
    let mut random = fastrand::Rng::with_seed(1);
    let mut at_s = 0.0;
    let mut job = |id: u32| {
        at_s -= 24.0 * (1.0 - random.f64()).ln();
        // The sum of twelve numbers from 0 to 1 has the variance 1, and is nearly normal.
        let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let seconds = (200.0 * (2.6 * normal).exp()).clamp(1.0, 1e6);
        let devices = [1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 16, 32][random.usize(..12)];
        let kind = random.u32(..15);
        asked(id, (at_s * 1e9) as u64, devices, (seconds * 10.0) as u64, SECOND / 10).with(|request| {
            request.what = Payload::Training { workload: "lstm".into(), global_batch: Some(8 * (kind + 1)) };
            request.user = format!("user-{}", random.u32(..50));
            request.recurring_job = Some(format!("job-{}", random.u32(..1_000)));
            request.virtual_cluster = format!("vc{}", random.u32(..15));
        })
    };
    (Topology::simulated(&groups), (0..24_000).map(&mut job).collect())
}

criterion_group!(benches, decisions, simulations);
criterion_main!(benches);
