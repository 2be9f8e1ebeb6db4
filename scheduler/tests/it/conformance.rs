//! A simulated cluster and a testbed behave the same for engine and policy: every turn is equal.

use fastrand::Rng;
use model::{InTurns, Prediction, Question, Subject, Throughput};
use scheduler::{
    cluster::Cluster,
    engine::{self, Engine},
    job::JobRequest,
    policy::{self, Policy},
    sim::{Cost, Settings, Sim, SwitchCosts},
    testbed::{ResumePoint, Testbed},
    topology::Topology,
};
use schema::{decision::Turn, sharing::Sharing, units::Nanos};

use crate::{
    invariants::Restless,
    scripted::Scripted,
    scripts::MS,
    support::{SECOND, asked},
};

/// Two jobs that share a device by time slices have slightly more throughput than in turns, with a narrow interval. Nothing is
/// known of other sharing modes.
struct Truth;

impl Throughput for Truth {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        if !question.co_runners.is_empty() && *question.sharing != Sharing::TIME_SLICE {
            return None;
        }
        let step_ns =
            question.job.trace_time?.step_ns as f64 * 1.37f64.powi(question.co_runners.len() as i32);
        Some(Prediction { step_ns, step_ns_ci: Some((0.99 * step_ns, 1.01 * step_ns)) })
    }
}

/// Each switch has another cost, so that a mix-up is detected.
struct Costs;

impl SwitchCosts for Costs {
    fn cost(&self, job: &Subject<'_>, devices: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let ms = match of {
            Cost::Start => 3_100,
            Cost::Restart => 4_700,
            Cost::Pause => 210,
            Cost::Resume => 330,
            Cost::Checkpoint => 1_300,
            Cost::Stop => 590,
        };
        Some(Nanos((ms + u64::from(devices)) * MS + job.trace_time?.step_ns % MS))
    }
}

fn jobs(random: &mut Rng) -> Vec<JobRequest> {
    let mut arrivals: Vec<u64> = (0..random.u32(2..14)).map(|_| random.u64(..90 * SECOND)).collect();
    // Some arrive at the same instant.
    arrivals.extend(arrivals.first().copied());
    arrivals.sort_unstable();
    let job = |(id, arrival)| {
        let (devices, steps) = (random.u32(1..3), random.u64(1..60));
        asked(id, arrival, devices, steps, random.u64(20 * MS..2 * SECOND))
    };
    (0..).zip(arrivals).map(job).collect()
}

fn turns(
    topology: &Topology,
    jobs: &[JobRequest],
    sharing: &Sharing,
    policy: &mut dyn Policy,
    cluster: &mut dyn Cluster,
) -> (Vec<Turn>, Vec<schema::rows::Outcome>) {
    let settings = engine::Settings { sharing: sharing.clone(), ..engine::Settings::default() };
    let model = InTurns { model: Box::new(Truth) };
    let mut engine = Engine::new(topology, jobs, &model, settings);
    let mut turns = Vec::new();
    let outcomes = engine::run(&mut engine, cluster, policy, &mut turns);
    (turns, outcomes.expect("every job ends"))
}

/// Runs a trace on both, and returns the actions of each.
fn check(seed: u64, sharing: &str, build: &dyn Fn() -> Box<dyn Policy>) -> usize {
    let mut random = Rng::with_seed(seed);
    let topology = Topology::uniform(random.u32(2..5), 2, "GPU");
    let jobs = jobs(&mut random);
    let progress_every = random.bool().then(|| Nanos(random.u64(500 * MS..9 * SECOND)));
    let sharing: Sharing = sharing.parse().expect("it is a mode");
    let settings = Settings { seed, sharing: sharing.clone(), progress_every, ..Settings::default() };
    let truth = || InTurns { model: Box::new(Truth) };
    let mut sim = Sim::new(&topology, &jobs, Box::new(truth()), &Costs, settings).expect("all is known");
    let truth = truth();
    let mut scripted = Scripted::new(&topology, &jobs, &truth, &Costs);
    scripted.sharing = sharing.clone();
    let mut testbed = Testbed::new(scripted, &jobs, progress_every, ResumePoint::default());
    let simulated = turns(&topology, &jobs, &sharing, &mut *build(), &mut sim);
    let run = turns(&topology, &jobs, &sharing, &mut *build(), &mut testbed);
    for (simulated, run) in simulated.0.iter().zip(&run.0) {
        assert_eq!(simulated, run, "seed {seed}");
    }
    assert_eq!(simulated, run, "seed {seed}");
    run.0.iter().map(|turn| turn.actions.len()).sum()
}

#[test]
fn every_policy_decides_the_same_on_a_testbed_as_on_a_simulated_cluster() {
    let names =
        ["fifo", "fifo-backfill", "sjf", "srtf", "tiresias:10s", "tiresias:5s/30s:promote=2", "packing-fifo"];
    // The decisions of an external program are not compared.
    for known in policy::names().filter(|known| !known.starts_with("exec")) {
        let kind = known.split(['[', ':']).next();
        assert!(names.iter().any(|name| name.split(':').next() == kind), "{known} is not compared");
    }
    for name in names {
        for seed in 0..200 {
            check(seed, "time-slice", &|| policy::build(name).expect("there is such a policy"));
        }
    }
}

#[test]
fn whatever_is_asked_for_is_the_same_on_a_testbed_as_on_a_simulated_cluster() {
    for sharing in ["time-slice", "step-gate", "step-gate:8", "alone"] {
        let actions: usize =
            (0..200).map(|seed| check(seed, sharing, &|| Box::new(Restless::new(seed)))).sum();
        assert!(actions > 2_000, "{sharing}: jobs are paused, resumed, stopped and packed: {actions}");
    }
}
