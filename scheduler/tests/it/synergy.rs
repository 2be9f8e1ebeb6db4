//! Schedules of Synergy on nodes with known numbers of cores. Step times depend on the cores of the job.

use engine::{
    Engine,
    cluster::Action,
    job::{JobRequest, Payload},
    topology::Topology,
    view::PolicyContext,
};
use formats::decision::Turn;
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::{
    manifest::{AlikeNodes, NodeFacts},
    placement::Placement,
};
use schema::units::Nanos;

use crate::support::{SECOND, asked, built};

/// Steps of a sensitive job are inversely proportional to its cores, up to the number that it needs, which is its batch here. Other
/// jobs need one core.
#[derive(Clone, Copy)]
struct Cores;

impl Throughput for Cores {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let own = question.job.trace_time?.step_ns as f64;
        let factor = match question.job.workload {
            "resnet18-mini" => {
                let needs = question.job.global_batch? as u16;
                f64::from(needs) / f64::from(question.cpus.unwrap_or(needs).clamp(1, needs))
            }
            _ => 1.0,
        };
        Some(Prediction { step_ns: own * factor, step_ns_ci: None })
    }
}

fn nodes(count: u32, devices: u32, cpus: Option<u32>) -> Topology {
    let facts = NodeFacts { cpus, ..NodeFacts::default() };
    let device_type = "GPU".into();
    Topology::simulated(&[AlikeNodes { nodes: count, devices, device_type, facts, ..AlikeNodes::default() }])
}

/// A job of steps of a second: `(arrival, devices, steps)`.
fn flat(id: u32, (arrival, devices, steps): (u64, u32, u64)) -> JobRequest {
    asked(id, arrival * SECOND, devices, steps, SECOND)
}

/// A job that needs so many cores.
fn needs(cpus: u32, id: u32, job: (u64, u32, u64)) -> JobRequest {
    let what = Payload::Training { workload: "resnet18-mini".into(), global_batch: Some(cpus) };
    flat(id, job).with(|request| request.what = what)
}

fn sensitive(id: u32, job: (u64, u32, u64)) -> JobRequest {
    needs(6, id, job)
}

/// The turns, and the times in seconds at which jobs ended.
fn run(policy: &str, topology: &Topology, jobs: &[JobRequest], restart_s: u64) -> (Vec<Turn>, Vec<f64>) {
    run_believing(&Cores, policy, topology, jobs, restart_s)
}

fn run_believing(
    belief: &dyn Throughput,
    policy: &str,
    topology: &Topology,
    jobs: &[JobRequest],
    restart_s: u64,
) -> (Vec<Turn>, Vec<f64>) {
    let costs = Named::constant(Nanos(restart_s * SECOND));
    let mut sim = simulated::cluster(topology, jobs, Box::new(Cores), &costs, Settings::default())
        .expect("all is known");
    let settings = engine::Settings { placement: Placement::Consolidated, ..engine::Settings::default() };
    let known = PolicyContext { costs: Some(&costs), ..PolicyContext::default() };
    let mut engine = Engine::new(topology, jobs, belief, settings).knowing(known);
    let mut turns = Vec::new();
    let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns).expect("all jobs end");
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
    (turns, outcomes.iter().filter_map(|row| Some(row.end_ns? as f64 / 1e9)).collect())
}

/// `(second, job, cores for each rank)` of each start.
fn starts(turns: &[Turn]) -> Vec<(u64, u32, Option<u16>)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, cpus, .. } => Some((turn.at_ns.0 / SECOND, job.0, *cpus)),
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

/// Each device has a share of four cores. The job that needs six gets them, because the other needs one.
#[test]
fn a_sensitive_job_gets_the_cores_that_others_do_not_need() {
    let jobs = [sensitive(0, (0, 1, 30)), flat(1, (0, 1, 20))];
    let (turns, ends) = run("synergy", &nodes(1, 2, Some(8)), &jobs, 2);
    assert_eq!(starts(&turns), [(0, 0, Some(6)), (0, 1, Some(1))]);
    assert_eq!(ends, [30.0, 20.0]);
}

/// The second job fits with its share alone, once the first one is pushed back to its own at the end of a round. The first has done
/// 10 steps by then, goes on at 12 s, and takes 1.5 s for each of the other 20. The last job waits until both have ended, because
/// it needs a device and five cores, and no running job has more than its share to give.
#[test]
fn a_job_above_its_share_is_pushed_back_at_the_end_of_a_round_for_one_that_waits() {
    let jobs = [sensitive(0, (0, 1, 30)), sensitive(1, (5, 1, 20)), sensitive(2, (6, 1, 6))];
    let (turns, ends) = run("synergy:every=10s", &nodes(1, 2, Some(8)), &jobs, 2);
    let expected = [(0, 0, Some(6)), (10, 1, Some(4)), (10, 0, Some(4)), (40, 2, Some(4))];
    assert_eq!(starts(&turns), expected);
    assert_eq!(ends, [42.0, 40.0, 49.0]);
    let at_round = turns.iter().find(|turn| !turn.reason.is_empty() && turn.at_ns.0 == 10 * SECOND);
    let reason = "next in the queue: job-1, with cores that job-0 held above the share";
    assert_eq!(at_round.map(|turn| &*turn.reason), Some(reason));
}

/// A flat job is started with its one core, for which the others need not be pushed back.
#[test]
fn no_job_is_pushed_back_where_it_is_not_needed() {
    let jobs = [sensitive(0, (0, 1, 30)), flat(1, (5, 1, 20)), flat(2, (6, 1, 20))];
    let (turns, ends) = run("synergy:every=10s", &nodes(1, 3, Some(8)), &jobs, 2);
    assert_eq!(starts(&turns), [(0, 0, Some(6)), (5, 1, Some(1)), (6, 2, Some(1))]);
    assert_eq!(ends, [30.0, 25.0, 26.0]);
}

/// The share is 3, and all 12 cores are taken. Of the two jobs that hold more, the one with more cores is pushed back, which is enough.
#[test]
fn the_job_with_the_most_cores_is_pushed_back_first() {
    let jobs =
        [needs(5, 0, (0, 1, 30)), needs(6, 1, (0, 1, 30)), flat(2, (0, 1, 30)), needs(3, 3, (1, 1, 10))];
    let (turns, _) = run("synergy:every=10s", &nodes(1, 4, Some(12)), &jobs, 2);
    let expected = [(0, 0, Some(5)), (0, 1, Some(6)), (0, 2, Some(1)), (10, 3, Some(3)), (10, 1, Some(3))];
    assert_eq!(starts(&turns)[..5], expected);
}

/// Knows sensitive jobs alone, and of these the times with six cores.
struct Measured;

impl Throughput for Measured {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let is_known = question.job.workload == "resnet18-mini" && question.cpus == Some(6);
        is_known.then(|| Cores.predict(question)).flatten()
    }
}

/// The second job is not known with its share of four cores, and waits for the six. The last one is not known at all, and fits before it.
#[test]
fn a_job_gets_only_numbers_of_cores_that_are_known_or_asked_for() {
    let as_asked = flat(2, (1, 1, 5)).with(|request| request.cpus = Some(2));
    let jobs = [sensitive(0, (0, 1, 30)), sensitive(1, (1, 1, 20)), as_asked];
    let (turns, _) = run_believing(&Measured, "synergy:every=10s", &nodes(1, 2, Some(8)), &jobs, 2);
    assert_eq!(starts(&turns), [(0, 0, Some(6)), (1, 2, Some(2)), (30, 1, Some(6))]);
}

#[test]
fn a_job_that_takes_no_checkpoint_keeps_its_cores() {
    let jobs = [
        sensitive(0, (0, 1, 30)).with(|request| request.takes_no_checkpoint = Some("it is a command")),
        sensitive(1, (5, 1, 20)),
    ];
    let (turns, ends) = run("synergy:every=10s", &nodes(1, 2, Some(8)), &jobs, 2);
    assert_eq!(starts(&turns), [(0, 0, Some(6)), (30, 1, Some(6))]);
    assert_eq!(ends, [30.0, 50.0]);
}

/// As above, with a longer first job. At 40 s it has done 28 steps and is in the next one, and the other job leaves. The remaining 71
/// steps take 35.5 s less with six cores. If a restart takes 45 s, it has 87 steps left at 60 s.
#[test]
fn a_job_is_given_its_demand_again_if_the_restart_pays() {
    for (restart_s, expected_starts, expected) in [
        (2, vec![(0, 0, Some(6)), (10, 1, Some(4)), (10, 0, Some(4)), (40, 0, Some(6))], 113.5),
        (45, vec![(0, 0, Some(6)), (10, 1, Some(4)), (10, 0, Some(4))], 55.0 + 90.0 * 1.5),
    ] {
        let jobs = [sensitive(0, (0, 1, 100)), sensitive(1, (5, 1, 20))];
        let (turns, ends) = run("synergy:every=10s", &nodes(1, 2, Some(8)), &jobs, restart_s);
        assert_eq!(starts(&turns), expected_starts, "{restart_s}");
        assert_eq!(ends, [expected, 40.0], "{restart_s}");
    }
}

/// Two devices on two nodes of two would have six cores each, and the job is kept on one node, with its share. A job of four devices
/// has both nodes.
#[test]
fn the_demand_of_a_job_is_that_of_each_rank() {
    let jobs = [sensitive(0, (0, 2, 10)), sensitive(1, (0, 4, 10))];
    let (turns, ends) = run("synergy", &nodes(2, 2, Some(8)), &jobs, 2);
    assert_eq!(starts(&turns), [(0, 0, Some(4)), (15, 1, Some(4))]);
    assert_eq!(ends, [15.0, 30.0]);
}

/// With numbers of cores and without, where times do not depend on them.
#[test]
fn a_job_that_does_not_fit_is_passed_unless_the_order_is_strict() {
    let jobs = [flat(0, (0, 1, 30)), flat(1, (1, 2, 20)), flat(2, (2, 1, 5))];
    for (policy, alike, expected) in
        [("synergy", "fifo-backfill", [30.0, 50.0, 7.0]), ("synergy:strict=on", "fifo", [30.0, 50.0, 55.0])]
    {
        for cpus in [None, Some(8)] {
            let (turns, ends) = run(policy, &nodes(1, 2, cpus), &jobs, 2);
            let (like, _) = run(alike, &nodes(1, 2, cpus), &jobs, 2);
            let at =
                |turns: &[Turn]| starts(turns).into_iter().map(|(at, job, _)| (at, job)).collect::<Vec<_>>();
            assert_eq!((ends, at(&turns)), (expected.to_vec(), at(&like)), "{policy} {cpus:?}");
        }
    }
}
