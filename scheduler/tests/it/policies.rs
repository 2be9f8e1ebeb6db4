//! Policies on a simulated cluster: known schedules, unnecessary preemptions, the optimum, and that no
//! request is refused.

use std::collections::BTreeSet;

use engine::{
    Engine,
    cluster::JobId,
    job::{Job, JobRequest, Pausing, Payload, Phase, State},
    journal::Journal,
    policy::Policy,
    topology::Topology,
    view::View,
};
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
    trace::Class,
};
use launches::simulated::{self, Faults, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use proptest::prelude::*;
use record::{placement::Placement, rows::Status};
use schema::units::Nanos;

use crate::{
    packing::Packs,
    scripts::MS,
    support::{Own, SECOND, asked, built},
};

/// Jobs as `(arrival, devices, duration)`, in seconds; a step is a millisecond.
pub(crate) fn jobs(jobs: &[(u64, u32, u64)]) -> Vec<JobRequest> {
    let job = |(id, &(arrival, devices, length)): (u32, &(u64, u32, u64))| {
        asked(id, arrival * SECOND, devices, length * 1_000, MS)
    };
    (0..).zip(jobs).map(job).collect()
}

/// A command runs like the job, and loses all its work when it is stopped.
pub(crate) fn becomes_command(job: &mut JobRequest) {
    job.what = Payload::Command(vec!["train".into()]);
    job.takes_no_checkpoint = Some("it is a command");
    job.pausing = Pausing::HoldsMemory;
}

/// Runs jobs at their own speed, even beside others. Jobs are spread, so that only numbers of devices matter.
pub(crate) fn run(
    policy: &mut dyn Policy,
    model: &dyn Throughput,
    topology: &Topology,
    jobs: &[JobRequest],
    (settings, switch_cost): (Settings, Nanos),
    journal: &mut dyn Journal,
) -> Vec<Outcome> {
    let costs = Named::constant(switch_cost);
    let truth = Box::new(Own { slowdown: 1.0 });
    let mut sim = simulated::cluster(topology, jobs, truth, &costs, settings).expect("all is known");
    let settings = engine::Settings { placement: Placement::Spread, ..engine::Settings::default() };
    let mut engine = Engine::new(topology, jobs, model, settings);
    engine::run(&mut engine, &mut sim, policy, journal).expect("every job ends")
}

/// The same on one node without switching cost: the turns, and the times in seconds at which jobs ended.
fn turns_and_ends(
    policy: &str,
    devices: u32,
    asked: &[JobRequest],
    model: &dyn Throughput,
) -> (Vec<Turn>, Vec<u64>) {
    let topology = Topology::uniform(devices, devices, "GPU");
    let mut turns = Vec::new();
    let free = (Settings::default(), Nanos::ZERO);
    let outcomes = run(&mut *built(policy), model, &topology, asked, free, &mut turns);
    let end = |row: &Outcome| row.end_ns.map(|end_ns| end_ns.div_ceil(SECOND));
    (turns, outcomes.iter().filter_map(end).collect())
}

fn ends(policy: &str, devices: u32, asked: &[(u64, u32, u64)]) -> Vec<u64> {
    turns_and_ends(policy, devices, &jobs(asked), &Own { slowdown: 1.0 }).1
}

#[test]
fn schedules_that_are_known() {
    // The second job wants both devices and waits for the first; the third one fits beside the first.
    let blocked = &[(0, 1, 10), (1, 2, 5), (2, 1, 4)];
    // All wait for the first job. The shortest is neither the first nor the last of them.
    let lengths = &[(0, 1, 10), (1, 1, 8), (2, 1, 3), (3, 1, 8)];
    // Small jobs keep arriving.
    let stream = &[(0, 1, 4), (1, 1, 2), (2, 1, 2), (3, 1, 2), (4, 1, 2), (5, 1, 2)];
    for (policy, devices, jobs, expected) in [
        ("fifo", 2, &blocked[..], vec![10, 15, 19]),
        ("fifo-backfill", 2, blocked, vec![10, 15, 6]),
        ("sjf", 2, blocked, vec![10, 15, 6]),
        ("fifo", 1, lengths, vec![10, 18, 21, 29]),
        ("fifo-backfill", 1, lengths, vec![10, 18, 21, 29]),
        ("sjf", 1, lengths, vec![10, 21, 13, 29]),
        // The third job is longer than the second, and fits beside the first.
        ("sjf", 2, &[(0, 1, 10), (1, 2, 5), (2, 1, 6)], vec![10, 15, 21]),
        ("sjf-backfill", 2, &[(0, 1, 10), (1, 2, 5), (2, 1, 6)], vec![10, 15, 8]),
        // Nothing is known of any job, so that fewer devices come first.
        ("qssf", 2, blocked, vec![10, 15, 6]),
        ("qssf-backfill", 2, blocked, vec![10, 15, 6]),
        // The short job precedes the long one, which then has less left than the third.
        ("srtf", 1, &[(0, 1, 10), (2, 1, 3), (4, 1, 9)], vec![13, 5, 22]),
        // Two small jobs are preempted for a wide one that is shorter than both.
        ("srtf", 2, &[(0, 1, 10), (0, 1, 12), (1, 2, 2)], vec![12, 14, 3]),
        // A longer wide job waits for both. A small one, longer still, overtakes it until it fits.
        ("srtf", 2, &[(0, 1, 3), (0, 1, 6), (1, 2, 20), (1, 1, 30)], vec![3, 6, 26, 53]),
        // The first job has less time left than the second, and more service.
        ("srtf", 2, &[(0, 2, 6), (1, 1, 8)], vec![6, 14]),
        ("srsf", 2, &[(0, 2, 6), (1, 1, 8)], vec![14, 9]),
        // In rounds of 2 s, jobs of equal service take turns, and a job that arrives between two rounds waits, even for a free device.
        ("las:every=2s", 1, &[(0, 1, 4), (0, 1, 4)], vec![6, 8]),
        ("las:every=2s", 1, &[(0, 1, 3), (1, 1, 1)], vec![5, 3]),
        // By service, a job of two devices is behind after half the time.
        ("las:every=2s", 2, &[(0, 2, 4), (0, 1, 3), (0, 1, 3)], vec![8, 5, 5]),
        // After the first job, which had 2 s, the second is not the best after 2 s any more.
        ("gittins:every=2s", 1, &[(0, 1, 2), (0, 1, 6), (0, 1, 2)], vec![2, 10, 6]),
        // Both have the same rho at first. After 2 s, the one that waited has 1, and the other still a half.
        ("themis:every=2s", 1, &[(0, 1, 6), (0, 1, 2)], vec![8, 4]),
        ("srtf:every=2s", 1, &[(0, 1, 10), (1, 1, 3)], vec![14, 5]),
        ("srsf:every=2s", 2, &[(0, 2, 6), (1, 1, 8)], vec![6, 14]),
        // The long job has waited for 4 s, has a round, and then waits for 4 s again.
        (
            "srtf:every=2s:bump=4s",
            1,
            &[(0, 1, 9), (0, 1, 2), (2, 1, 2), (4, 1, 2), (6, 1, 2)],
            vec![17, 2, 4, 8, 10],
        ),
        // Half of the time for each of two jobs that are alike.
        ("gavel:every=2s", 1, &[(0, 1, 4), (0, 1, 4)], vec![6, 8]),
        // The first job is demoted at 10 s; the second and the third end before it continues.
        ("tiresias:10s", 1, &[(0, 1, 30), (2, 1, 5), (12, 1, 8)], vec![43, 15, 23]),
        // Service is time times devices: on two devices, 10 s of it are over after 5 s.
        ("tiresias:10s", 2, &[(0, 2, 20), (1, 1, 4)], vec![24, 9]),
        // Both are demoted; the first to arrive was started last, and is preempted.
        ("tiresias:4s", 2, &[(0, 1, 4), (1, 2, 6), (2, 1, 9)], vec![4, 17, 13]),
        // The first job, demoted, waits until no more jobs arrive, or until it has waited twice as long as
        // it ran.
        ("tiresias:2s", 1, stream, vec![14, 4, 6, 8, 10, 12]),
        ("tiresias:2s:promote=2", 1, stream, vec![8, 4, 6, 10, 12, 14]),
        // The costs of restarts are not known here, so that no job is stopped: the shortest that waits is next.
        ("tandem", 1, lengths, vec![10, 21, 13, 29]),
        ("tandem", 2, blocked, vec![10, 15, 6]),
    ] {
        assert_eq!(ends(policy, devices, jobs), expected, "{policy} {jobs:?}");
    }
}

/// The first event of an instant alone would give the device to the wrong job.
#[test]
fn a_policy_decides_after_the_last_event_of_an_instant() {
    let cases = [
        // Two jobs arrive together: the short one runs first.
        ("sjf", 1, 0, &[(0, 1, 100), (0, 1, 10)][..], vec![110, 10]),
        // Two jobs end together: the wide one behind them fits, and the narrow one does not pass it.
        ("fifo-backfill", 2, 0, &[(0, 1, 10), (0, 1, 10), (1, 2, 10), (2, 1, 100)], vec![10, 10, 20, 120]),
        // A job ends when a short one arrives: the preempted one is not restarted, which would take 40 s.
        ("srtf", 1, 40, &[(0, 1, 100), (5, 1, 10), (15, 1, 2)], vec![152, 15, 17]),
        ("tiresias:5s", 1, 40, &[(0, 1, 100), (5, 1, 5), (10, 1, 2)], vec![147, 10, 12]),
    ];
    for (policy, devices, restart_s, asked, expected) in cases {
        let topology = Topology::uniform(devices, devices, "GPU");
        let costs = (Settings::default(), Nanos(restart_s * SECOND));
        let mut turns: Vec<Turn> = Vec::new();
        let truth = Own { slowdown: 1.0 };
        let outcomes = run(&mut *built(policy), &truth, &topology, &jobs(asked), costs, &mut turns);
        let ends: Vec<_> = outcomes.iter().filter_map(|row| Some(row.end_ns? / SECOND)).collect();
        assert_eq!(ends, expected, "{policy}");
    }
}

#[test]
fn a_job_that_takes_no_checkpoint_is_not_preempted() {
    for policy in ["srtf", "tiresias:10s"] {
        let mut asked = jobs(&[(0, 1, 30), (2, 1, 5), (12, 1, 8)]);
        becomes_command(&mut asked[0]);
        let (turns, ends) = turns_and_ends(policy, 1, &asked, &Own { slowdown: 1.0 });
        assert_eq!(ends, [30, 35, 43], "{policy}");
        assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{policy}: {turns:?}");
    }
}

/// With backfill, a job that wants all devices waits as long as other jobs keep arriving.
#[test]
fn backfill_makes_no_reservation() {
    let mut jobs: Vec<(u64, u32, u64)> = (0..20).map(|at| (at, 1, 2)).collect();
    jobs.insert(1, (0, 2, 1));
    assert_eq!(ends("fifo-backfill", 2, &jobs)[1], 22);
    assert_eq!(ends("fifo", 2, &jobs)[1], 3);
}

/// Knows the durations of jobs, but not of commands.
pub(crate) struct NoCommands;

impl Throughput for NoCommands {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let is_command = question.job.workload.starts_with("cmd-");
        (!is_command).then(|| Own { slowdown: 1.0 }.predict(question)).flatten()
    }
}

#[test]
fn a_job_of_unknown_length_comes_last() {
    let mut jobs = jobs(&[(0, 1, 3), (1, 1, 2), (1, 1, 9), (4, 1, 5)]);
    becomes_command(&mut jobs[1]);
    assert_eq!(turns_and_ends("sjf", 1, &jobs, &Own { slowdown: 1.0 }).1, [3, 5, 19, 10]);
    assert_eq!(turns_and_ends("sjf", 1, &jobs, &NoCommands).1, [3, 19, 12, 17]);
    assert_eq!(turns_and_ends("srtf", 1, &jobs, &NoCommands).1, [3, 19, 17, 9]);
}

fn any_jobs(most_devices: u32) -> impl Strategy<Value = Vec<(u64, u32, u64)>> {
    let devices = prop_oneof![4 => 1u32..3, 1 => 3..most_devices + 1];
    prop::collection::vec((0u64..30, devices, 1u64..15), 1..25).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.0);
        jobs
    })
}

/// Whenever a policy changed nothing, compares the running jobs with those that would run if devices went
/// to all jobs in order of a key, each that fits in the rest. Ties go to running jobs, then by arrival.
struct Walk<F> {
    key: F,
    arrived: usize,
    /// The moments of all turns, and those at which the jobs were compared, in milliseconds, rounded up: a job completes its step,
    /// which takes one, before it leaves.
    turns: BTreeSet<u64>,
    compared: BTreeSet<u64>,
}

impl<K: Ord, F: Fn(&View<'_>, &JobRequest, &Job) -> K> Journal for Walk<F> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        assert!(turn.refused.is_empty());
        self.turns.insert(view.now.0.div_ceil(MS));
        self.arrived += turn.events.iter().filter(|it| matches!(it, ClusterEvent::Arrived { .. })).count();
        let placed = || view.jobs.iter().filter_map(Job::placed);
        if !turn.actions.is_empty() || placed().any(|placed| placed.phase != Phase::Running) {
            return Ok(());
        }
        let arrived = view.asked.iter().zip(view.jobs).take(self.arrived);
        let wants = arrived.filter(|(_, job)| !matches!(job.state, State::Ended { .. }));
        let place = |(asked, job): (&JobRequest, &Job)| {
            ((self.key)(view, asked, job), job.placed().is_none(), asked.id)
        };
        let mut order: Vec<_> = wants.map(place).collect();
        order.sort();
        let mut left = view.topology.devices();
        let granted = order.iter().filter(|(.., job)| {
            let fits = view.request(*job).devices <= left;
            left -= if fits { view.request(*job).devices } else { 0 };
            fits
        });
        let mut granted: Vec<JobId> = granted.map(|(.., job)| *job).collect();
        granted.sort();
        let running = view.asked.iter().filter(|asked| view.job(asked.id).placed().is_some());
        assert_eq!(running.map(|asked| asked.id).collect::<Vec<_>>(), granted, "at {}", view.now);
        self.compared.insert(view.now.0.div_ceil(MS));
        Ok(())
    }
}

/// At each moment of a turn: switches cost no time, so that the jobs that it starts run at that moment, too.
fn compare<K: Ord>(
    policy: &str,
    topology: &Topology,
    asked: &[(u64, u32, u64)],
    key: impl Fn(&View<'_>, &JobRequest, &Job) -> K,
) {
    let mut walk = Walk { key, arrived: 0, turns: BTreeSet::new(), compared: BTreeSet::new() };
    let free = (Settings::default(), Nanos::ZERO);
    run(&mut *built(policy), &Own { slowdown: 1.0 }, topology, &jobs(asked), free, &mut walk);
    assert_eq!(walk.compared, walk.turns);
}

proptest! {
    #[test]
    fn srtf_runs_who_the_walk_would(jobs in any_jobs(8), per_node in 2u32..9) {
        compare("srtf", &Topology::uniform(8, per_node, "GPU"), &jobs, |view, asked, job| {
            let ran = job.placed().map_or(Nanos::ZERO, |_| view.now - job.steps_at);
            asked.steps.expect("all have some") * MS - job.steps * MS - ran.0
        });
    }

    #[test]
    fn tiresias_runs_who_the_walk_would(jobs in any_jobs(8), threshold in 1u64..60) {
        let name = format!("tiresias:{threshold}s/60s");
        compare(&name, &Topology::uniform(8, 4, "GPU"), &jobs, |view, _, job| {
            let attained = job.account_at(view.now).device_time.0;
            let queue = [threshold, 60].into_iter().filter(|threshold| attained >= threshold * SECOND).count();
            (queue, job.account.first_start.is_none(), job.account.first_start)
        });
    }
}

/// The smallest sum of completion times on one device, by trying every job in every second.
fn best_sum(now: u64, left: &mut [u64], arrivals: &[u64]) -> u64 {
    if left.iter().all(|left| *left == 0) {
        return 0;
    }
    let mut best = u64::MAX;
    for job in 0..left.len() {
        if left[job] > 0 && arrivals[job] <= now {
            left[job] -= 1;
            let ended = if left[job] == 0 { now + 1 } else { 0 };
            best = best.min(ended + best_sum(now + 1, left, arrivals));
            left[job] += 1;
        }
    }
    if best == u64::MAX { best_sum(now + 1, left, arrivals) } else { best }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn srtf_has_the_least_mean_completion_time_on_one_device(
        mut jobs in prop::collection::vec((0u64..5, Just(1u32), 1u64..4), 1..5),
    ) {
        jobs.sort_by_key(|job| job.0);
        let (arrivals, mut left): (Vec<u64>, Vec<u64>) = jobs.iter().map(|job| (job.0, job.2)).unzip();
        let sum: u64 = ends("srtf", 1, &jobs).iter().sum();
        prop_assert_eq!(sum, best_sum(0, &mut left, &arrivals));
        prop_assert!(ends("sjf", 1, &jobs).iter().sum::<u64>() >= sum);
    }
}

/// With two types of device, of which some jobs ask for one, switches that take time, and launches that crash, every request of a
/// policy is possible, and every job ends.
#[test]
fn nothing_that_a_policy_asks_for_is_refused() {
    let (large, small) = (Topology::uniform(8, 4, "large"), Topology::uniform(3, 2, "small"));
    let nodes = large.nodes().iter().chain(small.nodes()).cloned();
    let topology = Topology::new(nodes.map(|node| (node.name, node.device_type, node.devices)));
    let mut starts = 0;
    let policies = [
        "fifo",
        "fifo-backfill",
        "sjf",
        "srtf",
        "tiresias:20s:promote=3",
        "packing-fifo",
        "synergy",
        "antman",
        "tandem",
    ];
    for policy in policies {
        for seed in 0..30 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut job = || (random.u64(..60), 1 << random.u32(..4), random.u64(1..30));
            let mut trace: Vec<_> = (0..40).map(|_| job()).collect();
            trace.sort_by_key(|job| job.0);
            let faults = Faults { launch_mtbf_ns: Some(60e9), ..Faults::default() };
            let settings = Settings {
                seed,
                noise: 0.1,
                progress_every: Some(Nanos::SECOND),
                faults,
                ..Settings::default()
            };
            let mut jobs = jobs(&trace);
            for job in &mut jobs {
                job.class = if job.id.0 % 3 == 0 { Class::BestEffort } else { Class::Guaranteed };
                job.device_type = match (job.id.0 % 5, job.devices <= 3) {
                    (0, true) => Some("small".into()),
                    (1, _) => Some("large".into()),
                    _ => None,
                };
            }
            let mut turns: Vec<Turn> = Vec::new();
            let switch_cost = Nanos(1_500 * MS);
            let model = Packs { slowdown: Some(1.2), interval: 0.01 };
            let outcomes =
                run(&mut *built(policy), &model, &topology, &jobs, (settings, switch_cost), &mut turns);
            assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{policy} {seed}");
            assert!(
                outcomes.iter().all(|row| row.status == Status::Ok || row.retries == 2),
                "{policy} {seed}"
            );
            starts += outcomes.iter().map(|row| row.starts).sum::<u32>();
        }
    }
    assert!(starts > policies.len() as u32 * 30 * 40 * 6 / 5, "{starts}: hardly a job was started twice");
}
