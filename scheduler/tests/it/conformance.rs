//! Two launchers behave the same for engine and policy: the simulated one, and one that looks through all its launches at each event.
//! Every turn is equal, and equal to that of earlier versions by its digest.
//!
//! Both are given the same random cluster, trace, step times and settings. Not compared are the noise of step times and devices that
//! come back, which the second launcher does not have.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use engine::{
    Engine,
    cluster::{Cluster, Settled},
    policy::Policy,
    view::PolicyContext,
};
use formats::{
    decision::{Action, ClusterEvent, DeviceId, Turn},
    rows::Outcome,
};
use launches::{LaunchCluster, ResumePoint, simulated};
use model::{PredictRequest, Prediction, Throughput};
use record::{
    rows::{ErrorKind, Status},
    suspension::Suspension,
};
use scheduler::policy;

use crate::{
    golden::{self, Digest},
    random_runs::{Costs, RandomRun, Truth},
    restless::Restless,
    scripted::Scripted,
    scripts::events,
};

/// The seeds of the random runs.
const SEEDS: Range<u64> = 0..200;

/// How often each feature was exercised.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    fn add(&mut self, what: &'static str, times: usize) {
        *self.0.entry(what).or_default() += times;
    }

    fn assert(&self, least: &[(&'static str, usize)]) {
        for (what, least) in least {
            let found = self.0.get(what).copied().unwrap_or_default();
            assert!(found >= *least, "{what}: {found}, and at least {least} are expected of {:?}", self.0);
        }
    }

    fn count(&mut self, run: &RandomRun, (turns, outcomes): &(Vec<Turn>, Vec<Outcome>)) {
        let mut numbers = BTreeMap::new();
        for action in turns.iter().flat_map(|turn| &turn.actions) {
            let asked = &run.jobs[action.job().0 as usize];
            match action {
                Action::Start { job, devices, cpus, plan } => {
                    self.add("starts", 1);
                    self.add(
                        "reshaped",
                        usize::from((*plan, devices.len() as u32) != (asked.plan, asked.devices)),
                    );
                    let before = numbers.insert(*job, devices.len());
                    self.add("resized", usize::from(before.is_some_and(|before| before != devices.len())));
                    self.add("spread", usize::from(run.topology.placement(devices).len() > 1));
                    self.add("old devices", usize::from(run.topology.type_of(devices[0]) == "old"));
                    self.add("cpus", usize::from(cpus.is_some()));
                    self.add("virtual clusters", usize::from(!run.topology.virtual_clusters().is_empty()));
                }
                Action::Throttle { .. } => self.add("throttles", 1),
                // Counted when it has ended.
                Action::Pause { .. } => {}
                Action::Resume { .. } => self.add("resumes", 1),
                Action::Stop { .. } => self.add("stops", 1),
                Action::End { .. } => self.add("ends", 1),
            }
        }
        self.add("refused", turns.iter().map(|turn| turn.refused.len()).sum());
        for (_, happened) in events(turns) {
            match happened {
                ClusterEvent::Failed { kind, steps, .. } => {
                    self.add(if *kind == ErrorKind::Crashed { "crashes" } else { "failures by loss" }, 1);
                    self.add("failures with a checkpoint", usize::from(*steps > 0));
                }
                ClusterEvent::DeviceLost { .. } => self.add("losses", 1),
                ClusterEvent::Progress { loss, .. } => {
                    self.add("reports", 1);
                    self.add("reported training losses", usize::from(loss.is_some()));
                }
                ClusterEvent::Settled { now: Settled::Paused, .. } => self.add("paused", 1),
                _ => {}
            }
        }
        self.add("packed", outcomes.iter().filter(|row| row.packed_ns > Some(0)).count());
        self.add("finished", outcomes.iter().filter(|row| row.status == Status::Ok).count());
        self.add("steps lost", outcomes.iter().filter(|row| row.steps_lost > 0).count());
    }
}

/// A truth that counts the questions with neighbours.
struct Counting<'a> {
    truth: &'a Truth,
    with_neighbours: AtomicUsize,
}

impl Throughput for Counting<'_> {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        self.with_neighbours.fetch_add(usize::from(!question.neighbours.is_empty()), Ordering::Relaxed);
        self.truth.predict(question)
    }

    fn minds_neighbours(&self) -> bool {
        self.truth.minds_neighbours()
    }
}

/// The turns and the outcomes.
fn turns(
    run: &RandomRun,
    belief: &dyn Throughput,
    policy: &mut dyn Policy,
    cluster: &mut dyn Cluster,
) -> (Vec<Turn>, Vec<Outcome>) {
    let known = PolicyContext {
        costs: Some(&Costs),
        plans: Some(&run.plans),
        history: &[],
        classes: Some(&run.classes),
    };
    let mut engine = Engine::new(&run.topology, &run.jobs, belief, run.engine.clone()).knowing(known);
    engine.refuse_for_lack_of_cpus(run.engine.placement);
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes = engine::run(&mut engine, cluster, policy, &mut turns);
    (turns, outcomes.expect("every job ends"))
}

/// A run without what the two worlds say of failures in their own words.
fn without_words((mut turns, mut outcomes): (Vec<Turn>, Vec<Outcome>)) -> (Vec<Turn>, Vec<Outcome>) {
    for turn in &mut turns {
        // It is a hash of events and actions.
        turn.view_hash.clear();
        for happened in &mut turn.events {
            if let ClusterEvent::Failed { detail, .. } = happened {
                detail.clear();
            }
        }
    }
    for row in &mut outcomes {
        row.err_detail = row.err_detail.take().filter(|_| row.status == Status::Unsupported);
    }
    (turns, outcomes)
}

fn simulate(run: &RandomRun, belief: &dyn Throughput, policy: &mut dyn Policy) -> (Vec<Turn>, Vec<Outcome>) {
    let sim = simulated::cluster(&run.topology, &run.jobs, Box::new(run.truth), &Costs, run.settings.clone());
    turns(run, belief, policy, &mut sim.expect("all is known"))
}

/// Runs a trace on both and compares them. The testbed has the faults that were drawn in the simulation.
fn check(
    run: &RandomRun,
    seed: u64,
    (seen, digest): (&mut Seen, &mut Digest),
    build: &dyn Fn() -> Box<dyn Policy>,
) -> Vec<Turn> {
    let simulated = simulate(run, &*run.belief, &mut *build());
    digest.add(&simulated);
    let simulated = without_words(simulated);
    let truth = Counting { truth: &run.truth, with_neighbours: AtomicUsize::new(0) };
    let mut scripted = Scripted::new(&run.topology, &run.jobs, &truth, &Costs);
    scripted.checkpoint_every = run.settings.checkpoint_every;
    scripted.sharing = run.settings.sharing.clone();
    scripted.suspension = run.settings.suspension;
    for (at, happened) in events(&simulated.0) {
        match *happened {
            ClusterEvent::Failed { job, kind: ErrorKind::Crashed, .. } => {
                scripted.crashes.push_back((at, job))
            }
            ClusterEvent::DeviceLost { device } => scripted.losses.push_back((at, device)),
            _ => {}
        }
    }
    let mut testbed =
        LaunchCluster::new(scripted, &run.jobs, run.settings.progress_every, ResumePoint::default());
    let measured = without_words(turns(run, &*run.belief, &mut *build(), &mut testbed));
    for (simulated, measured) in simulated.0.iter().zip(&measured.0) {
        assert_eq!(simulated, measured, "seed {seed}");
    }
    assert_eq!(simulated, measured, "seed {seed}");
    seen.count(run, &simulated);
    seen.add("questions with neighbours", truth.with_neighbours.into_inner());
    simulated.0
}

/// Counts the starts of jobs with other cores than at the start before.
fn changes_of_cores(turns: &[Turn]) -> usize {
    let (mut cores, mut changes) = (BTreeMap::new(), 0);
    for action in turns.iter().flat_map(|turn| &turn.actions) {
        if let Action::Start { job, cpus, .. } = action {
            let before = cores.insert(*job, *cpus);
            changes += usize::from(before.is_some_and(|before| before != *cpus));
        }
    }
    changes
}

#[test]
fn every_policy_decides_the_same_on_a_testbed_as_on_a_simulated_cluster() {
    let names = [
        "fifo",
        "fifo-backfill",
        "sjf",
        "sjf-backfill",
        "qssf",
        "qssf-backfill",
        "srtf",
        "srsf",
        "srtf:every=4s:bump=20s",
        "srsf:every=3s",
        "las:every=5s",
        "gittins:every=4s",
        "themis:every=5s",
        "gavel:every=5s",
        "gavel:objective=finish-time:space-sharing=on:every=7s",
        "gavel:objective=max-throughput:space-sharing=on:every=4s",
        "tiresias:10s",
        "tiresias:5s/30s:promote=2",
        "horus-stand-in",
        "packing-fifo",
        "synergy:every=7s",
        "antman:keep=0.85",
        "elastic-fifo",
        "optimus:every=7s",
        "rubick",
        "rubick:pack=on",
        "sia:every=5s",
        "pollux-fixed-batch:every=4s",
        "gandiva:quantum=4s:reports=2",
        "gandiva:quantum=3s:relax=5s:moves=1:reports=2",
        "tandem",
        "tandem:plans=off:guarantee=off:bound=15s",
        "lucid:sharing=on:profile=5s",
        "lucid:estimates=rolling:share-first=on:load-bin=10s:bound=20s:backfill=sharing",
    ];
    // The decisions of an external program are not compared.
    for known in policy::names().filter(|known| !known.starts_with("exec")) {
        let kind = known.split(['[', ':']).next();
        assert!(names.iter().any(|name| name.split(':').next() == kind), "{known} is not compared");
    }
    let (mut seen, mut digests) = (Seen::default(), BTreeMap::<String, Digest>::new());
    for seed in SEEDS {
        let run = RandomRun::new(seed);
        let is_of_stage = |device: &DeviceId| {
            run.topology.nodes()[run.topology.node_of(*device).0 as usize].facts.profiling
        };
        for name in names {
            let build = || policy::build(name, &policy::typed([])).expect("there is such a policy");
            let digest = digests.entry(name.to_owned()).or_default();
            let turns = check(&run, seed, (&mut seen, digest), &build);
            let refused = turns.iter().flat_map(|turn| &turn.refused).next();
            assert!(refused.is_none(), "{name}, seed {seed}: {refused:?}");
            if name.starts_with("lucid") {
                let profiled = turns.iter().flat_map(|turn| &turn.actions).filter(|action| match action {
                    Action::Start { devices, .. } => devices.iter().all(is_of_stage),
                    _ => false,
                });
                seen.add("profiled", profiled.count());
                let stops = turns.iter().flat_map(|turn| &turn.actions);
                let is_stop = |action: &&Action| matches!(action, Action::Stop { checkpoint: false, .. });
                seen.add("stopped after profiling", stops.filter(is_stop).count());
                let beside = turns.iter().filter(|turn| turn.reason.contains(" beside "));
                seen.add("packed by class", beside.count());
            }
            if name.starts_with("synergy") {
                seen.add("changes of cores", changes_of_cores(&turns));
            }
            if run.is_mistaken && name == "srtf" {
                // Decisions that the truth would not have brought about.
                let (believed, _) = simulate(&run, &*run.belief, &mut *build());
                let (known, _) = simulate(&run, &run.truth, &mut *build());
                let actions =
                    |turns: &[Turn]| turns.iter().flat_map(|turn| turn.actions.clone()).collect::<Vec<_>>();
                seen.add("mistakes", usize::from(actions(&believed) != actions(&known)));
            }
        }
    }
    seen.assert(&[
        ("starts", 10_000),
        ("reshaped", 700),
        ("resized", 120),
        ("spread", 2_000),
        ("old devices", 2_000),
        ("cpus", 5_000),
        ("virtual clusters", 2_000),
        ("stops", 5_000),
        ("packed", 200),
        ("reports", 30_000),
        ("reported training losses", 8_000),
        ("crashes", 1_500),
        ("failures with a checkpoint", 700),
        ("questions with neighbours", 1_500),
        ("mistakes", 25),
        ("changes of cores", 50),
        ("throttles", 50),
        ("profiled", 400),
        ("stopped after profiling", 200),
        ("packed by class", 100),
        ("paused", 5_000),
        ("resumes", 5_000),
    ]);
    golden::compare("policies", &digests);
}

#[test]
fn whatever_is_asked_for_is_the_same_on_a_testbed_as_on_a_simulated_cluster() {
    let (mut seen, mut digest) = (Seen::default(), Digest::default());
    for seed in SEEDS.start..2 * SEEDS.end {
        let mut run = RandomRun::new(seed);
        let suspension = match seed {
            // Jobs of half of the runs are suspended in the usual way.
            seed if SEEDS.contains(&seed) => Suspension::Pause,
            _ => Suspension::ALL[seed as usize % Suspension::ALL.len()],
        };
        (run.settings.suspension, run.engine.suspension) = (suspension, suspension);
        // Devices are lost only here, because other policies let jobs wait for ever for what does not come back.
        if seed % 2 == 0 {
            run.settings.faults.device_mtbf_ns = Some(400e9);
            run.settings.faults.device_repair_ns = f64::MAX;
        }
        let turns = check(&run, seed, (&mut seen, &mut digest), &|| Box::new(Restless::new(seed)));
        for refused in turns.iter().flat_map(|turn| &turn.refused) {
            for (what, why) in [
                ("pauses of jobs that are stopped", "and not by a pause"),
                ("pauses of several processes", "cuda-checkpoint moves the memory of one process"),
                ("checkpoints off the device", "and it is saved from its devices"),
            ] {
                seen.add(what, usize::from(refused.why.contains(why)));
            }
        }
        for (_, happened) in events(&turns) {
            let is_paused = matches!(happened, ClusterEvent::Settled { now: Settled::Paused, .. });
            let of_way = match suspension {
                Suspension::Pause => "paused by pause",
                Suspension::StepGate => "paused by step-gate",
                Suspension::Checkpoint => "paused by checkpoint",
                Suspension::CudaCheckpoint => "paused by cuda-checkpoint",
            };
            seen.add(of_way, usize::from(is_paused));
        }
    }
    seen.assert(&[
        ("starts", 1_300),
        ("reshaped", 450),
        ("resized", 200),
        ("spread", 500),
        ("packed", 400),
        ("old devices", 250),
        ("cpus", 550),
        ("virtual clusters", 300),
        ("throttles", 400),
        ("paused", 300),
        ("resumes", 140),
        ("stops", 600),
        ("ends", 190),
        ("refused", 20_000),
        ("reports", 3_500),
        ("reported training losses", 900),
        ("crashes", 180),
        ("losses", 170),
        ("failures by loss", 70),
        ("failures with a checkpoint", 110),
        ("steps lost", 240),
        ("questions with neighbours", 380),
        ("paused by pause", 300),
        ("paused by step-gate", 60),
        ("paused by cuda-checkpoint", 30),
        ("pauses of jobs that are stopped", 30),
        ("pauses of several processes", 10),
        ("checkpoints off the device", 1),
    ]);
    assert_eq!(seen.0["paused by checkpoint"], 0);
    golden::compare("restless", &BTreeMap::from([("restless".to_owned(), digest)]));
}
