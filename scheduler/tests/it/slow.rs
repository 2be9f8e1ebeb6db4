//! A simulated cluster beside real workers, in the time of the simulation: they bring about all that it says, and every decision is the
//! same.

use std::{
    collections::{BTreeMap, VecDeque},
    env, thread,
};

use engine::{
    Engine,
    cluster::{Action, ActionError, Cluster, ClusterError, JobId, Settled},
    job::{JobRequest, Payload},
    policy::Policy,
    topology::Topology,
};
use fastrand::Rng;
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use front_door::LONG;
use launches::{
    LaunchCluster, ResumePoint,
    simulated::{self, Settings},
};
use model::{
    BeliefError, JobKey, PredictRequest, Prediction, Throughput,
    switch_costs::{Cost, SwitchCosts},
};
use schema::{device::Device, units::Nanos};
use testbed::process::ProcessLauncher;

use crate::{
    bench::{Stage, Wanted},
    scripts::MS,
    support::{asked, built},
    varied::Varied,
};

/// Step time of the workload `steady`.
const STEP_NS: u64 = 20 * MS;

/// A time that shows in the outcome of a job.
const LONG_ENOUGH: Nanos = Nanos(200 * MS);

/// More steps than a worker takes during a test.
const ENDLESS: u64 = 1_000_000;

/// Two jobs that share a device do not disturb each other, because they mostly sleep.
struct Truth;

impl Throughput for Truth {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let step_ns = question.job.trace_time?.step_ns as f64;
        Some(Prediction { step_ns, step_ns_ci: Some((0.99 * step_ns, 1.01 * step_ns)) })
    }
}

/// Approximate durations of switches of synthetic workers. A launch still completes its grant after the order to stop, which is most of
/// the duration of a stop.
struct Costs;

impl SwitchCosts for Costs {
    fn cost(&self, _: &JobKey<'_>, _: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let ms = match of {
            Cost::Start | Cost::Restart => 100,
            Cost::Pause | Cost::Checkpoint => 400,
            Cost::Resume => 40,
            Cost::Stop | Cost::Exit => 60,
        };
        Some(Nanos(ms * MS))
    }

    fn works_on(&self, _: &JobKey<'_>, _: u32) -> Nanos {
        Nanos::ZERO
    }
}

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
        let job = asked(id, arrival, devices, steps, STEP_NS).with(|request| {
            request.what = what;
            request.plan = plan;
            request.elastic = elastic;
            request.priority = priority;
        });
        arrival += random.u64(300..2_500) * MS;
        job
    };
    (0..5).map(job).collect()
}

/// The turns of a case on a cluster, and its outcomes.
fn decide(case: Case, jobs: &[JobRequest], cluster: &mut dyn Cluster) -> (Vec<Turn>, Vec<Outcome>) {
    let topology = Topology::uniform(2, 2, "GPU");
    let belief = case.belief();
    let mut engine = Engine::new(&topology, jobs, &*belief, engine::Settings::default());
    let mut turns = Vec::new();
    let ended = engine::run(&mut engine, cluster, &mut *case.policy(), &mut turns);
    let outcomes = ended.unwrap_or_else(|error| panic!("{case:?}: {error}: {turns:?}"));
    (turns, outcomes)
}

fn simulated(case: Case, jobs: &[JobRequest]) -> (Vec<Turn>, Vec<Outcome>) {
    let topology = Topology::uniform(2, 2, "GPU");
    let sim = simulated::cluster(&topology, jobs, Box::new(Truth), &Costs, Settings::default());
    decide(case, jobs, &mut sim.expect("all is known"))
}

/// A testbed in the time of a simulation. It waits until the events of a simulated turn have happened to its workers, however long that
/// takes, and gives them the times and the steps of the simulation.
struct InSimulatedTime {
    testbed: LaunchCluster<ProcessLauncher>,
    /// The turns of the simulation that are to come.
    turns: VecDeque<Turn>,
    now: Nanos,
    /// What has happened and comes later in the simulation.
    early: Vec<ClusterEvent>,
    /// The steps that each job had done when it was last paused or stopped.
    kept: BTreeMap<JobId, u64>,
    /// Jobs that the simulation moves or holds. How far their workers get until then is not known, so they never finish by themselves.
    endless: Vec<JobId>,
}

impl InSimulatedTime {
    /// Waits until an event like this one has happened.
    fn wait_for(&mut self, expected: &ClusterEvent) -> Result<(), ClusterError> {
        let expected = match *expected {
            ClusterEvent::Finished { job, .. } if self.endless.contains(&job) => {
                self.testbed.apply(&Action::End { job }).map_err(anyhow::Error::from)?;
                ClusterEvent::Settled { job, now: Settled::Stopped, steps: 0 }
            }
            ClusterEvent::Settled { .. } | ClusterEvent::Finished { .. } => expected.clone(),
            // An instant of the simulation.
            _ => return Ok(()),
        };
        loop {
            if let Some(index) = self.early.iter().position(|happened| is_like(happened, &expected)) {
                self.early.remove(index);
                return Ok(());
            }
            let deadline = self.testbed.now() + LONG.into();
            for happened in self.testbed.next(Some(deadline))? {
                match happened {
                    ClusterEvent::Progress { .. } => continue,
                    ClusterEvent::Settled { job, now: Settled::Running, steps } => {
                        let kept = self.kept.get(&job).copied().unwrap_or_default();
                        assert!(kept <= steps, "{happened:?}, and it had done {kept} steps");
                    }
                    ClusterEvent::Settled { job, steps, .. } => {
                        self.kept.insert(job, steps);
                    }
                    ClusterEvent::Finished { .. } => {}
                    _ => panic!("{happened:?} instead of {expected:?}; {:?}", self.early),
                }
                self.early.push(happened);
            }
        }
    }
}

fn is_like(one: &ClusterEvent, other: &ClusterEvent) -> bool {
    match (one, other) {
        (ClusterEvent::Settled { job, now, .. }, ClusterEvent::Settled { job: of, now: to, .. }) => {
            (job, now) == (of, to)
        }
        _ => one == other,
    }
}

impl Cluster for InSimulatedTime {
    fn now(&self) -> Nanos {
        self.now
    }

    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        self.testbed.apply(action)?;
        if let Action::Stop { job: of, .. } = action {
            // It may have started before that was simulated.
            self.early.retain(|happened| {
                !matches!(happened, ClusterEvent::Settled { job, now: Settled::Running, .. } if job == of)
            });
        }
        Ok(())
    }

    fn next(&mut self, _deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError> {
        let turn = self.turns.pop_front().ok_or(ClusterError::Nothing)?;
        for expected in &turn.events {
            self.wait_for(expected)?;
        }
        self.now = turn.at_ns;
        Ok(turn.events)
    }
}

/// The turns of a case whose workers do what was simulated. They train with short steps.
fn run(case: Case, jobs: &[JobRequest], simulated: &[Turn]) -> Vec<Turn> {
    let actions = simulated.iter().flat_map(|turn| &turn.actions);
    let endless: Vec<JobId> =
        actions.filter(|action| !matches!(action, Action::Start { .. })).map(Action::job).collect();
    let steps = |job: &JobRequest| match endless.contains(&job.id) {
        true => ENDLESS,
        false => job.steps.expect("jobs here have steps"),
    };
    let wanted: Vec<Wanted> = jobs.iter().map(|job| Wanted::Training("short", steps(job))).collect();
    let Stage { launcher, folder: _folder, .. } =
        Stage::new(&wanted, None, vec![Device::AllCores; 2], Vec::new(), "time-slice");
    let resume = ResumePoint { arrived: jobs.len(), ..ResumePoint::default() };
    let mut cluster = InSimulatedTime {
        testbed: LaunchCluster::new(launcher, jobs, None, resume),
        turns: simulated.to_vec().into(),
        now: Nanos::ZERO,
        early: Vec::new(),
        kept: BTreeMap::new(),
        endless,
    };
    let (turns, _) = decide(case, jobs, &mut cluster);
    assert!(cluster.early.is_empty(), "{case:?}: it was not simulated that {:?}", cluster.early);
    turns
}

/// Whether a trace shows the purpose of a policy.
fn suits(case: Case, jobs: &[JobRequest]) -> bool {
    let (turns, outcomes) = simulated(case, jobs);
    let any_waits = outcomes.iter().any(|row| row.queued_ns > Some(LONG_ENOUGH.0));
    let any_is = |is: fn(&Action) -> bool| turns.iter().flat_map(|turn| &turn.actions).any(is);
    let any_is_stopped = any_is(|it| matches!(it, Action::Stop { .. }));
    let shows = match case.name.split(':').next() {
        Some("srtf" | "tiresias") => any_is_stopped,
        Some("packing-fifo") => outcomes.iter().any(|row| row.packed_ns > Some(LONG_ENOUGH.0)),
        Some("varied") => {
            any_is_stopped
                && any_is(|it| matches!(it, Action::Throttle { .. }))
                && any_is(|it| matches!(it, Action::Resume { .. }))
        }
        _ => any_waits,
    };
    let is_led_astray = || {
        let (known, _) = simulated(Case { is_mistaken: false, ..case }, jobs);
        turns.iter().map(|turn| &turn.actions).ne(known.iter().map(|turn| &turn.actions))
    };
    shows && (!case.is_mistaken || is_led_astray())
}

#[test]
fn real_workers_bring_about_what_was_simulated_and_the_decisions_are_the_same() {
    let policies = ["varied", "srtf", "fifo", "fifo-backfill", "sjf", "tiresias:2s", "packing-fifo"];
    let mut cases: Vec<Case> = policies.map(|name| Case { name, is_mistaken: false }).into();
    cases.extend(["sjf", "srtf"].map(|name| Case { name, is_mistaken: true }));
    let is_slow = env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    let (cases, count) = if is_slow { (&cases[..], 3) } else { (&cases[..2], 1) };
    if !is_slow {
        println!("1 trace under two policies: set TANDEM_SLOW=1 for 3 under each");
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
    let (simulated, _) = simulated(case, jobs);
    let run = run(case, jobs, &simulated);
    for (simulated, run) in simulated.iter().zip(&run) {
        assert_eq!(simulated, run, "{case:?}, seed {seed}");
    }
    assert_eq!(simulated.len(), run.len(), "{case:?}, seed {seed}");
}
