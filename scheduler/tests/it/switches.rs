//! Known accounts of the time of jobs, if switches have a cost and devices are shared.

use std::path::Path;

use engine::{
    cluster::{Action, JobId, Settled},
    job::{JobRequest, Payload},
    journal::Unrecorded,
    topology::Topology,
    view::{Change, View},
};
use formats::decision::{ClusterEvent, Turn};
use launches::simulated;
use model::{
    JobKey,
    switch_costs::{Cost, Measured, Named, SwitchCosts},
};
use outcomes::totals::totals;
use record::{calibration::Calibration, rows::Status, suspension::Suspension};
use schema::{plan::Plan, units::Nanos};

use crate::{
    scripts::{self, FromView, MS, Script, start},
    support::{Own, SECOND, World, asked, built},
};

/// 10 s to start, 20 s from a checkpoint, 1 s to pause, 2 s to resume, 4 s for a checkpoint, 5 s to stop, nothing to exit;
/// and the work that is granted to a job when it is ordered to.
pub(crate) struct Constants(pub(crate) Nanos);

/// The same, with an exit of 3 s.
struct WithExits;

impl SwitchCosts for WithExits {
    fn cost(&self, job: &JobKey<'_>, devices: u32, of: Cost, luck: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let others = Constants(Nanos::ZERO).cost(job, devices, of, luck);
        if of == Cost::Exit { Some(Nanos(3 * SECOND)) } else { others }
    }
}

impl SwitchCosts for Constants {
    fn cost(&self, _: &JobKey<'_>, _: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let seconds = match of {
            Cost::Start => 10,
            Cost::Restart => 20,
            Cost::Pause => 1,
            Cost::Resume => 2,
            Cost::Checkpoint => 4,
            Cost::Stop => 5,
            Cost::Exit => 0,
        };
        Some(Nanos(seconds * SECOND))
    }

    fn works_on(&self, _: &JobKey<'_>, _: u32) -> Nanos {
        self.0
    }
}

/// The seconds at which something happened, and the events.
fn story(turns: &[Turn]) -> Vec<(f64, ClusterEvent)> {
    scripts::events(turns).map(|(at, happened)| (at.as_secs_f64(), happened.clone())).collect()
}

fn settled(job: u32, now: Settled, steps: u64) -> ClusterEvent {
    ClusterEvent::Settled { job: JobId(job), now, steps }
}

fn arrived(job: u32) -> ClusterEvent {
    ClusterEvent::Arrived { job: JobId(job) }
}

fn finished(job: u32, steps: u64) -> ClusterEvent {
    ClusterEvent::Finished { job: JobId(job), steps }
}

#[test]
fn a_job_is_paused_at_a_boundary_and_resumed_where_it_was() {
    let topology = Topology::uniform(1, 1, "GPU");
    // Steps of 1 s; the second job arrives 2.5 steps after the first began to run.
    let jobs = [asked(0, 0, 1, 10, SECOND), asked(1, 12_500 * MS, 1, 3, SECOND)];
    let settings = simulated::Settings::default();
    let world = World {
        topology: &topology,
        asked: &jobs,
        truth: Own { slowdown: 1.0 },
        costs: &Constants(Nanos::ZERO),
        settings,
    };
    let (one, two) = (JobId(0), JobId(1));
    let mut script = Script(vec![
        vec![start(0, &[0])],
        vec![],
        vec![Action::Pause { job: one }, start(1, &[0])],
        vec![],
        vec![],
        vec![Action::Stop { job: two, checkpoint: true }, Action::Resume { job: one }],
    ]);
    let (turns, outcomes, error) = scripts::turns(&world, &mut script);
    let expected = [
        (0.0, arrived(0)),
        (10.0, settled(0, Settled::Running, 0)),
        (12.5, arrived(1)),
        // At the end of its third step, and 1 s to pause. Only then does the other job begin.
        (14.0, settled(0, Settled::Paused, 3)),
        (24.0, settled(1, Settled::Running, 0)),
        (27.0, finished(1, 3)),
        (29.0, settled(0, Settled::Running, 3)),
        (36.0, finished(0, 10)),
    ];
    assert_eq!(story(&turns), expected);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(turns[5].refused.len(), 1, "the second had finished: {:?}", turns[5].refused);
    let row = &outcomes[0];
    assert_eq!(row.jct_ns, Some(36 * SECOND));
    let times = [row.queued_ns, row.switching_ns, row.running_ns, row.paused_ns];
    // 10 s to start, 1.5 s to the boundary and to pause, 2 s to resume.
    assert_eq!(times, [0, 13_500, 9_500, 13_000].map(|ms| Some(ms * MS)));
    assert_eq!((row.starts, row.pauses, row.steps_lost), (1, 1, 0));
}

/// A job keeps its device until it has exited, and no longer slows down the job beside it. An order to a job that exits has no effect.
#[test]
fn a_job_keeps_its_device_until_it_has_exited() {
    let topology = Topology::uniform(1, 1, "GPU");
    let job = JobId(0);
    let orders = [Action::Pause { job }, Action::Stop { job, checkpoint: true }];
    for order in orders.iter().map(Some).chain([None]) {
        let jobs =
            [asked(0, 0, 1, 2, SECOND), asked(1, SECOND, 1, 4, SECOND), asked(2, 15 * SECOND, 1, 1, SECOND)];
        let settings = simulated::Settings::default();
        let truth = Own { slowdown: 2.0 };
        let world = World { topology: &topology, asked: &jobs, truth, costs: &WithExits, settings };
        let mut script = Script(vec![
            vec![start(0, &[0])],
            vec![start(1, &[0])],
            vec![],
            vec![],
            order.into_iter().cloned().collect(),
            vec![start(2, &[0])],
        ]);
        let (turns, outcomes, error) = scripts::turns(&world, &mut script);
        assert!(error.is_none() && turns.iter().all(|turn| turn.refused.is_empty()), "{order:?}: {error:?}");
        let expected = [
            (0.0, arrived(0)),
            (1.0, arrived(1)),
            (10.0, settled(0, Settled::Running, 0)),
            (11.0, settled(1, Settled::Running, 0)),
            (15.0, arrived(2)),
            // A step of 1 s alone, a step of 2 s beside the other job, and the exit.
            (16.0, finished(0, 2)),
            // A step of 2 s, three of 1 s, and the exit.
            (19.0, finished(1, 4)),
            (26.0, settled(2, Settled::Running, 0)),
            (30.0, finished(2, 1)),
        ];
        assert_eq!(story(&turns), expected, "{order:?}");
        assert_eq!(outcomes[1].running_ns, Some(8 * SECOND), "its exit counts as running");
    }
}

#[test]
fn a_stopped_job_goes_on_from_its_checkpoint_or_loses_its_steps() {
    for (checkpoint, left_at, started_again, ended, lost) in
        [(true, 22.0, 42.0, 49.0, 0), (false, 18.0, 28.0, 38.0, 3)]
    {
        let topology = Topology::uniform(2, 1, "GPU");
        let jobs = [asked(0, 0, 1, 10, SECOND), asked(1, 12_500 * MS, 1, 1, SECOND)];
        // Two steps were reported before the order to stop, and the job completes the third one.
        let settings = simulated::Settings { progress_every: Some(Nanos(SECOND)), ..Default::default() };
        let world = World {
            topology: &topology,
            asked: &jobs,
            truth: Own { slowdown: 1.0 },
            costs: &Constants(Nanos::ZERO),
            settings,
        };
        let mut has_stopped = false;
        let mut policy = FromView(|view: &View<'_>| {
            let waits = |change: &Change| *change == Change::Waits(JobId(0));
            if view.now == Nanos(12_500 * MS) {
                has_stopped = true;
                return vec![Action::Stop { job: JobId(0), checkpoint }, start(1, &[0])];
            }
            if view.changes.iter().any(waits) { vec![start(0, &[u32::from(has_stopped)])] } else { vec![] }
        });
        let (turns, outcomes, error) = scripts::turns(&world, &mut policy);
        assert!(error.is_none(), "{error:?}");
        let mut story = story(&turns);
        story.retain(|(_, happened)| {
            !matches!(happened, ClusterEvent::Progress { .. } | ClusterEvent::Arrived { .. })
        });
        let steps = if checkpoint { 3 } else { 0 };
        assert_eq!(story[1], (left_at, settled(0, Settled::Stopped, steps)));
        assert!(story.contains(&(started_again, settled(0, Settled::Running, steps))), "{story:?}");
        assert!(story.contains(&(ended, finished(0, 10))), "{story:?}");
        // The other job waited until the device was free.
        assert!(story.contains(&(left_at + 10.0, settled(1, Settled::Running, 0))), "{story:?}");
        assert_eq!((outcomes[0].steps_lost, outcomes[0].starts), (lost, 2));
        assert_eq!(outcomes[0].status, Status::Ok);
    }
}

#[test]
fn a_job_that_leaves_does_what_it_was_granted_before() {
    // Steps of 1 s from the tenth second on, and the order to stop after two and a half of them.
    for (granted_ms, expected) in [
        (0, (22.0, settled(0, Settled::Stopped, 3))),
        // The next step is always granted.
        (400, (23.0, settled(0, Settled::Stopped, 4))),
        (1_200, (23.0, settled(0, Settled::Stopped, 4))),
        (1_700, (24.0, settled(0, Settled::Stopped, 5))),
        (60_000, (20.0, finished(0, 10))),
    ] {
        let topology = Topology::uniform(1, 1, "GPU");
        let jobs = [asked(0, 0, 1, 10, SECOND), asked(1, 12_500 * MS, 1, 1, SECOND)];
        let (truth, settings) = (Own { slowdown: 1.0 }, simulated::Settings::default());
        let costs = Constants(Nanos(granted_ms * MS));
        let world = World { topology: &topology, asked: &jobs, truth, costs: &costs, settings };
        let stop = Action::Stop { job: JobId(0), checkpoint: true };
        let mut script = Script(vec![vec![start(0, &[0])], vec![], vec![stop, start(1, &[0])]]);
        let (turns, ..) = scripts::turns(&world, &mut script);
        let story = story(&turns);
        assert_eq!(story[3], expected, "{granted_ms} ms");
        let goes = (expected.0 + 10.0, settled(1, Settled::Running, 0));
        assert!(story.contains(&goes), "the other waits until the device was left: {story:?}");
    }
}

/// Two jobs on one device run at half speed, and at full speed after one has left.
#[test]
fn what_is_left_is_planned_anew_when_company_changes() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = [asked(0, 0, 1, 10, SECOND), asked(1, 4 * SECOND, 1, 5, SECOND)];
    let costs = Named::constant(Nanos::ZERO);
    let settings = simulated::Settings { progress_every: Some(Nanos(4 * SECOND)), ..Default::default() };
    let world =
        World { topology: &topology, asked: &jobs, truth: Own { slowdown: 2.0 }, costs: &costs, settings };
    let mut script = Script(vec![vec![start(0, &[0])], vec![], vec![start(1, &[0])]]);
    let (turns, outcomes, _) = scripts::turns(&world, &mut script);
    let progress = |job, steps| ClusterEvent::Progress { job: JobId(job), steps, loss: None };
    let expected = [
        (0.0, arrived(0)),
        (0.0, settled(0, Settled::Running, 0)),
        (4.0, arrived(1)),
        (4.0, progress(0, 4)),
        (4.0, settled(1, Settled::Running, 0)),
        (8.0, progress(0, 6)),
        (8.0, progress(1, 2)),
        (12.0, progress(0, 8)),
        (12.0, progress(1, 4)),
        // Both have done 5 steps together, and one job has one left.
        (14.0, finished(1, 5)),
        (15.0, finished(0, 10)),
    ];
    assert_eq!(story(&turns), expected);
    assert_eq!(outcomes[0].device_time_ns, Some(15 * SECOND));
    // The device is busy for 15 s. From 4 s to 14 s each of the jobs has half of it.
    let shares: Vec<_> = outcomes.iter().map(|row| row.busy_share_ns).collect();
    assert_eq!(shares, [Some(10 * SECOND), Some(5 * SECOND)]);
    assert_eq!(totals("", &outcomes, 1).util_percent, Some(100.0));
}

#[test]
fn launches_differ_by_the_noise_that_was_asked_for_and_by_nothing_else() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs: Vec<_> =
        (0..400).map(|id| asked(id, u64::from(id) * 1_000 * SECOND, 1, 1_000, 10 * MS)).collect();
    let costs = Named::constant(Nanos::ZERO);
    let logs = |noise, seed| -> Vec<f64> {
        let settings = simulated::Settings { noise, seed, ..Default::default() };
        let world = World {
            topology: &topology,
            asked: &jobs,
            truth: Own { slowdown: 1.0 },
            costs: &costs,
            settings,
        };
        let rows = world.run(&mut *built("fifo"), &mut Unrecorded).unwrap();
        rows.iter().map(|row| (row.jct_ns.unwrap() as f64 / 10e9).ln()).collect()
    };
    assert!(logs(0.0, 1).iter().all(|log| *log == 0.0));
    let (one, other) = (logs(0.05, 1), logs(0.05, 2));
    assert_ne!(one, other);
    let deviation = (one.iter().map(|log| log * log).sum::<f64>() / 400.0).sqrt();
    assert!((0.045..0.055).contains(&deviation), "{deviation}");
}

/// The cost of a checkpoint is spread over the steps between two: 4 s in 16 s make a step of 1 s one of
/// 1.25 s.
#[test]
fn checkpoints_cost_their_time() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = [asked(0, 0, 1, 8, SECOND)];
    let settings = simulated::Settings { checkpoint_every: Some(Nanos(16 * SECOND)), ..Default::default() };
    let world = World {
        topology: &topology,
        asked: &jobs,
        truth: Own { slowdown: 1.0 },
        costs: &Constants(Nanos::ZERO),
        settings,
    };
    let (_, outcomes, _) = scripts::turns(&world, &mut *built("fifo"));
    assert_eq!(outcomes[0].running_ns, Some(10 * SECOND));
}

#[test]
fn a_launch_that_dies_leaves_the_steps_of_its_last_checkpoint() {
    let topology = Topology::uniform(8, 8, "GPU");
    let jobs: Vec<_> = (0..80).map(|id| asked(id, 0, 1, 20, SECOND)).collect();
    let costs = Named::constant(Nanos::SECOND);
    let faults = simulated::Faults { launch_mtbf_ns: Some(20e9), ..Default::default() };
    let every = Nanos(4 * SECOND);
    let settings = simulated::Settings { checkpoint_every: Some(every), faults, ..Default::default() };
    let world =
        World { topology: &topology, asked: &jobs, truth: Own { slowdown: 1.0 }, costs: &costs, settings };
    let (turns, outcomes, error) = scripts::turns(&world, &mut *built("fifo"));
    assert!(error.is_none(), "{error:?}");
    let (mut began, mut failures) = (vec![(Nanos::ZERO, 0); jobs.len()], 0);
    let (mut done, mut lost) = (vec![0u64; jobs.len()], 0);
    for (at, happened) in scripts::events(&turns) {
        match *happened {
            ClusterEvent::Settled { job, now: Settled::Running, steps } => {
                began[job.0 as usize] = (at, steps);
                done[job.0 as usize] = steps;
            }
            // The only progress that is reported here is that of steps that are about to be lost.
            ClusterEvent::Progress { job, steps, .. } => done[job.0 as usize] = steps,
            ClusterEvent::Failed { job, steps, .. } => {
                lost += done[job.0 as usize].saturating_sub(steps);
                let (since, before) = began[job.0 as usize];
                let written = (at - since).0 / every.0;
                assert_eq!(steps, before + 4 * written, "{job:?}, {} after it began", at - since);
                failures += 1;
            }
            _ => {}
        }
    }
    assert!(failures > 40, "{failures}");
    assert!(lost > failures, "some two of four steps each: {lost}");
    assert_eq!(outcomes.iter().map(|row| row.steps_lost).sum::<u64>(), lost);
    assert!(outcomes.iter().any(|row| row.retries > 0 && row.status == Status::Ok));
}

/// Impossible numbers of steps are reported, instead of an overflow.
#[test]
fn a_simulation_ends_when_jobs_would_outlive_everybody() {
    let topology = Topology::uniform(8, 8, "GPU");
    let costs = Named::constant(Nanos::ZERO);
    for (steps, step_ns) in [(u64::MAX, SECOND), (1 << 40, u64::MAX), (1, u64::MAX)] {
        let jobs = [asked(0, 0, 8, steps, step_ns), asked(1, SECOND, 1, 1, SECOND)];
        let faults = simulated::Faults {
            device_mtbf_ns: Some(1e30),
            device_repair_ns: 1e30,
            launch_mtbf_ns: Some(1e30),
        };
        let settings = simulated::Settings { faults, ..Default::default() };
        let truth = Own { slowdown: 1.0 };
        let world = World { topology: &topology, asked: &jobs, truth, costs: &costs, settings };
        let (_, outcomes, error) = scripts::turns(&world, &mut *built("fifo"));
        let error = error.expect("it does not end").to_string();
        let words =
            "jobs have not ended after 100 simulated years; check their arrivals, steps and step times";
        assert_eq!(error, words);
        assert!(outcomes.iter().all(|row| row.status == Status::Failed));
    }
}

/// A measured machine is read from its file, and every switch of a measured workload has a cost.
#[test]
fn a_calibration_has_all_that_a_simulation_asks_for() {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/record/20261122-epyc/machine.toml");
    let calibration = Calibration::read(&record).unwrap();
    let costs = Measured::new(&[calibration], Nanos::ZERO).unwrap();
    let job = JobKey::new("lstm", Some(20), Some(Plan::default()));
    let ms = |of| costs.cost(&job, 1, of, &mut || 0.0).map(|cost| (cost.as_secs_f64() * 1e3).round());
    // Start 175 ms and restore 4 ms; the first step takes 66 ms and another 32 ms.
    let expected = [208.0, 213.0, 2.0, 0.0, 8.0, 52.0, 52.0].map(Some);
    assert_eq!(Cost::ALL.map(ms), expected);
    // It is from before the cost of holding a job was measured.
    let held = costs.clone().suspended_by(Suspension::StepGate);
    let is_known = |of| held.cost(&job, 1, of, &mut || 0.0).is_some();
    assert_eq!(Cost::ALL.map(is_known), [true, true, false, false, true, true, true]);

    let topology = Topology::uniform(1, 1, "GPU");
    let mut jobs = [asked(0, 0, 1, 8, SECOND)];
    jobs[0].what = Payload::Training { workload: "gpt2".into(), global_batch: None };
    let refused = |jobs: &[JobRequest]| {
        let truth = Box::new(Own { slowdown: 1.0 });
        let sim = simulated::cluster(&topology, jobs, truth, &costs, simulated::Settings::default());
        sim.err().map(|error| error.to_string())
    };
    let message = "job 'job-0': the cost to start gpt2 was not measured; calibrate with it, or name a cost with --switch-cost";
    assert_eq!(refused(&jobs).as_deref(), Some(message));
    jobs[0].steps = None;
    let message = "job 'job-0': its length is not known; add columns 'steps' and 'step_ns' to its trace; for a command \
                   without steps, name a table in which `profile single` measured its duration";
    assert_eq!(refused(&jobs).as_deref(), Some(message));
}
