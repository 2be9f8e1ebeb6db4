//! A simulated cluster beside real workers: if no two events are so close that their order is random, every
//! decision is the same.

use std::{env, thread};

use fastrand::Rng;
use model::{Prediction, Question, Subject, Throughput};
use scheduler::{
    cluster::{Action, Settled},
    engine::{self, Engine},
    job::{JobRequest, Payload},
    sim::{Cost, Settings, Sim, SwitchCosts},
    testbed::{ResumePoint, Testbed},
    topology::Topology,
};
use schema::{
    decision::{Happened, Turn},
    device::Device,
    rows::Outcome,
    units::Nanos,
};

use crate::{
    bench::{Stage, Wanted},
    scripts::MS,
    support::{asked, built},
};

/// Step time of the workload `steady`.
const STEP_NS: u64 = 20 * MS;

/// The minimum distance of events, except for those that follow from another one.
const APART: Nanos = Nanos(200 * MS);

/// Two jobs that share a device do not disturb each other, because they mostly sleep.
struct Truth;

impl Throughput for Truth {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        let step_ns = question.job.trace_time?.step_ns as f64;
        Some(Prediction { step_ns, step_ns_ci: Some((0.99 * step_ns, 1.01 * step_ns)) })
    }
}

/// Approximate durations of switches of synthetic workers, times a factor. A launch still completes its
/// grant after the order to stop, which is most of the duration of a stop.
struct Costs(f64);

impl SwitchCosts for Costs {
    fn cost(&self, _: &Subject<'_>, _: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let ms = match of {
            Cost::Start | Cost::Restart => 100,
            Cost::Pause | Cost::Checkpoint => 400,
            Cost::Resume => 40,
            Cost::Stop => 60,
        };
        Some(Nanos((self.0 * (ms * MS) as f64) as u64))
    }
}

/// Five jobs of one to five seconds on one device or both, within some seven seconds.
fn jobs(seed: u64) -> Vec<JobRequest> {
    let mut random = Rng::with_seed(seed);
    let mut arrival = 0;
    let job = |id| {
        let (devices, steps) = (random.u32(1..3), random.u64(50..250));
        let what = Payload::Training { workload: "steady".into(), global_batch: Some(8) };
        let plan = Some(format!("dp{devices}").parse().expect("it is a plan"));
        let job = JobRequest { what, plan, ..asked(id, arrival, devices, steps, STEP_NS) };
        arrival += random.u64(300..2_500) * MS;
        job
    };
    (0..5).map(job).collect()
}

fn simulated(
    name: &str,
    jobs: &[JobRequest],
    factor: f64,
    noise: f64,
    seed: u64,
) -> (Vec<Turn>, Vec<Outcome>) {
    let (topology, costs) = (Topology::uniform(2, 2, "GPU"), Costs(factor));
    let settings = Settings { seed, noise, ..Settings::default() };
    let mut sim = Sim::new(&topology, jobs, Box::new(Truth), &costs, settings).expect("all is known");
    let mut engine = Engine::new(&topology, jobs, &Truth, engine::Settings::default());
    let mut turns = Vec::new();
    let outcomes = engine::run(&mut engine, &mut sim, &mut *built(name), &mut turns);
    (turns, outcomes.expect("every job ends"))
}

fn run(name: &str, jobs: &[JobRequest]) -> Vec<Turn> {
    let topology = Topology::uniform(2, 2, "GPU");
    let steps = |job: &JobRequest| job.steps.expect("jobs here have steps");
    let wanted: Vec<Wanted> = jobs.iter().map(|job| Wanted::Training("steady", steps(job))).collect();
    let Stage { launcher, folder: _folder, .. } =
        Stage::new(&wanted, None, vec![Device::AllCores; 2], Vec::new(), "time-slice");
    let mut testbed = Testbed::new(launcher, jobs, None, ResumePoint::default());
    let mut engine = Engine::new(&topology, jobs, &Truth, engine::Settings::default());
    let mut turns = Vec::new();
    let ended = engine::run(&mut engine, &mut testbed, &mut *built(name), &mut turns);
    let outcomes = ended.unwrap_or_else(|error| panic!("{name}: {error}: {turns:?}"));
    assert!(
        outcomes.iter().all(|row| Some(row.steps) == row.steps_asked && row.retries == 0),
        "{outcomes:?}"
    );
    turns
}

/// The rank of an event, and the state of a job after a switch.
type Kind = ((u8, u32), Option<Settled>);

/// The events of a turn and its actions, without times and numbers of steps.
fn decided(turn: &Turn) -> (Vec<Kind>, &[Action], usize) {
    let kind = |happened: &Happened| match happened {
        Happened::Settled { now, .. } => (happened.rank(), Some(*now)),
        _ => (happened.rank(), None),
    };
    (turn.events.iter().map(kind).collect(), &turn.actions, turn.refused.len())
}

/// The end of a switch follows its order, or the end of those that had to leave before.
fn are_apart(turns: &[Turn]) -> bool {
    turns.iter().all(|turn| turn.events.len() == 1)
        && turns.windows(2).all(|pair| {
            let follows = match (&pair[0].events[0], &pair[1].events[0]) {
                (
                    Happened::Settled { now: Settled::Stopped, .. },
                    Happened::Settled { now: Settled::Running, .. },
                ) => true,
                (_, Happened::Settled { job, .. }) => {
                    pair[0].actions.iter().any(|action| action.job() == *job)
                }
                _ => false,
            };
            follows || pair[1].at_ns - pair[0].at_ns >= APART
        })
}

/// Whether a trace shows the purpose of a policy and is robust: all decisions are the same if jobs are
/// somewhat faster or slower, and switches take half or twice as long.
fn suits(name: &str, jobs: &[JobRequest]) -> bool {
    let (turns, outcomes) = simulated(name, jobs, 1.0, 0.0, 0);
    let any_waits = outcomes.iter().any(|row| row.queued_ns > Some(APART.0));
    let any_is_stopped =
        turns.iter().flat_map(|turn| &turn.actions).any(|it| matches!(it, Action::Stop { .. }));
    let shows = match name.split(':').next() {
        Some("srtf" | "tiresias") => any_is_stopped,
        Some("packing-fifo") => outcomes.iter().any(|row| row.packed_ns > Some(APART.0)),
        _ => any_waits,
    };
    let same = |chance: u64| {
        let (other, _) = simulated(name, jobs, [0.5, 1.0, 2.0][chance as usize % 3], 0.05, chance);
        turns.iter().map(decided).eq(other.iter().map(decided))
    };
    shows && are_apart(&turns) && (0..24).all(same)
}

#[test]
fn real_workers_bring_about_the_decisions_that_were_simulated() {
    let policies = ["fifo", "fifo-backfill", "sjf", "srtf", "tiresias:2s", "packing-fifo"];
    let is_slow = env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    let (policies, count) = if is_slow { (&policies[..], 3) } else { (&policies[3..4], 1) };
    if !is_slow {
        println!("1 trace under one policy: set TANDEM_SLOW=1 for 3 under each");
    }
    for name in policies {
        let traces: Vec<(u64, Vec<JobRequest>)> = (0..100_000)
            .map(|seed| (seed, jobs(seed)))
            .filter(|(_, jobs)| suits(name, jobs))
            .take(count)
            .collect();
        assert_eq!(traces.len(), count, "{name}");
        thread::scope(|scope| {
            for (seed, jobs) in &traces {
                scope.spawn(move || check(name, *seed, jobs));
            }
        });
    }
}

fn check(name: &str, seed: u64, jobs: &[JobRequest]) {
    let (simulated, _) = simulated(name, jobs, 1.0, 0.0, 0);
    let run = run(name, jobs);
    for (simulated, run) in simulated.iter().zip(&run) {
        assert_eq!(decided(simulated), decided(run), "{name}, seed {seed}: {simulated:?}, and {run:?}");
    }
    assert_eq!(simulated.len(), run.len(), "{name}, seed {seed}");
    let ends = [&simulated, &run].map(|turns| turns.last().map(|turn| turn.at_ns).unwrap_or_default());
    println!("{name}, seed {seed}: {} turns in {}, simulated {}", run.len(), ends[1], ends[0]);
}
