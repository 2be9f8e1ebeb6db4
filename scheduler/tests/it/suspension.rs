//! The ways in which jobs are suspended: what the engine refuses, and what launches with synthetic workers do.

use std::time::Duration;

use engine::{
    Settings,
    cluster::{Action, JobId, Settled},
};
use record::{
    rows::{ErrorKind, Status},
    suspension::Suspension,
};
use schema::wire::{Event, EventLine};

use crate::{
    actions::{arrived, failed, run_with, settled},
    bench::{Bench, Wanted},
    policies::becomes_command,
    scripts::start,
    support::asked,
};

/// In the way of the run: under `step-gate` a paused job keeps its memory, and `cuda-checkpoint` takes that of commands, too.
#[test]
fn what_a_paused_job_keeps_depends_on_how_it_is_suspended() {
    let mut jobs: Vec<_> = (0..2).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let pause = vec![Action::Pause { job: JobId(0) }, start(1, &[0])];
    let mut starts_beside = |suspension, is_command: bool| {
        jobs[0] = asked(0, 0, 1, 9, 1);
        if is_command {
            becomes_command(&mut jobs[0]);
        }
        let script = vec![
            (arrived(0), vec![start(0, &[0])]),
            (arrived(1), vec![start(1, &[0])]),
            (failed(1, ErrorKind::OutOfMemory), vec![]),
            (settled(0, Settled::Running), pause.clone()),
        ];
        let (turns, ..) = run_with(&jobs, script, Settings { suspension, ..Default::default() });
        turns[3].refused.iter().map(|it| it.why.clone()).collect::<Vec<_>>()
    };
    let beside = ["it did not fit on a device with job-0"];
    assert_eq!(starts_beside(Suspension::StepGate, false), beside);
    assert_eq!(starts_beside(Suspension::StepGate, true), beside);
    assert!(starts_beside(Suspension::Pause, false).is_empty());
    assert_eq!(starts_beside(Suspension::Pause, true), beside);
    assert!(starts_beside(Suspension::CudaCheckpoint, false).is_empty());
    assert!(starts_beside(Suspension::CudaCheckpoint, true).is_empty());
    let not_paused = "jobs of this run are suspended by a stop with a checkpoint, and not by a pause";
    let found = starts_beside(Suspension::Checkpoint, false);
    assert_eq!(found, [not_paused, beside[0]]);
}

#[test]
fn cuda_checkpoint_moves_one_process_and_a_job_that_it_moved_is_saved_where_there_is_room() {
    let jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let pause = |job| vec![Action::Pause { job: JobId(job) }];
    let stop = |checkpoint| vec![Action::Stop { job: JobId(0), checkpoint }];
    let script = vec![
        (arrived(0), vec![start(0, &[0])]),
        (arrived(1), vec![]),
        (settled(0, Settled::Running), [pause(0), vec![start(1, &[0])]].concat()),
        (settled(0, Settled::Paused), stop(true)),
        (settled(1, Settled::Running), pause(1)),
        (settled(1, Settled::Paused), stop(true)),
    ];
    let settings = Settings { suspension: Suspension::CudaCheckpoint, ..Default::default() };
    let (turns, ..) = run_with(&jobs, script, settings.clone());
    let why = |turn: usize| turns[turn].refused.iter().map(|it| it.why.as_str()).collect::<Vec<_>>();
    let needs_room =
        "cuda-checkpoint has moved it to the host, and it is saved from its devices, which others use";
    assert_eq!((why(3), why(5)), (vec![needs_room], vec![]));

    let two = [asked(0, 0, 2, 9, 1)];
    let script = vec![(arrived(0), vec![start(0, &[0, 1])]), (settled(0, Settled::Running), pause(0))];
    let (turns, ..) = run_with(&two, script, settings);
    assert_eq!(turns[1].refused[0].why, "cuda-checkpoint moves the memory of one process, and it has 2");
}

#[test]
fn a_job_whose_suspension_failed_is_not_started_again() {
    let script = vec![
        (arrived(0), vec![start(0, &[0])]),
        (settled(0, Settled::Running), vec![]),
        (failed(0, ErrorKind::Suspension), vec![start(0, &[0])]),
    ];
    let (turns, outcomes, _) = run_with(&[asked(0, 0, 1, 9, 1)], script, Settings::default());
    assert!(turns.len() == 3 && outcomes[0].retries == 0, "{outcomes:?}");
    assert_eq!((outcomes[0].status, outcomes[0].err), (Status::Failed, Some(ErrorKind::Suspension)));
}

#[test]
fn a_job_is_held_at_a_step_and_told_nothing() {
    let jobs = [Wanted::Training("short", 1_500), Wanted::Training("short", 20)];
    let mut bench = Bench::suspending(&jobs, None, Suspension::StepGate);
    bench.start(0, &[0, 1], "dp2");
    bench.until_settled(0, Settled::Running);
    bench.pause(0);
    // It waits until both ranks rest.
    bench.start(1, &[1], "dp1");
    let held = bench.until_settled(0, Settled::Paused);
    assert!((1..1_500).contains(&held), "it did what it was granted, and rests there: {held}");
    assert_eq!(bench.until_finished(1), 20);
    bench.wait(Duration::from_millis(200));
    assert_eq!(bench.steps_said("0001-short", 0), held, "it does nothing meanwhile");
    bench.resume(0);
    bench.until_trains_from(0, held);
    bench.pause(0);
    let again = bench.until_settled(0, Settled::Paused);
    assert!(again > held, "{again}");
    bench.resume(0);
    assert_eq!(bench.until_finished(0), 1_500);
    for rank in 0..2 {
        let said = bench.said("0001-short", rank);
        let was_told = |line: &EventLine| matches!(line.event, Event::Paused { .. } | Event::Resumed { .. });
        assert!(!said.iter().any(was_told), "no command was given");
    }
}

#[test]
fn a_job_that_is_held_is_saved_or_ended_as_it_is() {
    let jobs = [Wanted::Training("short", 5_000), Wanted::Training("short", 5_000)];
    let mut bench = Bench::suspending(&jobs, None, Suspension::StepGate);
    for job in 0..2 {
        bench.start(job, &[job], "dp1");
        bench.until_settled(job, Settled::Running);
        bench.pause(job);
    }
    let held = bench.until_settled(1, Settled::Paused);
    bench.stop(1, true);
    assert_eq!(bench.until_settled(1, Settled::Stopped), held);
    bench.start(1, &[1], "dp1");
    bench.until_trains_from(1, held);
    // It is ended on its way to a pause.
    bench.pause(1);
    bench.apply(Action::End { job: JobId(1) }).unwrap();
    bench.until_settled(1, Settled::Stopped);
    assert_eq!(bench.run.launches().unwrap().len(), 3);
}

/// A checkpoint that is being written when a job is to be held belongs to what it does before it rests.
#[test]
fn a_job_that_is_being_saved_is_held_when_that_is_done() {
    let every = Duration::from_millis(300);
    let jobs = [Wanted::Training("short", 3_000)];
    let mut bench = Bench::suspending(&jobs, Some(every), Suspension::StepGate);
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    for _ in 0..5 {
        bench.wait(Duration::from_millis(170));
        bench.pause(0);
        let held = bench.until_settled(0, Settled::Paused);
        bench.wait(Duration::from_millis(100));
        assert_eq!(bench.steps_said("0001-short", 0), held);
        bench.resume(0);
        bench.until_trains_from(0, held);
    }
    assert_eq!(bench.until_finished(0), 3_000);
    let saved = bench.said("0001-short", 0);
    assert!(saved.iter().any(|line| matches!(line.event, Event::Checkpointed { .. })), "some were written");
}

#[test]
fn jobs_that_are_stopped_with_a_checkpoint_are_not_paused() {
    let mut bench = Bench::suspending(&[Wanted::Training("short", 900)], None, Suspension::Checkpoint);
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    let why = bench.apply(Action::Pause { job: JobId(0) }).unwrap_err();
    assert_eq!(why, "jobs of this run are stopped and not paused");
    bench.stop(0, true);
    let stopped = bench.until_settled(0, Settled::Stopped);
    bench.start(0, &[0], "dp1");
    bench.until_trains_from(0, stopped);
    assert_eq!(bench.until_finished(0), 900);
}
