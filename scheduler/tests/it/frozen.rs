//! Programs that obey no grant: their processes are stopped while their jobs are paused.

use std::fs;

use engine::{
    Settings,
    cluster::{Action, JobId, Settled},
    job::Pausing,
};
use record::{rows::ErrorKind, suspension::Suspension};
use rig::processes::{ProcessId, descendants};

use crate::{
    actions::{arrived, failed, run_with, settled},
    bench::{Bench, Wanted},
    policies::becomes_command,
    scripts::start,
    support::asked,
};

#[test]
fn a_frozen_job_keeps_its_memory_and_cuda_checkpoint_does_not_move_it() {
    let mut jobs: Vec<_> = (0..2).map(|id| asked(id, 0, 1, 9, 1)).collect();
    becomes_command(&mut jobs[0]);
    jobs[0].pausing = Pausing::Freezes("its steps are found in its output");
    let refused = |suspension| {
        let script = vec![
            (arrived(0), vec![start(0, &[0])]),
            (arrived(1), vec![start(1, &[0])]),
            (failed(1, ErrorKind::OutOfMemory), vec![]),
            (settled(0, Settled::Running), vec![Action::Pause { job: JobId(0) }, start(1, &[0])]),
        ];
        let (turns, ..) = run_with(&jobs, script, Settings { suspension, ..Default::default() });
        turns[3].refused.iter().map(|it| it.why.clone()).collect::<Vec<_>>()
    };
    let beside = "it did not fit on a device with job-0";
    for way in [Suspension::StepGate, Suspension::Pause] {
        assert_eq!(refused(way), [beside], "{way}");
    }
    let held = "cuda-checkpoint moves the memory of what is held between two steps: its steps are found in its output";
    assert_eq!(refused(Suspension::CudaCheckpoint), [held, beside]);
}

/// The processes of a run's programs, without the leash: how many there are, and how many of them stand still.
fn family(bench: &Bench) -> (usize, usize) {
    let mark = format!("TANDEM_EVENTS={}", bench.run.path().display());
    let is_of_run = |process: &ProcessId| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        let name = fs::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
        name != "leash\n" && String::from_utf8_lossy(&environment).contains(&mark)
    };
    let ours = descendants(std::process::id() as i32);
    let family: Vec<ProcessId> = ours.into_iter().filter(is_of_run).collect();
    (family.len(), family.iter().filter(|process| process.is_stopped()).count())
}

#[test]
fn all_processes_of_a_program_stand_still_and_a_stop_lets_it_save() {
    const FAMILY: &str =
        "trap 'echo saved; kill $!; exit 0' TERM; (sleep 1000; :) & echo begun; while :; do wait; done";
    for way in [Suspension::StepGate, Suspension::Pause] {
        let mut bench = Bench::suspending(&[Wanted::Command(&["sh", "-c", FAMILY])], None, way);
        bench.start(0, &[0], "");
        bench.until_settled(0, Settled::Running);
        bench.wait_until("its processes are there", |bench| family(bench) == (3, 0));
        for _ in 0..2 {
            bench.pause(0);
            bench.until_settled(0, Settled::Paused);
            bench.wait_until("they stand still", |bench| family(bench) == (3, 3));
            bench.resume(0);
            bench.until_settled(0, Settled::Running);
            bench.wait_until("they go on", |bench| family(bench) == (3, 0));
        }
        bench.pause(0);
        bench.until_settled(0, Settled::Paused);
        bench.stop(0, false);
        bench.until_settled(0, Settled::Stopped);
        assert_eq!(family(&bench), (0, 0), "{way}");
        let launch = bench.launches_of(0).pop().unwrap();
        let out = fs::read_to_string(bench.run.stdout_path(&launch, 0)).unwrap();
        assert_eq!(out, "begun\nsaved\n", "{way}");
    }
}
