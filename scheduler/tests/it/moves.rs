//! Moves of jobs, by the smallest policy that moves any: FIFO, which moves the first job to the second device when it has reported
//! progress.

use engine::{
    Engine,
    cluster::{Action, DeviceId, JobId, Settled},
    job::State,
    journal::Unrecorded,
    policy::{Decision, Policy},
    topology::Topology,
    view::{Change, View},
};
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use launches::{LaunchCluster, ResumePoint, simulated};
use model::{
    JobKey,
    switch_costs::{Cost, SwitchCosts},
};
use policies::kit::moves::Moves;
use record::{
    manifest::{AlikeNodes, NodeFacts},
    rows::ErrorKind,
};
use schema::{plan::Plan, units::Nanos};

use crate::{
    actions::{self, arrived, failed, settled},
    policies::{becomes_command, jobs},
    scripted::Scripted,
    scripts::FromView,
    support::{Own, SECOND, World},
};

#[derive(Default)]
struct Migrates {
    moves: Moves,
    plan: Option<Plan>,
    has_moved: bool,
}

impl Policy for Migrates {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let mut actions = self.moves.refresh(view);
        let mut draft = view.draft();
        self.moves.hold(&mut draft);
        if view.changes.contains(&Change::Progressed(JobId(0))) && !self.has_moved {
            self.has_moved = true;
            draft.hold(&[DeviceId(1)]);
            actions.push(self.moves.begin(JobId(0), vec![DeviceId(1)], self.plan, None));
        }
        for (job, number) in view.jobs.iter().zip(0..) {
            let waits = matches!(job.state, State::Waiting { .. }) && !self.moves.has(JobId(number));
            if let Some(devices) = waits.then(|| draft.take(1, None)).flatten() {
                actions.push(Action::Start { job: JobId(number), devices, cpus: None, plan: None });
            }
        }
        let moves = self.moves.under_way().map(|(job, to)| format!("{} {}", job.0, to.has_left));
        Decision { actions, wake_at: None, reason: moves.collect() }
    }
}

struct Costs;

impl SwitchCosts for Costs {
    fn cost(&self, _: &JobKey<'_>, _: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let seconds = match of {
            Cost::Start | Cost::Stop => 1,
            Cost::Checkpoint => 2,
            Cost::Restart => 4,
            Cost::Pause | Cost::Resume | Cost::Exit => 0,
        };
        Some(Nanos(seconds * SECOND))
    }
}

/// `(second, job, device)` of each start.
fn starts(turns: &[Turn]) -> Vec<(u64, u32, u32)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, devices, .. } => Some((turn.at_ns.0 / SECOND, job.0, devices[0].0)),
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

/// The first job reports 3 steps at 4 s, leaves until 7 s, and runs on the second device from 11 s on. Two jobs arrive meanwhile,
/// and only one of them finds a device.
#[test]
fn a_job_migrates_and_no_other_job_takes_its_place() {
    let topology = Topology::uniform(2, 1, "GPU");
    let mut jobs = jobs(&[(0, 1, 10), (5, 1, 2), (5, 1, 2)]);
    for job in &mut jobs {
        (job.steps, job.step_ns) = (job.steps.map(|steps| steps / 1_000), Some(SECOND));
    }
    let truth = Own { slowdown: 1.0 };
    let progress_every = Some(Nanos(3 * SECOND));
    let settings = simulated::Settings { progress_every, ..simulated::Settings::default() };
    let world = World { topology: &topology, asked: &jobs, truth, costs: &Costs, settings };
    let mut simulated: Vec<Turn> = Vec::new();
    let outcomes = world.run(&mut Migrates::default(), &mut simulated).expect("every job ends");
    assert_eq!(starts(&simulated), [(0, 0, 0), (5, 1, 0), (7, 0, 1), (10, 2, 0)]);
    let ends: Vec<_> =
        outcomes.iter().filter_map(|row: &Outcome| Some(row.end_ns?.div_ceil(SECOND))).collect();
    assert_eq!(ends, [18, 10, 13]);
    assert_eq!((outcomes[0].starts, outcomes[0].steps_lost), (2, 0));
    let told = |second: u64| {
        simulated.iter().rfind(|turn| turn.at_ns.0 / SECOND == second).map(|turn| &*turn.reason)
    };
    assert_eq!([1, 4, 5, 7, 11].map(told), ["", "0 false", "0 false", "0 true", ""].map(Some));
    assert!(simulated.iter().all(|turn| turn.refused.is_empty()));

    let scripted = Scripted::new(&topology, &jobs, &truth, &Costs);
    let mut testbed = LaunchCluster::new(scripted, &jobs, progress_every, ResumePoint::default());
    let mut run: Vec<Turn> = Vec::new();
    let measured = engine::run(&mut world.engine(), &mut testbed, &mut Migrates::default(), &mut run);
    assert_eq!((run, measured.expect("every job ends")), (simulated, outcomes));
}

/// What happens after the progress, and where the job is started then.
#[test]
fn a_move_is_dropped_when_its_job_or_its_device_is_lost_or_an_action_is_refused() {
    let progress = || ClusterEvent::Progress { job: JobId(0), steps: 3, loss: None };
    let now = |now| ClusterEvent::Settled { job: JobId(0), now, steps: 3 };
    let stopped = || now(Settled::Stopped);
    let lost = ClusterEvent::DeviceLost { device: DeviceId(1) };
    let finished = ClusterEvent::Finished { job: JobId(0), steps: 9 };
    let crashes = || failed(0, ErrorKind::Crashed);
    let other_plan = "dp2".parse::<Plan>().ok();
    for (what, happens, plan, is_command, expected) in [
        ("it moves", vec![stopped(), now(Settled::Running)], None, false, &[0, 1][..]),
        ("it ends", vec![finished], None, false, &[0]),
        ("it fails while it leaves", vec![crashes()], None, false, &[0, 0]),
        ("it fails while it starts", vec![stopped(), crashes()], None, false, &[0, 1, 0]),
        ("its destination is lost", vec![lost, stopped()], None, false, &[0, 0]),
        ("its start is refused", vec![stopped(), arrived(1)], other_plan, false, &[0, 0]),
        ("its stop is refused", vec![progress(), progress()], None, true, &[0]),
    ] {
        let topology = Topology::uniform(2, 1, "GPU");
        let mut jobs = jobs(&[(0, 1, 9), (0, 1, 9)]);
        if is_command {
            becomes_command(&mut jobs[0]);
        }
        let began = [arrived(0), settled(0, Settled::Running), progress()];
        let events = began.into_iter().chain(happens).collect();
        let mut cluster = actions::Scripted { now: Nanos::ZERO, events };
        let model = Own { slowdown: 1.0 };
        let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
        let mut policy = Migrates { plan, ..Migrates::default() };
        let mut turns: Vec<Turn> = Vec::new();
        let ended = engine::run(&mut engine, &mut cluster, &mut policy, &mut turns);
        assert!(ended.is_err(), "{what}: the script ends before the jobs");
        let found: Vec<u32> =
            starts(&turns).into_iter().filter(|(_, job, _)| *job == 0).map(|(.., device)| device).collect();
        assert_eq!(found, expected, "{what}");
        let is_refused = plan.is_some() || is_command;
        assert_eq!(turns.iter().any(|turn| !turn.refused.is_empty()), is_refused, "{what}");
        assert_eq!(policy.moves.under_way().count(), 0, "{what}");
    }
}

/// A job with one of four cores moves to three of them. A job that arrives while it starts there gets the last one.
#[test]
fn the_cores_of_a_move_are_taken_once() {
    let group = AlikeNodes {
        nodes: 1,
        devices: 2,
        device_type: "GPU".into(),
        facts: NodeFacts { cpus: Some(4), ..NodeFacts::default() },
        ..AlikeNodes::default()
    };
    let topology = Topology::simulated(&[group]);
    let jobs = jobs(&[(0, 1, 9), (0, 1, 9)]);
    let stopped = ClusterEvent::Settled { job: JobId(0), now: Settled::Stopped, steps: 0 };
    let events = [arrived(0), settled(0, Settled::Running), stopped, arrived(1)].into();
    let mut cluster = actions::Scripted { now: Nanos::ZERO, events };
    let model = Own { slowdown: 1.0 };
    let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
    let (mut moves, mut has_room) = (Moves::default(), Vec::new());
    let mut policy = FromView(|view: &View<'_>| {
        let mut actions = moves.refresh(view);
        if view.changes.contains(&Change::Settled(JobId(0))) && actions.is_empty() {
            actions.push(moves.begin(JobId(0), vec![DeviceId(0)], None, Some(3)));
        }
        if view.changes.contains(&Change::Waits(JobId(0))) && actions.is_empty() {
            let devices = vec![DeviceId(0)];
            actions.push(Action::Start { job: JobId(0), devices, cpus: Some(1), plan: None });
        }
        let mut draft = view.draft();
        moves.hold(&mut draft);
        has_room.push([1, 2].map(|cpus| draft.fits_with(1, None, Some(cpus))));
        actions
    });
    engine::run(&mut engine, &mut cluster, &mut policy, &mut Unrecorded).expect_err("the script ends first");
    assert_eq!(has_room.last(), Some(&[true, false]), "{has_room:?}");
}
