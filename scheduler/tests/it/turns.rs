//! Jobs that take turns on a testbed with real processes, under `step-gate`.

use std::{env, process::Command, time::Duration};

use engine::cluster::{ClusterEvent, JobId, Settled};
use record::rows::ErrorKind;
use rig::device::allowed_cores;
use schema::{
    device::Device,
    units::{Nanos, Window},
    wire::{Event, EventLine},
};

use crate::bench::{Bench, Wanted};

/// The steps of the first rank of a job's only launch, with their ends and durations.
fn steps(bench: &Bench, job: u32) -> Vec<(Nanos, Nanos)> {
    let step = |line: &EventLine| match &line.event {
        Event::Step(step) => Some((line.mono_ns, step.dur_ns)),
        _ => None,
    };
    bench.said(&launch(bench, job), 0).iter().filter_map(step).collect()
}

/// A job's only launch.
fn launch(bench: &Bench, job: u32) -> String {
    bench.launches_of(job).pop().expect("it was launched")
}

/// A job that outlasts a test: how long others take to start is not known.
fn endless() -> Wanted {
    Wanted::Training("short", 1_000_000)
}

fn stop(bench: &mut Bench, jobs: &[u32]) {
    for &job in jobs {
        bench.stop(job, false);
        bench.until_settled(job, Settled::Stopped);
    }
}

/// The turns of these jobs on a device that they share: each job, the number of its steps in a row, and when they ended.
fn turns(bench: &Bench, jobs: &[u32]) -> Vec<(u32, usize, Window)> {
    let mut all: Vec<(Nanos, u32)> =
        jobs.iter().flat_map(|job| steps(bench, *job).into_iter().map(|(end, _)| (end, *job))).collect();
    all.sort_unstable();
    let in_a_row = all.chunk_by(|a, b| a.1 == b.1);
    in_a_row.map(|row| (row[0].1, row.len(), Window { start: row[0].0, end: row[row.len() - 1].0 })).collect()
}

/// The turns of these jobs that end while a job has steps, without the first and the last one.
fn turns_while(bench: &Bench, jobs: &[u32], there: u32) -> Vec<(u32, usize)> {
    let of_other = steps(bench, there);
    let (first, last) = (of_other[0].0, of_other[of_other.len() - 1].0);
    let within = |(_, _, time): &&(u32, usize, Window)| time.start > first && time.end < last;
    let turns = turns(bench, jobs);
    let found: Vec<_> = turns.iter().filter(within).map(|(job, steps, _)| (*job, *steps)).collect();
    found[1..found.len() - 1].to_vec()
}

#[test]
fn jobs_have_turns_of_as_many_steps_while_others_come_and_go() {
    let jobs = [endless(), endless(), Wanted::Training("short", 60)];
    let mut bench = Bench::sharing(&jobs, "step-gate:5", vec![Device::AllCores]);
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    let first = launch(&bench, 0);
    bench.until_said(&first, 20);
    bench.start(1, &[0], "dp1");
    bench.until_settled(1, Settled::Running);
    let second = launch(&bench, 1);
    bench.until_said(&second, 100);
    bench.start(2, &[0], "dp1");
    assert_eq!(bench.until_finished(2), 60);
    bench.pause(1);
    let paused = bench.until_settled(1, Settled::Paused);
    let done = bench.steps_said(&first, 0);
    bench.until_said(&first, done + 20);
    bench.resume(1);
    bench.until_trains_from(1, paused);
    bench.until_said(&second, paused + 20);
    stop(&mut bench, &[0, 1]);

    // While the third was there, each had a turn of five steps in each round.
    let found = turns_while(&bench, &[0, 1, 2], 2);
    assert!(found.len() > 20 && found.iter().all(|(_, steps)| *steps == 5), "{found:?}");
    let in_rounds = found
        .windows(3)
        .all(|round| round[0].0 != round[1].0 && round[1].0 != round[2].0 && round[0].0 != round[2].0);
    assert!(in_rounds, "{found:?}");
    // Before the second was there and while it was paused, the first ran without turns.
    let all = turns(&bench, &[0, 1, 2]);
    let long = all.iter().filter(|(_, steps, _)| *steps > 5).map(|(job, ..)| *job).collect::<Vec<_>>();
    assert!(long.iter().filter(|job| **job == 0).count() >= 2 && !long.contains(&2), "{all:?}");
}

#[test]
fn a_job_on_two_devices_runs_when_it_has_its_turn_on_both() {
    let jobs = [endless(), Wanted::Training("short", 300), Wanted::Training("short", 300)];
    let mut bench = Bench::sharing(&jobs, "step-gate:5", vec![Device::AllCores; 2]);
    bench.start(0, &[0, 1], "dp2");
    bench.until_settled(0, Settled::Running);
    bench.start(1, &[0], "dp1");
    bench.start(2, &[1], "dp1");
    for job in [1, 2] {
        while !bench
            .told
            .iter()
            .any(|happened| matches!(happened, ClusterEvent::Finished { job: of, .. } if *of == JobId(job)))
        {
            bench.next();
        }
    }
    stop(&mut bench, &[0]);
    // One of the two jobs on one device joins before the other.
    for job in [1, 2] {
        let found = turns_while(&bench, &[0, job], job);
        assert!(found.iter().filter(|(_, steps)| *steps == 5).count() > 20, "{found:?}");
        assert!(found.iter().all(|(_, steps)| *steps == 5), "{found:?}");
    }
}

/// Takes 300 steps of 5 ms with the fake PyTorch.
const HOOKED: &str = "PYTHONPATH=$PYTHONPATH:../workloads/python/tests/fake exec python3 -c '
import time, torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
for _ in range(300):
    time.sleep(0.005)
    optimizer.step()'";

#[test]
fn a_program_with_the_hook_takes_turns_from_its_first_step_on() {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return schema::skips::skipped("python3", "there is no python3");
    }
    let jobs = [endless(), Wanted::Command(&["sh", "-c", HOOKED])];
    let mut bench = Bench::sharing(&jobs, "step-gate:5", vec![Device::AllCores]);
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    bench.start(1, &[0], "");
    bench.until_finished(1);
    stop(&mut bench, &[0]);
    assert_eq!(steps(&bench, 1).len(), 299, "the first one has no beginning");
    // The program takes its first steps before it is known that it can be held, and the other one those that it was granted.
    let found = turns_while(&bench, &[0, 1], 1);
    assert!(found.len() > 80 && found[3..].iter().all(|(_, steps)| *steps == 5), "{found:?}");
}

#[test]
fn a_job_that_hangs_in_its_turn_fails_and_the_other_goes_on() {
    let jobs = [Wanted::Training("short", 400), Wanted::Training("hangs", 50)];
    let mut bench = Bench::sharing(&jobs, "step-gate:3", vec![Device::AllCores]);
    bench.start(1, &[0], "dp1");
    bench.until_settled(1, Settled::Running);
    bench.start(0, &[0], "dp1");
    let failed = loop {
        match bench.next() {
            ClusterEvent::Failed { job, kind, .. } => break (job, kind),
            ClusterEvent::Finished { .. } => panic!("it had turns while the other hung: {:?}", bench.told),
            _ => {}
        }
    };
    assert_eq!(failed, (JobId(1), ErrorKind::Hung));
    assert_eq!(bench.until_finished(0), 400);
}

/// On one core that all of them would use all the time. The times of steps are those on record. Whatever else the machine does, steps
/// of two jobs do not overlap, and a job that had more time than another makes up for it within a few turns.
#[test]
fn jobs_that_take_turns_have_equal_times_while_a_third_comes_and_goes() {
    if env::var_os("TANDEM_SLOW").is_none_or(|value| value != "1") {
        return schema::skips::skipped("slow", "it takes a minute; set TANDEM_SLOW=1");
    }
    let jobs = [
        Wanted::Training("busy-3", 100_000),
        Wanted::Training("busy-70", 100_000),
        Wanted::Training("busy-3", 2_000),
    ];
    let core = allowed_cores().unwrap()[0];
    let mut bench = Bench::sharing(&jobs, "step-gate:200ms", vec![Device::Cpu(vec![core])]);
    for job in [0, 1] {
        bench.start(job, &[0], "dp1");
        bench.until_settled(job, Settled::Running);
    }
    // Before its first step the pace of a job is not known.
    let second = launch(&bench, 1);
    bench.until_said(&second, 10);
    let began = Nanos::monotonic_now();
    bench.wait(Duration::from_secs(20));
    bench.start(2, &[0], "dp1");
    bench.until_finished(2);
    bench.wait(Duration::from_secs(20));
    let ended = Nanos::monotonic_now();

    let quantum_s = 0.2;
    let turns = turns(&bench, &[0, 1, 2]);
    let all = [0, 1, 2].map(|job| steps(&bench, job));
    let mut in_order: Vec<(Nanos, Nanos)> = all.concat();
    in_order.sort_unstable();
    let overlap = in_order.windows(2).find(|pair| pair[1].0 - pair[1].1 < pair[0].0);
    assert_eq!(overlap, None, "the end and the duration of two steps");
    let (first, last) = (all[2][0].0, all[2][all[2].len() - 1].0);
    let window = |start, end| Window { start, end };
    for (window, jobs) in [(window(began, first), 2), (window(first, last), 3), (window(last, ended), 2)] {
        let is_within = |at: Nanos| window.start < at && at <= window.end;
        let time_s = |steps: &Vec<(Nanos, Nanos)>| {
            let within = steps.iter().filter(|(end, _)| is_within(*end));
            within.map(|(_, took)| took.as_secs_f64()).sum::<f64>()
        };
        let times_s: Vec<f64> = all[..jobs].iter().map(time_s).collect();
        let step = all.iter().flatten().map(|(_, took)| *took).max().expect("there are steps");
        let turn = turns.iter().map(|(.., turn)| turn.end - turn.start).max().expect("there are turns");
        println!("{times_s:.2?} s, of steps of up to {step} in turns of up to {turn}");
        // At both ends of the window each job is at most a quantum behind or its longest turn ahead, and a round from the other.
        let most_s = 4.0 * (quantum_s + (turn + step).as_secs_f64());
        let [least, largest] =
            [f64::min, f64::max].map(|of| times_s.iter().copied().reduce(of).expect("there are jobs"));
        assert!(largest - least < most_s, "{times_s:.2?} s, and they may differ by {most_s:.2} s");
    }
    stop(&mut bench, &[0, 1]);
}
