//! Jobs on a testbed with real processes: the effects and the events of each action.

use std::time::Duration;

use engine::{
    Engine,
    cluster::{Action, ClusterEvent, DeviceId, JobId, Settled},
    job::Payload,
    policy::{Decision, Policy},
    topology::Topology,
    view::{Change, View},
};
use formats::decision::Turn;
use launches::{LaunchCluster, ResumePoint};
use record::rows::{ErrorKind, Status};
use rustix::process::{Pid, Signal, kill_process};
use schema::{
    device::Device,
    events::EventReader,
    units::Nanos,
    wire::{Event, EventLine},
};
use testbed::{
    checkpoints::Checkpoints,
    recovery::{Recovered, WasPlaced},
};

use crate::{
    bench::{Bench, Stage, Wanted},
    packing::Packs,
    scripts::MS,
    support::{asked, built},
};

/// Lets a launch go on until it has done steps since its last checkpoint, at a time at which the next one is not due: none is
/// being written. It stays so until the bench lets it go on.
fn until_between_checkpoints(bench: &mut Bench, launch: &str, every: Duration) {
    bench.wait_until("it is between two checkpoints", |bench| {
        let lines = bench.said(launch, 0);
        let is_checkpoint = |line: &EventLine| matches!(line.event, Event::Checkpointed { .. });
        let Some(last) = lines.iter().rposition(is_checkpoint) else { return false };
        let has_gone_on = lines[last..].iter().any(|line| matches!(line.event, Event::Step(_)));
        has_gone_on && Nanos::monotonic_now() < lines[last].mono_ns + every.into()
    });
}

fn when(lines: &[EventLine], what: impl Fn(&Event) -> bool) -> Nanos {
    lines.iter().find(|line| what(&line.event)).expect("it was said").mono_ns
}

#[test]
fn a_job_trains_is_paused_and_goes_on() {
    let mut bench = Bench::new(&[Wanted::Training("short", 900)], None);
    bench.start(0, &[0], "dp1");
    bench.until_trains_from(0, 0);
    bench.pause(0);
    let paused = bench.until_settled(0, Settled::Paused);
    assert!((1..900).contains(&paused), "it was granted some, and stopped there: {paused}");
    bench.wait(Duration::from_millis(300));
    assert_eq!(bench.steps_said("0001-short", 0), paused, "it does nothing meanwhile");
    bench.resume(0);
    bench.until_trains_from(0, paused);
    assert_eq!(bench.until_finished(0), 900);
    assert_eq!(bench.steps_said("0001-short", 0), 900);
    assert!(bench.apply(Action::Pause { job: JobId(0) }).unwrap_err().contains("no devices"));
}

#[test]
fn who_is_started_where_another_leaves_begins_when_that_one_has_left() {
    let mut bench = Bench::new(&[Wanted::Training("short", 5_000), Wanted::Training("short", 20)], None);
    bench.start(0, &[0, 1], "dp2");
    bench.until_settled(0, Settled::Running);
    bench.pause(0);
    bench.start(1, &[1], "dp1");
    bench.until_settled(0, Settled::Paused);
    assert_eq!(bench.until_finished(1), 20);
    let paused = (0..2)
        .map(|rank| when(&bench.said("0001-short", rank), |event| matches!(event, Event::Paused { .. })));
    let begun = when(&bench.said("0002-short", 0), |event| matches!(event, Event::Hello(_)));
    assert!(paused.max() < Some(begun), "both ranks had left");

    // A job that no longer wants the devices it waits for ends at once, and was never launched.
    bench.resume(0);
    bench.until_settled(0, Settled::Running);
    let mut again = Bench::new(&[Wanted::Training("short", 5_000), Wanted::Training("short", 20)], None);
    again.start(0, &[0], "dp1");
    again.until_settled(0, Settled::Running);
    again.stop(0, false);
    again.start(1, &[0], "dp1");
    again.stop(1, true);
    assert_eq!(again.next(), ClusterEvent::Settled { job: JobId(1), now: Settled::Stopped, steps: 0 });
    again.until_settled(0, Settled::Stopped);
    assert_eq!(again.run.launches().unwrap(), ["0001-short"]);
}

#[test]
fn a_job_that_is_stopped_goes_on_under_another_plan_on_other_devices() {
    let mut bench = Bench::new(&[Wanted::Training("short", 1_500)], None);
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    bench.stop(0, true);
    let stopped = bench.until_settled(0, Settled::Stopped);
    assert!((1..1_500).contains(&stopped), "{stopped}");
    bench.start(0, &[1, 0], "dp2");
    bench.until_trains_from(0, stopped);
    bench.pause(0);
    let paused = bench.until_settled(0, Settled::Paused);
    bench.stop(0, true);
    assert_eq!(bench.until_settled(0, Settled::Stopped), paused, "a paused one is saved as it is");
    bench.start(0, &[0], "ga2");
    assert_eq!(bench.until_finished(0), 1_500);
    let of_launches = [("0001-short", 0), ("0002-short", 0), ("0003-short", 0)];
    let done: u64 = of_launches.iter().map(|(launch, rank)| bench.steps_said(launch, *rank)).sum();
    assert_eq!(done, 1_500, "no step is done twice");
    assert_eq!(bench.run.spec("0002-short").unwrap().job, "short@b8@dp2");
    let left = |bench: &Bench| std::fs::read_dir(bench.run.checkpoints_path()).unwrap().count();
    // A scheduler that dies before it has recorded this must detect it from the files.
    let checkpoints = Checkpoints::open(&bench.run, 1).unwrap();
    let placed = WasPlaced {
        job: JobId(0),
        asked: Some(1_500),
        parts: None,
        told: 0,
        start: 2,
        started_at: Nanos::ZERO,
    };
    let recovered = Recovered::read(&bench.run, &bench.manifest, (&checkpoints, &[]), &[placed]).unwrap();
    assert_eq!(recovered.fates, [ClusterEvent::Finished { job: JobId(0), steps: 1_500 }]);
    assert_eq!(left(&bench), 2, "the checkpoint, and that it is the last one");
    bench.testbed.all_is_written();
    assert_eq!(left(&bench), 0, "no job continues from them any more");
}

#[test]
fn a_job_that_is_killed_goes_on_from_its_last_checkpoint() {
    let every = Duration::from_secs(1);
    let mut bench = Bench::new(&[Wanted::Training("short", 3_000)], Some(every));
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    let saved_at = |bench: &Bench| Checkpoints::open(&bench.run, 1).unwrap().steps(JobId(0));
    until_between_checkpoints(&mut bench, "0001-short", every);
    let Event::Hello(hello) = &bench.said("0001-short", 0)[0].event else { panic!() };
    kill_process(Pid::from_raw(hello.pid as i32).unwrap(), Signal::KILL).unwrap();
    let ClusterEvent::Progress { steps: done, .. } = bench.next() else { panic!("{:?}", bench.told) };
    let ClusterEvent::Failed { steps, kind, detail, .. } = bench.next() else { panic!("{:?}", bench.told) };
    assert_eq!((steps, kind), (saved_at(&bench), ErrorKind::Killed), "{detail}");
    assert!(0 < steps && steps < done, "{steps} of {done} are kept");
    assert_eq!(bench.steps_said("0001-short", 0), done);
    bench.start(0, &[0], "dp1");
    bench.until_trains_from(0, steps);
    assert_eq!(bench.until_finished(0), 3_000);
    assert_eq!(bench.steps_said("0002-short", 0), 3_000 - steps);
}

#[test]
fn what_a_launch_breaks_by_is_told() {
    let jobs =
        [Wanted::Training("hangs", 50), Wanted::Training("too-large", 50), Wanted::Command(&["false"])];
    let mut bench = Bench::new(&jobs, None);
    for (job, plan, expected) in
        [(0, "dp1", ErrorKind::Hung), (1, "dp1", ErrorKind::OutOfMemory), (2, "", ErrorKind::Crashed)]
    {
        bench.start(job, &[0], plan);
        let found = loop {
            if let ClusterEvent::Failed { steps, kind, .. } = bench.next() {
                break (steps, kind);
            }
        };
        assert_eq!(found, (0, expected), "{:?}", bench.told);
    }
}

/// Two jobs of 60 MB on devices of 100 MB each. A paused job on a CPU device keeps its memory.
#[test]
fn jobs_that_need_more_memory_than_a_device_has_are_not_started_there() {
    let heavy = || Wanted::Training("heavy", 100_000);
    let mut bench = Bench::new(&[heavy(), heavy(), Wanted::Training("short", 100_000)], None);
    let on = |job, device| Action::Start {
        job: JobId(job),
        devices: vec![DeviceId(device)],
        cpus: None,
        plan: Some("dp1".parse().unwrap()),
    };
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    let why = "it and the jobs on cpu need 114 MiB together, and there are 95.4 MiB";
    assert_eq!(bench.apply(on(1, 0)), Err(why.into()));
    bench.start(2, &[0], "dp1");
    bench.until_settled(2, Settled::Running);
    bench.pause(0);
    bench.until_settled(0, Settled::Paused);
    assert_eq!(bench.apply(on(1, 0)), Err(why.into()));
    bench.stop(0, false);
    bench.start(1, &[0], "dp1");
    bench.until_settled(1, Settled::Running);
}

/// The policy, which also ends the first job when the other one did not fit beside it.
struct MakesRoom(Box<dyn Policy>);

impl Policy for MakesRoom {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let mut decision = self.0.decide(view);
        if view.changes.iter().any(|change| matches!(change, Change::DoNotFit(..))) {
            decision.actions.push(Action::End { job: JobId(0) });
        }
        decision
    }
}

#[test]
fn a_job_that_ran_out_of_memory_beside_another_runs_after_it() {
    let of = |workload: &str| Payload::Training { workload: workload.into(), global_batch: Some(8) };
    let plan = Some("dp1".parse().unwrap());
    let jobs = [
        asked(0, 0, 1, 100_000, 20 * MS).with(|request| {
            request.what = of("steady");
            request.plan = plan;
        }),
        asked(1, 0, 1, 50, 2 * MS).with(|request| {
            request.what = of("too-large");
            request.plan = plan;
        }),
    ];
    let wanted = [Wanted::Training("steady", 100_000), Wanted::Training("too-large", 50)];
    let Stage { launcher, folder: _folder, .. } =
        Stage::new(&wanted, None, vec![Device::AllCores], Vec::new(), "time-slice");
    let mut testbed = LaunchCluster::new(launcher, &jobs, None, ResumePoint::default());
    let topology = Topology::uniform(1, 1, "CPU");
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
    let mut turns = Vec::new();
    let mut policy = MakesRoom(built("packing-fifo"));
    let outcomes = engine::run(&mut engine, &mut testbed, &mut policy, &mut turns).unwrap();
    let starts_it = |turn: &&Turn| {
        turn.actions.iter().any(|it| matches!(it, Action::Start { job, .. } if *job == JobId(1)))
    };
    let state_of_first = |turn: &Turn| {
        turn.events.iter().find_map(|happened| match happened {
            ClusterEvent::Settled { job: JobId(0), now, .. } => Some(*now),
            _ => None,
        })
    };
    let started_at: Vec<Option<Settled>> = turns.iter().filter(starts_it).map(state_of_first).collect();
    // It is packed as soon as there is a job that runs, and is too large even alone.
    assert_eq!(started_at, [Some(Settled::Running), Some(Settled::Stopped)], "{turns:?}");
    assert_eq!((outcomes[0].status, outcomes[0].starts), (Status::EndedByPolicy, 1));
    assert_eq!((outcomes[1].err, outcomes[1].retries), (Some(ErrorKind::OutOfMemory), 0));
}

/// A disk that refuses a checkpoint costs a rest for each attempt, and nothing else.
#[test]
fn a_checkpoint_that_is_refused_is_tried_again_when_the_next_is_due() {
    let every = Duration::from_millis(700);
    let mut bench = Bench::new(&[Wanted::Training("short", 1_500)], Some(every));
    std::fs::remove_dir(bench.run.checkpoints_path()).unwrap();
    bench.start(0, &[0], "dp1");
    assert_eq!(bench.until_finished(0), 1_500);
    let refused: Vec<Nanos> = bench
        .said("0001-short", 0)
        .iter()
        .filter(|line| matches!(line.event, Event::Refused { .. }))
        .map(|line| line.mono_ns)
        .collect();
    assert!(refused.len() > 1, "it trains for longer than that");
    // It rests for the next checkpoint after that time, and completes its grant before.
    assert!(refused.windows(2).all(|pair| pair[1] - pair[0] >= every.into()), "{refused:?}");
}

#[test]
fn a_program_of_the_users_runs_is_frozen_and_takes_no_checkpoint() {
    let mut bench =
        Bench::new(&[Wanted::Command(&["sleep", "1"]), Wanted::Command(&["sleep", "1000"])], None);
    bench.start(0, &[0], "");
    bench.until_settled(0, Settled::Running);
    bench.pause(0);
    bench.until_settled(0, Settled::Paused);
    bench.resume(0);
    bench.until_settled(0, Settled::Running);
    let why = bench.apply(Action::Stop { job: JobId(0), checkpoint: true }).unwrap_err();
    assert!(why.contains("takes no checkpoint"), "{why}");
    assert_eq!(bench.until_finished(0), 0);
    bench.start(1, &[0], "");
    bench.until_settled(1, Settled::Running);
    bench.stop(1, false);
    assert_eq!(bench.until_settled(1, Settled::Stopped), 0);
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    let mut bench = Bench::new(&[Wanted::Training("short", 10)], None);
    let start = |devices: &[u32], plan: &str| Action::Start {
        job: JobId(0),
        devices: devices.iter().copied().map(engine::cluster::DeviceId).collect(),
        cpus: None,
        plan: Some(plan.parse().unwrap()),
    };
    for (action, words) in [
        (start(&[0], "tp2"), "tp"),
        (start(&[0], "dp2"), "it needs 2 devices"),
        (start(&[7], "dp1"), "no such device"),
        (Action::Resume { job: JobId(0) }, "no devices"),
    ] {
        let why = bench.apply(action.clone()).unwrap_err();
        assert!(why.contains(words), "{action:?}: {why}");
    }
    assert_eq!(bench.run.launches().unwrap(), Vec::<String>::new());
    bench.start(0, &[0], "dp1");
    assert_eq!(bench.until_finished(0), 10, "and the job is as it was");
}

#[test]
fn what_a_dead_scheduler_has_left_is_known_to_the_step() {
    let every = Duration::from_secs(1);
    let short = |steps| Wanted::Training("short", steps);
    let jobs = [short(100_000), short(40), short(40), Wanted::Command(&["true"])];
    let mut bench = Bench::new(&jobs, Some(every));
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    bench.start(1, &[1], "dp1");
    assert_eq!(bench.until_finished(1), 40);
    bench.start(3, &[1], "");
    assert_eq!(bench.until_finished(3), 0);
    until_between_checkpoints(&mut bench, "0001-short", every);
    let (run, manifest) = (bench.run.clone(), bench.manifest.clone());
    // Like a kill: no process of a launch outlives the harness.
    let Bench { testbed, _folder, .. } = bench;
    drop(testbed);

    let checkpoints = Checkpoints::open(&run, 4).unwrap();
    let was_placed = |(id, steps)| {
        let (job, asked) = (JobId(id), Some(steps));
        WasPlaced { job, asked, parts: None, told: 0, start: 0, started_at: Nanos::ZERO }
    };
    let placed = [(0, 100_000), (1, 40), (2, 40), (3, 7)].map(was_placed);
    let recovered = Recovered::read(&run, &manifest, (&checkpoints, &[]), &placed).unwrap();
    let mut lines = Vec::new();
    EventReader::open(&run.events_path("0001-short", 0), 0).unwrap().poll(&mut lines).unwrap();
    let done = lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as u64;
    let of_step = |line: &EventLine| if let Event::Step(step) = &line.event { step.loss } else { None };
    let loss = lines.iter().filter_map(of_step).sum::<f64>() / done as f64;
    let kept = checkpoints.steps(JobId(0));
    assert!(0 < kept && kept < done, "{kept} of {done}");
    let gone = |job, steps| ClusterEvent::Failed {
        job,
        steps,
        kind: ErrorKind::Interrupted,
        detail: "ended together with the scheduler".into(),
    };
    let expected = [
        ClusterEvent::Progress { job: JobId(0), steps: done, loss: Some(loss) },
        gone(JobId(0), kept),
        // All its steps are on file, even if its end was not reported.
        ClusterEvent::Finished { job: JobId(1), steps: 40 },
        gone(JobId(2), 0),
        // A program that exited with success is complete, regardless of the request.
        ClusterEvent::Finished { job: JobId(3), steps: 0 },
    ];
    assert_eq!(recovered.fates, expected);
    assert_eq!(recovered.last_word_mono_ns, lines.last().map(|line| line.mono_ns));

    // Started once more, but not launched: earlier losses are not counted twice.
    let again = WasPlaced { start: 1, ..placed[0] };
    let recovered = Recovered::read(&run, &manifest, (&checkpoints, &[]), &[again]).unwrap();
    assert_eq!((recovered.fates, recovered.last_word_mono_ns), (vec![gone(JobId(0), kept)], None));
    // The parts of a program without steps of its own are in no file.
    let in_parts = WasPlaced { asked: None, parts: Some(9), told: 4, ..placed[3] };
    let recovered = Recovered::read(&run, &manifest, (&checkpoints, &[]), &[in_parts]).unwrap();
    assert_eq!(recovered.fates, [ClusterEvent::Finished { job: JobId(3), steps: 9 }]);
    // Reported progress stays, even if the files have lost it.
    let told = WasPlaced { told: done + 5, ..placed[0] };
    let recovered = Recovered::read(&run, &manifest, (&checkpoints, &[]), &[told]).unwrap();
    assert_eq!(recovered.fates[0], ClusterEvent::Progress { job: JobId(0), steps: done + 5, loss: None });
}
