//! What a decision of a policy that is a program costs beyond the time of the program.
//!
//! 100 jobs run on 100 devices and report their progress once a second, either one after the other, so that a line shows one job, or at
//! one instant, so that it shows all. The program is this one. When all jobs run, it answers each line without looking at it. A rigid job
//! has no plans to show. An elastic job has all plans of its workload for up to 8 devices, with the time of a step of each.

use std::{
    cell::Cell,
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group};
use engine::{
    Engine, Settings,
    job::{JobRequest, Payload},
    journal::Unrecorded,
    policy::{Decision, Policy},
    topology::Topology,
    view::{PolicyContext, View},
};
use formats::exec::{JobState, Shown};
use jobs::plans::Judgement;
use launches::simulated;
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use scheduler::legal_plans;
use schema::{
    catalog::{Catalog, CatalogEntry},
    units::Nanos,
};

#[path = "../tests/it/support.rs"]
#[allow(dead_code)]
mod support;

use support::{SECOND, asked, built};

const JOBS: u32 = 100;
/// The argument with which this program is the policy.
const ANSWERS: &str = "answers";

/// More devices do more, by a power.
struct ByDevices;

impl Throughput for ByDevices {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let devices: u32 = question.placement.iter().sum();
        Some(Prediction { step_ns: SECOND as f64 / f64::from(devices).powf(0.7), step_ns_ci: None })
    }
}

/// Adds up the times of decisions when all jobs run.
struct Timed<'a> {
    policy: Box<dyn Policy>,
    spent: &'a Cell<(Duration, u32)>,
}

impl Policy for Timed<'_> {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(view);
        if view.now > Nanos(2 * SECOND) {
            let (sum, count) = self.spent.get();
            self.spent.set((sum + began.elapsed(), count + 1));
        }
        decision
    }
}

fn job(id: u32, apart: u64, elastic: bool) -> JobRequest {
    asked(id, u64::from(id) * apart, 1, 22, 1).with(|request| {
        request.what = Payload::Training { workload: "bert-large".into(), global_batch: Some(32) };
        request.plan = "dp1".parse().ok();
        (request.elastic, request.max_devices) = (elastic, Some(8));
        request.step_ns = None;
    })
}

fn decisions(criterion: &mut Criterion) {
    let topology = Topology::uniform(JOBS, 8, "GPU");
    let costs = Named::constant(Nanos::ZERO);
    let program = env::current_exe().expect("it has a path");
    let policy = format!("exec:'{}' {ANSWERS}", program.display());
    let mut group = criterion.benchmark_group("exec");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for (kind, elastic) in [("rigid", false), ("elastic", true)] {
        for (shown, apart) in [("one job a line", SECOND / 200), ("all jobs a line", 0)] {
            let jobs: Vec<_> = (0..JOBS).map(|id| job(id, apart, elastic)).collect();
            let legal = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
            let plans = legal_plans::enumerate(&jobs, &Catalog::embedded(), &topology, legal);
            let spent = Cell::new((Duration::ZERO, 0));
            let run = || {
                let known = PolicyContext { plans: Some(&plans), ..PolicyContext::default() };
                let settings =
                    simulated::Settings { progress_every: Some(Nanos(SECOND)), ..Default::default() };
                let mut sim = simulated::cluster(&topology, &jobs, Box::new(ByDevices), &costs, settings)
                    .expect("all is known");
                let mut engine = Engine::new(&topology, &jobs, ByDevices, Settings::default()).knowing(known);
                let mut policy = Timed { policy: built(&policy), spent: &spent };
                engine::run(&mut engine, &mut sim, &mut policy, &mut Unrecorded).expect("every job ends");
            };
            group.bench_function(BenchmarkId::new(kind, shown), |bencher| {
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
        }
    }
    group.finish();
}

/// Starts each job on the device of its number, and then does nothing.
fn answer() -> io::Result<()> {
    let (mut input, mut output) = (BufReader::with_capacity(1 << 16, io::stdin()), io::stdout());
    let (mut line, mut started) = (String::new(), 0);
    for turn in 0.. {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            break;
        }
        let mut actions = Vec::new();
        if started < JOBS {
            let jobs = Shown::from_line(&line).map_err(io::Error::other)?.jobs;
            let waiting = jobs.iter().filter(|job| job.state == JobState::Waiting);
            let start =
                |job: u32| format!(r#"{{"start": {{"job": {job}, "devices": [{job}], "plan": "dp1"}}}}"#);
            actions.extend(waiting.map(|job| start(job.job.0)));
            started += actions.len() as u32;
        }
        writeln!(output, r#"{{"turn": {turn}, "actions": [{}]}}"#, actions.join(", "))?;
        output.flush()?;
    }
    Ok(())
}

criterion_group!(benches, decisions);

fn main() -> io::Result<()> {
    if env::args().nth(1).is_some_and(|argument| argument == ANSWERS) {
        return answer();
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
    Ok(())
}
