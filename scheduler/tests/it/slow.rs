//! A simulated cluster beside real workers: if no two events are so close that their order is random, every
//! decision is the same.

use std::{env, thread};

use fastrand::Rng;
use model::{BeliefError, Prediction, Question, Subject, Throughput};
use scheduler::{
    cluster::{Action, Settled},
    engine::{self, Engine},
    job::{JobRequest, Payload},
    policy::Policy,
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
    varied::Varied,
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
struct Costs {
    factor: f64,
    works_on: Nanos,
}

impl SwitchCosts for Costs {
    fn cost(&self, _: &Subject<'_>, _: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let ms = match of {
            Cost::Start | Cost::Restart => 100,
            Cost::Pause | Cost::Checkpoint => 400,
            Cost::Resume => 40,
            Cost::Stop => 60,
        };
        Some(Nanos((self.factor * (ms * MS) as f64) as u64))
    }

    fn works_on(&self, _: &Subject<'_>, _: u32) -> Nanos {
        self.works_on
    }
}

const USUAL: Costs = Costs { factor: 1.0, works_on: Nanos::ZERO };

/// A policy, and what it believes.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    is_mistaken: bool,
}

impl Case {
    fn policy(self) -> Box<dyn Policy> {
        if self.name == "varied" { Box::new(Varied) } else { built(self.name) }
    }

    /// Jobs on one device and jobs on two are mistaken for shorter or longer ones.
    fn belief(self) -> Box<dyn Throughput> {
        match self.is_mistaken {
            true => Box::new(BeliefError { model: Box::new(Truth), sigma: 1.5, bias: 0.0, seed: 1 }),
            false => Box::new(Truth),
        }
    }
}

/// Five jobs of one to five seconds on one device or both, within some seven seconds. Some are elastic, and some have a priority,
/// which only one policy minds.
fn jobs(seed: u64) -> Vec<JobRequest> {
    let mut random = Rng::with_seed(seed);
    let mut arrival = 0;
    let job = |id| {
        let (devices, steps) = (random.u32(1..3), random.u64(50..250));
        let what = Payload::Training { workload: "steady".into(), global_batch: Some(8) };
        let plan = Some(format!("dp{devices}").parse().expect("it is a plan"));
        let (elastic, priority) = (random.bool(), i32::from(random.u8(..4) == 0));
        let job = JobRequest { what, plan, elastic, priority, ..asked(id, arrival, devices, steps, STEP_NS) };
        arrival += random.u64(300..2_500) * MS;
        job
    };
    (0..5).map(job).collect()
}

fn simulated(
    case: Case,
    jobs: &[JobRequest],
    costs: Costs,
    noise: f64,
    seed: u64,
) -> (Vec<Turn>, Vec<Outcome>) {
    let topology = Topology::uniform(2, 2, "GPU");
    let settings = Settings { seed, noise, ..Settings::default() };
    let mut sim = Sim::new(&topology, jobs, Box::new(Truth), &costs, settings).expect("all is known");
    let belief = case.belief();
    let mut engine = Engine::new(&topology, jobs, &*belief, engine::Settings::default());
    let mut turns = Vec::new();
    let outcomes = engine::run(&mut engine, &mut sim, &mut *case.policy(), &mut turns);
    (turns, outcomes.expect("every job ends"))
}

fn run(case: Case, jobs: &[JobRequest]) -> Vec<Turn> {
    let topology = Topology::uniform(2, 2, "GPU");
    let steps = |job: &JobRequest| job.steps.expect("jobs here have steps");
    let wanted: Vec<Wanted> = jobs.iter().map(|job| Wanted::Training("steady", steps(job))).collect();
    let Stage { launcher, folder: _folder, .. } =
        Stage::new(&wanted, None, vec![Device::AllCores; 2], Vec::new(), "time-slice");
    let mut testbed = Testbed::new(launcher, jobs, None, ResumePoint::default());
    let belief = case.belief();
    let mut engine = Engine::new(&topology, jobs, &*belief, engine::Settings::default());
    let mut turns = Vec::new();
    let ended = engine::run(&mut engine, &mut testbed, &mut *case.policy(), &mut turns);
    let outcomes = ended.unwrap_or_else(|error| panic!("{case:?}: {error}: {turns:?}"));
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
                    Happened::Settled { now: Settled::Stopped | Settled::Paused, .. },
                    Happened::Settled { now: Settled::Running, .. },
                ) => true,
                (_, Happened::Settled { job, .. }) => {
                    let is_switch = |action: &&Action| !matches!(action, Action::Throttle { .. });
                    pair[0].actions.iter().filter(is_switch).any(|action| action.job() == *job)
                }
                _ => false,
            };
            follows || pair[1].at_ns - pair[0].at_ns >= APART
        })
}

/// Whether a trace shows the purpose of a policy and is robust: all decisions are the same if jobs are
/// somewhat faster or slower, switches take half or twice as long, and jobs work on before they leave.
fn suits(case: Case, jobs: &[JobRequest]) -> bool {
    let (turns, outcomes) = simulated(case, jobs, USUAL, 0.0, 0);
    let any_waits = outcomes.iter().any(|row| row.queued_ns > Some(APART.0));
    let any_is = |is: fn(&Action) -> bool| turns.iter().flat_map(|turn| &turn.actions).any(is);
    let any_is_stopped = any_is(|it| matches!(it, Action::Stop { .. }));
    let shows = match case.name.split(':').next() {
        Some("srtf" | "tiresias") => any_is_stopped,
        Some("packing-fifo") => outcomes.iter().any(|row| row.packed_ns > Some(APART.0)),
        Some("varied") => {
            any_is_stopped
                && any_is(|it| matches!(it, Action::Throttle { .. }))
                && any_is(|it| matches!(it, Action::Resume { .. }))
        }
        _ => any_waits,
    };
    let same = |chance: u64| {
        let factor = [0.5, 1.0, 2.0][chance as usize % 3];
        // What is granted ahead when a job is to leave may be its last steps.
        let works_on = if chance.is_multiple_of(2) { Nanos::ZERO } else { Nanos(500 * MS) };
        let (other, _) = simulated(case, jobs, Costs { factor, works_on }, 0.05, chance);
        turns.iter().map(decided).eq(other.iter().map(decided))
    };
    let is_led_astray = || {
        let (known, _) = simulated(Case { is_mistaken: false, ..case }, jobs, USUAL, 0.0, 0);
        turns.iter().map(decided).ne(known.iter().map(decided))
    };
    shows && are_apart(&turns) && (!case.is_mistaken || is_led_astray()) && (0..24).all(same)
}

#[test]
fn real_workers_bring_about_the_decisions_that_were_simulated() {
    let policies = ["srtf", "fifo", "fifo-backfill", "sjf", "tiresias:2s", "packing-fifo", "varied"];
    let mut cases: Vec<Case> = policies.map(|name| Case { name, is_mistaken: false }).into();
    cases.extend(["sjf", "srtf"].map(|name| Case { name, is_mistaken: true }));
    let is_slow = env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    let (cases, count) = if is_slow { (&cases[..], 3) } else { (&cases[..1], 1) };
    if !is_slow {
        println!("1 trace under one policy: set TANDEM_SLOW=1 for 3 under each");
    }
    for &case in cases {
        let traces: Vec<(u64, Vec<JobRequest>)> = (0..100_000)
            .map(|seed| (seed, jobs(seed)))
            .filter(|(_, jobs)| suits(case, jobs))
            .take(count)
            .collect();
        assert_eq!(traces.len(), count, "{case:?}");
        thread::scope(|scope| {
            for (seed, jobs) in &traces {
                scope.spawn(move || check(case, *seed, jobs));
            }
        });
    }
}

fn check(case: Case, seed: u64, jobs: &[JobRequest]) {
    let (simulated, _) = simulated(case, jobs, USUAL, 0.0, 0);
    let run = run(case, jobs);
    for (simulated, run) in simulated.iter().zip(&run) {
        assert_eq!(decided(simulated), decided(run), "{case:?}, seed {seed}: {simulated:?}, and {run:?}");
    }
    assert_eq!(simulated.len(), run.len(), "{case:?}, seed {seed}");
    let ends = [&simulated, &run].map(|turns| turns.last().map(|turn| turn.at_ns).unwrap_or_default());
    println!("{case:?}, seed {seed}: {} turns in {}, simulated {}", run.len(), ends[1], ends[0]);
}
