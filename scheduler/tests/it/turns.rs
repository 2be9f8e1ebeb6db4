//! Jobs that take turns on a testbed with real processes, under `step-gate`.

use std::{env, process::Command, time::Duration};

use scheduler::cluster::{Happened, JobId, Settled};
use schema::{
    device::Device,
    events::EventReader,
    rows::ErrorKind,
    units::{Nanos, Window},
    wire::Event,
};

use crate::bench::{Bench, Wanted};

/// The steps of the first rank of a job's only launch, with their ends and durations.
fn steps(bench: &Bench, job: u32) -> Vec<(Nanos, Nanos)> {
    let launches = bench.run.launches().unwrap();
    let of_job = |launch: &&String| bench.run.spec(launch).unwrap().cell == format!("j{job}");
    let launch = launches.iter().find(of_job).expect("it was launched");
    let mut lines = Vec::new();
    EventReader::open(&bench.run.events_path(launch, 0), 0).unwrap().poll(&mut lines).unwrap();
    let step = |line: &schema::wire::EventLine| match &line.event {
        Event::Step(step) => Some((line.mono_ns, step.dur_ns)),
        _ => None,
    };
    lines.iter().filter_map(step).collect()
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
    let jobs =
        [Wanted::Training("short", 1_000), Wanted::Training("short", 800), Wanted::Training("short", 60)];
    let mut bench = Bench::sharing(&jobs, "step-gate:5", vec![Device::AllCores]);
    for job in [0, 1] {
        bench.start(job, &[0], "dp1");
        bench.until_settled(job, Settled::Running);
    }
    bench.wait(Duration::from_millis(800));
    bench.start(2, &[0], "dp1");
    assert_eq!(bench.until_finished(2), 60);
    bench.pause(1);
    let paused = bench.until_settled(1, Settled::Paused);
    bench.wait(Duration::from_millis(300));
    bench.resume(1);
    assert_eq!(bench.until_settled(1, Settled::Running), paused);
    bench.until_finished(0);
    bench.until_finished(1);

    // While the third was there, each had a turn of five steps in each round.
    let found = turns_while(&bench, &[0, 1, 2], 2);
    assert!(found.len() > 20 && found.iter().all(|(_, steps)| *steps == 5), "{found:?}");
    let in_rounds = found
        .windows(3)
        .all(|round| round[0].0 != round[1].0 && round[1].0 != round[2].0 && round[0].0 != round[2].0);
    assert!(in_rounds, "{found:?}");
    // While the second was paused, the first ran without turns.
    let all = turns(&bench, &[0, 1, 2]);
    let long = all.iter().filter(|(_, steps, _)| *steps > 5).map(|(job, ..)| *job).collect::<Vec<_>>();
    assert!(long.iter().filter(|job| **job == 0).count() >= 2 && !long.contains(&2), "{all:?}");
}

#[test]
fn a_job_on_two_devices_runs_when_it_has_its_turn_on_both() {
    let jobs =
        [Wanted::Training("short", 500), Wanted::Training("short", 300), Wanted::Training("short", 300)];
    let mut bench = Bench::sharing(&jobs, "step-gate:5", vec![Device::AllCores; 2]);
    bench.start(0, &[0, 1], "dp2");
    bench.until_settled(0, Settled::Running);
    bench.start(1, &[0], "dp1");
    bench.start(2, &[1], "dp1");
    for job in [1, 2, 0] {
        while !bench
            .told
            .iter()
            .any(|happened| matches!(happened, Happened::Finished { job: of, .. } if *of == JobId(job)))
        {
            bench.next();
        }
    }
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
    let jobs = [Wanted::Training("short", 1_500), Wanted::Command(&["sh", "-c", HOOKED])];
    let mut bench = Bench::sharing(&jobs, "step-gate:5", vec![Device::AllCores]);
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    bench.start(1, &[0], "");
    bench.until_finished(1);
    bench.until_finished(0);
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
            Happened::Failed { job, kind, .. } => break (job, kind),
            Happened::Finished { .. } => panic!("it had turns while the other hung: {:?}", bench.told),
            _ => {}
        }
    };
    assert_eq!(failed, (JobId(1), ErrorKind::Hung));
    assert_eq!(bench.until_finished(0), 400);
}

/// On one core that all of them would use all the time, jobs have the same time within 8 %.
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
    let mut bench = Bench::sharing(&jobs, "step-gate:200ms", vec![Device::Cpu(vec![0])]);
    for job in [0, 1] {
        bench.start(job, &[0], "dp1");
        bench.until_settled(job, Settled::Running);
    }
    let began = Nanos::monotonic_now() + Duration::from_secs(1).into();
    bench.wait(Duration::from_secs(10));
    bench.start(2, &[0], "dp1");
    bench.until_finished(2);
    bench.wait(Duration::from_secs(10));
    let ended = Nanos::monotonic_now();
    let third = steps(&bench, 2);
    let alone =
        [Window { start: began, end: third[0].0 }, Window { start: third[third.len() - 1].0, end: ended }];
    let together = Window { start: third[0].0, end: third[third.len() - 1].0 };
    for (window, count) in [(alone[0], 2), (together, 3), (alone[1], 2)] {
        let length = (window.end - window.start).0 as f64;
        let mut shares = Vec::new();
        for job in 0..count {
            let within =
                steps(&bench, job).into_iter().filter(|(end, _)| *end > window.start && *end <= window.end);
            shares.push(within.map(|(_, took)| took.0).sum::<u64>() as f64 / length);
        }
        println!("of {count} jobs in {:.1} s: {shares:.3?}", length / 1e9);
        let used: f64 = shares.iter().sum();
        // Steps of two jobs never overlap, and little time is lost between turns.
        assert!(used > 0.9 && used < 1.01, "{shares:?}");
        let mean = used / f64::from(count);
        assert!(shares.iter().all(|share| (share / mean - 1.0).abs() < 0.08), "{shares:?}");
    }
    for job in [0, 1] {
        bench.stop(job, false);
        bench.until_settled(job, Settled::Stopped);
    }
}
