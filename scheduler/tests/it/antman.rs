//! Schedules of AntMan: guaranteed jobs, and best-effort jobs that fill what they leave.

use engine::{
    Engine,
    cluster::{Action, Settled},
    job::JobRequest,
    topology::Topology,
};
use formats::{decision::Turn, trace::Class};
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::rows::ErrorKind;
use schema::{sharing::Sharing, units::Nanos};

use crate::{
    actions::{self, arrived, failed, settled},
    packing::Packs,
    policies::becomes_command,
    support::{Own, SECOND, asked, built},
};

/// A job with steps of 100 ms: `(arrival, devices, steps)`.
fn guaranteed(id: u32, (arrival, devices, steps): (u64, u32, u64)) -> JobRequest {
    asked(id, arrival * SECOND, devices, steps, SECOND / 10)
}

fn best_effort(id: u32, job: (u64, u32, u64)) -> JobRequest {
    guaranteed(id, job).with(|request| request.class = Class::BestEffort)
}

/// Step times are those of the trace, times a factor for each other job.
fn slowed(slowdown: f64) -> Own {
    Own { slowdown }
}

const UNKNOWN: Packs = Packs { slowdown: None, interval: 0.01 };

/// The turns, and the times in seconds at which jobs ended. Switches cost nothing, and reports come every second.
fn run_in(
    sharing: &str,
    policy: &str,
    devices: u32,
    jobs: &[JobRequest],
    belief: &dyn Throughput,
    truth: Own,
) -> (Vec<Turn>, Vec<f64>) {
    let topology = Topology::uniform(devices, devices, "GPU");
    let costs = Named::constant(Nanos::ZERO);
    let sharing: Sharing = sharing.parse().expect("it is a mode");
    let settings =
        Settings { progress_every: Some(Nanos::SECOND), sharing: sharing.clone(), ..Settings::default() };
    let mut sim =
        simulated::cluster(&topology, jobs, Box::new(truth), &costs, settings).expect("all is known");
    let settings = engine::Settings { sharing, ..engine::Settings::default() };
    let mut engine = Engine::new(&topology, jobs, belief, settings);
    let mut turns = Vec::new();
    let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns).expect("all jobs end");
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
    (turns, outcomes.iter().filter_map(|row| Some(row.end_ns? as f64 / 1e9)).collect())
}

fn run(
    policy: &str,
    devices: u32,
    jobs: &[JobRequest],
    belief: &dyn Throughput,
    truth: Own,
) -> (Vec<Turn>, Vec<f64>) {
    run_in("time-slice", policy, devices, jobs, belief, truth)
}

/// `(second, job, devices)` of each start.
fn starts(turns: &[Turn]) -> Vec<(u64, u32, Vec<u32>)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, devices, .. } => {
            Some((turn.at_ns.0 / SECOND, job.0, devices.iter().map(|device| device.0).collect()))
        }
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

/// `(second, job)` of each stop.
fn stops(turns: &[Turn]) -> Vec<(u64, u32)> {
    let stop = |turn: &Turn, action: &Action| match action {
        Action::Stop { job, checkpoint: true } => Some((turn.at_ns.0 / SECOND, job.0)),
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| stop(turn, action))).collect()
}

/// `(second, job, share)` of each throttle.
fn throttles(turns: &[Turn]) -> Vec<(u64, u32, f64)> {
    let throttle = |turn: &Turn, action: &Action| match action {
        Action::Throttle { job, share } => Some((turn.at_ns.0 / SECOND, job.0, share.get())),
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| throttle(turn, action))).collect()
}

/// Beside the other at its full rate, the guaranteed job has 1 / 1.2 = 83 % of its speed, at half of it 92 %, and at a quarter 96 %.
/// Its reports count whole steps: the first two show 8 steps a second at most 9, which is too few. Beside the throttled job, it does 46
/// steps in five seconds from 3 s on, which may have been 47, and these are too few as well.
#[test]
fn a_best_effort_job_is_throttled_until_the_guaranteed_one_keeps_its_speed() {
    let jobs = [guaranteed(0, (0, 1, 200)), best_effort(1, (0, 1, 1000))];
    let (turns, ends) = run("antman", 1, &jobs, &slowed(1.2), slowed(1.2));
    assert_eq!(starts(&turns), [(0, 0, vec![0]), (0, 1, vec![0])]);
    assert_eq!(throttles(&turns), [(2, 1, 0.5), (8, 1, 0.25), (21, 1, 1.0)]);
    let rates = [1.0 / 0.12, 0.5 / 0.12 + 5.0, 0.25 / 0.12 + 7.5];
    let first = 8.0 + (200.0 - 2.0 * rates[0] - 6.0 * rates[1]) / rates[2];
    let done = (2.0 + 6.0 * 0.5 + (first - 8.0) * 0.25) / 0.12;
    let second = first + (1000.0 - done) * 0.1;
    for (found, expected) in ends.iter().zip([first, second]) {
        assert!((found - expected).abs() < 1e-6, "{ends:?}, {first} and {second} are expected");
    }
    let reason = turns.iter().find(|turn| turn.at_ns.0 == 2 * SECOND).map(|turn| &*turn.reason);
    assert_eq!(reason, Some("job-0 runs at 90 % of its speed alone at most"));
}

/// It is believed that a job loses little beside another, and it loses half of its speed.
#[test]
fn a_job_is_not_throttled_below_the_floor() {
    let jobs = [guaranteed(0, (0, 1, 200)), best_effort(1, (0, 1, 1000))];
    let (turns, _) = run("antman:floor=0.3", 1, &jobs, &slowed(1.1), slowed(2.0));
    let shares: Vec<f64> = throttles(&turns).into_iter().map(|(.., share)| share).collect();
    assert_eq!(shares, [0.5, 0.3, 1.0]);
}

/// A guaranteed job on two devices, with a best-effort job on each. When the first of these has ended, the other may run for longer.
#[test]
fn the_share_of_a_job_rises_when_the_guaranteed_one_does_not_notice() {
    let jobs = [guaranteed(0, (0, 2, 1200)), best_effort(1, (0, 1, 100)), best_effort(2, (0, 1, 2000))];
    let (turns, ends) = run("antman", 2, &jobs, &slowed(1.2), slowed(1.2));
    assert_eq!(starts(&turns), [(0, 0, vec![0, 1]), (0, 1, vec![0]), (0, 2, vec![1])]);
    let shares = |job| -> Vec<f64> {
        let of_job = throttles(&turns).into_iter().filter(|(_, of, _)| *of == job);
        of_job.map(|(.., share)| share).collect()
    };
    assert_eq!(shares(1), [0.5, 0.25, 0.13]);
    assert_eq!(shares(2), [0.5, 0.25, 0.13, 0.23, 1.0]);
    let [(rises, ..)] =
        throttles(&turns).into_iter().filter(|(.., share)| *share == 0.23).collect::<Vec<_>>()[..]
    else {
        panic!("it rises once")
    };
    assert!(rises as f64 > ends[1] && (rises as f64) < ends[0], "{rises} of {ends:?}");
}

/// A guaranteed job that arrives is put beside a best-effort job if the times of both are known, and it takes its device if not. The
/// last to arrive leaves, and goes on with the 50 steps that are left when the first has ended.
#[test]
fn a_guaranteed_arrival_evicts_only_if_it_must() {
    let jobs = [best_effort(0, (0, 1, 140)), best_effort(1, (0, 1, 100)), guaranteed(2, (5, 1, 100))];
    let (turns, ends) = run("antman", 2, &jobs, &UNKNOWN, slowed(1.0));
    assert_eq!(starts(&turns), [(0, 0, vec![0]), (0, 1, vec![1]), (5, 2, vec![1]), (14, 1, vec![0])]);
    assert_eq!(stops(&turns), [(5, 1)]);
    assert_eq!(ends, [14.0, 19.0, 15.0]);
    let (turns, ends) = run("antman", 2, &jobs, &slowed(1.0), slowed(1.0));
    assert_eq!(starts(&turns), [(0, 0, vec![0]), (0, 1, vec![1]), (5, 2, vec![0])]);
    assert_eq!(stops(&turns), []);
    assert_eq!(ends, [14.0, 10.0, 15.0]);
    let (turns, _) = run("antman", 3, &jobs, &UNKNOWN, slowed(1.0));
    assert_eq!(stops(&turns), [], "a device is free");
}

/// The guaranteed job needs two of three devices. The last to arrive has one of them alone, which is not enough, and the second has
/// two, which are.
#[test]
fn no_more_jobs_leave_than_are_needed() {
    let jobs = [best_effort(0, (0, 2, 100)), best_effort(1, (0, 1, 100)), guaranteed(2, (5, 2, 100))];
    let (turns, _) = run("antman", 3, &jobs, &UNKNOWN, slowed(1.0));
    assert_eq!(stops(&turns), [(5, 0)]);
    assert_eq!(starts(&turns)[2], (5, 2, vec![0, 1]));
}

/// Jobs that take turns are not throttled, and under `alone` a device has one job.
#[test]
fn nothing_is_shared_where_nothing_can_be_throttled() {
    let jobs = [best_effort(0, (0, 1, 100)), guaranteed(1, (5, 1, 100)), best_effort(2, (6, 1, 100))];
    for sharing in ["step-gate:500ms", "alone"] {
        let (turns, ends) = run_in(sharing, "antman", 1, &jobs, &slowed(1.0), slowed(1.0));
        assert_eq!(stops(&turns), [(5, 0)], "{sharing}");
        assert_eq!(ends, [20.0, 15.0, 30.0], "{sharing}");
        assert_eq!(throttles(&turns), [], "{sharing}");
    }
    // Guaranteed jobs come first, and one that does not fit holds up those behind it, but no best-effort job.
    let jobs = [
        guaranteed(0, (0, 1, 100)),
        guaranteed(1, (1, 2, 50)),
        guaranteed(2, (2, 1, 50)),
        best_effort(3, (3, 1, 200)),
    ];
    let (turns, ends) = run_in("alone", "antman", 2, &jobs, &slowed(1.0), slowed(1.0));
    assert_eq!(ends, [10.0, 15.0, 20.0, 28.0]);
    assert_eq!(stops(&turns), [(10, 3)]);
}

#[test]
fn a_command_is_neither_evicted_nor_packed() {
    let mut jobs = [best_effort(0, (0, 1, 100)), guaranteed(1, (5, 1, 100)), best_effort(2, (6, 1, 100))];
    jobs.iter_mut().for_each(becomes_command);
    let (turns, ends) = run("antman", 1, &jobs, &slowed(1.0), slowed(1.0));
    assert_eq!((stops(&turns), throttles(&turns)), (vec![], vec![]));
    assert_eq!(ends, [10.0, 20.0, 30.0]);
}

/// Loses half of its speed beside another job on one workload, and a tenth on the other.
struct ByWorkload;

impl Throughput for ByWorkload {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let alone = slowed(1.0).predict(question)?.step_ns;
        let batch = question.job.global_batch?;
        let factor = if question.co_runners.is_empty() { 1.0 } else { f64::from(batch) / 100.0 };
        Some(Prediction { step_ns: alone * factor, step_ns_ci: None })
    }
}

/// At the lowest share, the first job loses 10 % of a half, and the second 10 % of a ninth. The last job is not known to leave any job
/// 95 % of its speed at this share, because a step of its kind takes three times as long.
#[test]
fn a_best_effort_job_goes_to_the_guaranteed_job_that_loses_least() {
    let with_batch = |batch: u32, job: JobRequest| {
        let what = engine::job::Payload::Training { workload: "lstm".into(), global_batch: Some(batch) };
        job.with(|request| request.what = what)
    };
    let starts_beside = |batches: [u32; 2]| {
        let jobs = [
            with_batch(batches[0], guaranteed(0, (0, 1, 100))),
            with_batch(batches[1], guaranteed(1, (0, 1, 100))),
            with_batch(110, best_effort(2, (1, 1, 50))),
        ];
        let (turns, _) = run("antman", 2, &jobs, &ByWorkload, slowed(1.0));
        starts(&turns).pop()
    };
    assert_eq!(starts_beside([150, 112]), Some((1, 2, vec![1])));
    assert_eq!(starts_beside([112, 150]), Some((1, 2, vec![0])));
    assert_eq!(starts_beside([300, 150]), Some((1, 2, vec![1])));
    assert_eq!(starts_beside([300, 300]), Some((10, 2, vec![0])));
}

/// What is heard after the best-effort job was started beside the guaranteed one, and its starts from then on.
#[test]
fn jobs_that_did_not_fit_together_are_not_packed_again() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = [guaranteed(0, (0, 1, 100)), best_effort(1, (1, 1, 100)), best_effort(2, (2, 1, 100))];
    for (kind, expected) in [(ErrorKind::OutOfMemory, [0, 1, 2]), (ErrorKind::Crashed, [0, 1, 1])] {
        let events = [
            arrived(0),
            settled(0, Settled::Running),
            arrived(1),
            settled(1, Settled::Running),
            failed(1, kind),
            arrived(2),
        ];
        let mut cluster = actions::Scripted { now: Nanos::ZERO, events: events.into() };
        let model = slowed(1.2);
        let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
        let mut turns: Vec<Turn> = Vec::new();
        engine::run(&mut engine, &mut cluster, &mut *built("antman"), &mut turns)
            .expect_err("the script ends");
        let started: Vec<u32> = starts(&turns).into_iter().map(|(_, job, _)| job).collect();
        assert_eq!(started, expected, "{kind:?}");
        assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
    }
}
