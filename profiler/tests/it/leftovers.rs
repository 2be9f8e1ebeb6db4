//! No process of a launch outlives it, in any order of their ends.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use front_door::wait_until;
use procfs::process::Process;
use record::rows::ErrorKind;
use rig::{StopMode, processes::strays};
use rustix::process::{Pid, Signal, kill_process};
use schema::catalog::Fault;

use crate::{
    bench::{Bench, PATIENT, PLENTY, runs},
    leash::{family, is_alive, is_listed},
};

pub(crate) fn leash_of(pid: i32) -> i32 {
    Process::new(pid).unwrap().stat().unwrap().ppid
}

#[test]
fn a_child_that_is_left_behind_goes_with_the_launch() {
    let mut bench = Bench::new();
    let job = bench.add_job(Some(Fault::LeaveChild { after_steps: 3 }), 1, PATIENT);
    let pid = bench.until_started(job);
    let mark = format!("TANDEM_LEASH={}", leash_of(pid));
    bench.rig.extend(job, 10);
    bench.until_held(job, 10);
    let left: Vec<_> = strays(-1, &mark).into_iter().filter(|process| process.pid != pid).collect();
    assert!(!left.is_empty());
    bench.rig.remove(job, StopMode::AtStepBoundary);
    assert_eq!(bench.until_ended(job).err, None);
    assert!(!left.iter().any(|process| runs(process.pid)), "{left:?}");
}

#[test]
fn dropping_the_rig_ends_everything() {
    let mut bench = Bench::new();
    let jobs = [bench.add_job(None, 1, PATIENT), bench.add_command(&["sleep", "1000"], PATIENT)];
    let pids = bench.until_all_started(jobs);
    let Bench { rig, run, .. } = bench;
    drop(rig);
    assert!(!pids.iter().any(|pid| runs(*pid)));
    for launch in ["0001-test", "0002-test"] {
        assert_eq!(run.launch_end(launch).unwrap().unwrap().err, Some(ErrorKind::Interrupted));
    }
}

/// A shell with background sleeps, and a daemon in a session of its own that ignores SIGTERM.
const FAMILY: &str = "sleep 1000 & sleep 1000 & setsid --fork sh -c 'trap \"\" TERM; sleep 1000; true'; wait";
const NAMES: [&str; 5] = ["sh", "sh", "sleep", "sleep", "sleep"];

#[test]
fn a_leash_that_is_killed_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let job = bench.add_command(&["sh", "-c", FAMILY], PATIENT);
    let leash = leash_of(bench.until_started(job));
    let family = family(leash, &NAMES);
    kill_process(Pid::from_raw(leash).unwrap(), Signal::KILL).unwrap();
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Killed));
    assert!(end.err_detail.unwrap().contains("lost its leash"));
    // The harness adopted them, so that not even a zombie is left.
    assert!(!family.iter().any(is_listed), "{family:?}");
    let job = bench.add_command(&["true"], PATIENT);
    assert_eq!(bench.until_ended(job).err, None);
}

/// Not a test, but the process that the next test starts and kills.
#[test]
fn hold_a_rig_until_killed() {
    if env::var_os("HOLD_A_RIG").is_none() {
        return;
    }
    let mut bench = Bench::new();
    let jobs = [bench.add_command(&["sh", "-c", FAMILY], PATIENT), bench.add_job(None, 1, PATIENT)];
    bench.rig.extend(jobs[1], PLENTY);
    for pid in bench.until_all_started(jobs) {
        println!("leash {}", leash_of(pid));
    }
    loop {
        bench.next();
    }
}

#[test]
fn a_harness_that_is_killed_leaves_nothing_behind() {
    let mut harness = Command::new(env::current_exe().unwrap())
        .args(["--exact", "leftovers::hold_a_rig_until_killed", "--nocapture"])
        .env("HOLD_A_RIG", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(harness.stdout.take().unwrap());
    // With one test thread, libtest prints the test's name before its first line.
    let leashes: Vec<i32> = output
        .lines()
        .filter_map(|line| line.unwrap().split_once("leash ").map(|(_, pid)| pid.parse().unwrap()))
        .take(2)
        .collect();
    family(leashes[0], &NAMES);
    // Two leashes, the family, and the synthetic worker.
    let all = ["leash", "leash", "profile", "sh", "sh", "sleep", "sleep", "sleep"];
    let all = family(harness.id() as i32, &all);
    harness.kill().unwrap();
    harness.wait().unwrap();
    wait_until("all of them have ended", || !all.iter().any(is_alive));
}
