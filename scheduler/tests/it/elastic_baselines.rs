//! Elastic policies from the literature: known schedules, the optimum of those that have an objective, and that no action is
//! refused.

use std::collections::BTreeMap;

use engine::{
    Engine,
    cluster::ClusterError,
    job::{JobRequest, Payload},
    topology::Topology,
    view::PolicyContext,
};
use formats::{
    decision::{Action, Turn},
    rows::Outcome,
    trace::Class,
};
use jobs::plans::Judgement;
use launches::simulated::{self, Faults, Settings};
use model::{
    PredictRequest, Prediction, Throughput,
    switch_costs::{Named, SwitchCosts},
};
use proptest::prelude::*;
use record::{
    manifest::{AlikeNodes, NodeFacts},
    placement::Placement,
    rows::Status,
};
use scheduler::legal_plans;
use schema::{
    catalog::{Catalog, CatalogEntry},
    device::Device,
    units::Nanos,
};

use crate::{
    policies::becomes_command,
    support::{SECOND, asked, built},
};

/// The rates of jobs on 1, 2, 4 and 8 devices, in steps per second. A job of global batch `8 n` has those of number `n - 1`.
/// Devices of type `old` are half as fast.
#[derive(Clone)]
struct Rates(Vec<[f64; 4]>);

const LINEAR: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
const POOR: [f64; 4] = [1.0, 1.5, 2.0, 2.0];
const FLAT: [f64; 4] = [1.0, 1.0, 1.0, 1.0];
const GOOD: [f64; 4] = [1.0, 1.9, 3.6, 6.8];

impl Throughput for Rates {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let devices: u32 = question.placement.iter().sum();
        // A command has no batch.
        let of = question.job.global_batch.map_or(FLAT, |batch| self.0[batch as usize / 8 - 1]);
        let last = of[devices.ilog2().min(3) as usize];
        let rate = last * if question.device_type == "old" { 0.5 } else { 1.0 };
        let spread = 1.0 + 0.1 * (question.placement.len() as f64 - 1.0);
        let starved = question.cpus.map_or(1.0, |cpus| 1.0 + 0.2 / f64::from(cpus));
        Some(Prediction { step_ns: SECOND as f64 / rate * spread * starved, step_ns_ci: None })
    }
}

/// An elastic job: its arrival in seconds, its devices, its steps, and the number of its rates.
fn job(id: u32, (arrival, devices, steps, rates): (u64, u32, u64, u32)) -> JobRequest {
    asked(id, arrival * SECOND, devices, steps, 1).with(|request| {
        request.what = Payload::Training { workload: "lstm".into(), global_batch: Some(8 * (rates + 1)) };
        request.plan = format!("dp{devices}").parse().ok();
        request.elastic = true;
        request.step_ns = None;
    })
}

fn jobs(jobs: &[(u64, u32, u64, u32)]) -> Vec<JobRequest> {
    (0..).zip(jobs).map(|(id, of)| job(id, *of)).collect()
}

/// `costs` says whether the policy knows the cost of a restart.
fn try_run(
    policy: &str,
    topology: &Topology,
    jobs: &[JobRequest],
    rates: &Rates,
    (settings, restart_s, costs): (Settings, u64, bool),
) -> (Vec<Turn>, Result<Vec<Outcome>, ClusterError>) {
    let of_restart = Named::constant(Nanos(restart_s * SECOND));
    let legal = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
    let plans = legal_plans::enumerate(jobs, &Catalog::embedded(), topology, legal);
    let costs: Option<&dyn SwitchCosts> = if costs { Some(&of_restart) } else { None };
    let known = PolicyContext { costs, plans: Some(&plans), history: &[], classes: None };
    let truth = Box::new(rates.clone());
    let mut sim = simulated::cluster(topology, jobs, truth, &of_restart, settings).expect("all is known");
    let mut engine = Engine::new(topology, jobs, rates, engine::Settings::default()).knowing(known);
    engine.refuse_for_lack_of_cpus(Placement::Consolidated);
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns);
    (turns, outcomes)
}

fn run(
    policy: &str,
    topology: &Topology,
    jobs: &[JobRequest],
    rates: &Rates,
    (settings, restart_s): (Settings, u64),
) -> (Vec<Turn>, Vec<Outcome>) {
    let (turns, outcomes) = try_run(policy, topology, jobs, rates, (settings, restart_s, true));
    (turns, outcomes.unwrap_or_else(|error| panic!("{policy}: {error}")))
}

/// The starts as `(second, job, devices)`.
fn starts(turns: &[Turn]) -> Vec<(u64, u32, usize)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, devices, .. } => Some((turn.at_ns.0 / SECOND, job.0, devices.len())),
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

/// The starts, and the tenths of seconds at which jobs end, on one node of 4 devices.
fn schedule(
    policy: &str,
    asked: &[(u64, u32, u64, u32)],
    restart_s: u64,
) -> (Vec<(u64, u32, usize)>, Vec<u64>) {
    let rates = Rates(vec![LINEAR, POOR, FLAT, GOOD]);
    let topology = Topology::uniform(4, 4, "GPU");
    let (turns, outcomes) = run(policy, &topology, &jobs(asked), &rates, (Settings::default(), restart_s));
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{policy}");
    let end = |row: &Outcome| row.end_ns.map(|end| (end as f64 / 1e8).round() as u64);
    (starts(&turns), outcomes.iter().filter_map(end).collect())
}

const OF_LINEAR: u32 = 0;
const OF_POOR: u32 = 1;
const OF_FLAT: u32 = 2;
const OF_GOOD: u32 = 3;

#[test]
fn elastic_fifo_shrinks_at_the_start_and_grows_when_it_pays() {
    // The second job waits for a device, and holds up the third, which would fit.
    let (starts, ends) =
        schedule("elastic-fifo", &[(0, 4, 40, OF_LINEAR), (5, 4, 20, OF_LINEAR), (6, 1, 5, OF_FLAT)], 0);
    assert_eq!(starts, [(0, 0, 4), (10, 1, 4), (15, 2, 1)]);
    assert_eq!(ends, [100, 150, 200]);
    // The second job has two devices from 1 s on, and after 10 s 12 steps are left: 6 s on two devices, 3 s on four.
    let asked = [(0, 2, 20, OF_LINEAR), (1, 4, 30, OF_LINEAR)];
    let (starts, ends) = schedule("elastic-fifo", &asked, 2);
    assert_eq!((starts, ends), (vec![(0, 0, 2), (1, 1, 2), (10, 1, 4)], vec![100, 150]));
    let (starts, ends) = schedule("elastic-fifo", &asked, 4);
    assert_eq!((starts, ends), (vec![(0, 0, 2), (1, 1, 2)], vec![100, 160]));
    // What it asks for is enough.
    let (starts, _) = schedule("elastic-fifo", &[(0, 2, 100, OF_LINEAR)], 0);
    assert_eq!(starts, [(0, 0, 2)]);
}

/// Both jobs have one device. The first gains (1 - 1/2) 100 = 50 s by a second one, the other job (1 - 1/1.5) 100 = 33 s, and the
/// first by two more (1/2 - 1/4) 100 / 2 = 12.5 s for each. When it ends, the other has done 75 steps.
#[test]
fn optimus_gives_devices_to_the_largest_gain() {
    let asked = [(0, 1, 100, OF_LINEAR), (0, 1, 100, OF_POOR)];
    let (starts, ends) = schedule("optimus:every=10s", &asked, 0);
    assert_eq!((starts, ends), (vec![(0, 0, 2), (0, 1, 2), (50, 1, 4)], vec![500, 625]));
    // Jobs wait for the round. The first gains 2 s by a second device, the other 333 s, and it would need two more to gain again.
    let (starts, _) = schedule("optimus:every=10s", &[(3, 4, 4, OF_LINEAR), (4, 1, 1_000, OF_POOR)], 0);
    assert_eq!(starts, [(10, 0, 2), (10, 1, 2), (20, 1, 4)]);
    // Every job gets one device before any gets two.
    let many = [(0, 4, 9, OF_LINEAR); 5];
    let (starts, _) = schedule("optimus:every=100s", &many, 0);
    assert_eq!(starts[..4], [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1)]);
}

/// With p = -0.5, n devices that scale linearly cost n^-0.5, and no devices cost 1.1.
#[test]
fn sia_minimises_its_objective() {
    // Two and two cost 1.41 and leave the third job with 1.1; a device for it would save 0.1 and cost another job 0.29.
    let (starts, ends) =
        schedule("sia:every=10s", &[(0, 1, 40, OF_LINEAR), (0, 1, 40, OF_LINEAR), (0, 1, 10, OF_FLAT)], 0);
    assert_eq!((starts, ends), (vec![(0, 0, 2), (0, 1, 2), (20, 2, 1)], vec![200, 200, 300]));
    // With a larger price for jobs without devices, all have some.
    let (starts, _) = schedule(
        "sia:every=10s:lambda=2",
        &[(0, 1, 40, OF_LINEAR), (0, 1, 40, OF_LINEAR), (0, 1, 90, OF_FLAT)],
        0,
    );
    assert_eq!(starts[..3].iter().filter(|(at, ..)| *at == 0).count(), 3);
}

/// The first job has all devices. To halve them costs (2 r)^-0.5 instead of 4^-0.5 = 0.5, and gives the second job 1.9^-0.5 = 0.73
/// instead of 1.1. With restarts of 8 s, r is 10/18 after 10 s, which does not pay, and 20/28 after 20 s, which does.
#[test]
fn sia_restarts_a_job_when_it_is_old_enough() {
    let asked = [(0, 1, 100, OF_LINEAR), (5, 1, 40, OF_GOOD)];
    let (starts, ends) = schedule("sia:every=10s", &asked, 8);
    // After 20 s, 80 steps of the first are done. The second has done 38 of its 40 after 40 s, and is moved all the same.
    assert_eq!(starts, [(0, 0, 4), (20, 1, 2), (20, 0, 2), (40, 1, 4)]);
    assert_eq!(ends, [380, 486]);
}

/// A device of the slower type costs each job 1^-0.5, and one of the faster 2^-0.5. Other policies let the second job wait for the
/// latter.
#[test]
fn sia_chooses_among_types_of_device() {
    let rates = Rates(vec![LINEAR, POOR, FLAT, GOOD]);
    let node = |device_type: &str| (device_type.to_owned(), device_type.to_owned(), vec![Device::Cuda(0)]);
    let topology = Topology::new([node("old"), node("GPU")]);
    let asked = jobs(&[(0, 1, 9, OF_LINEAR), (0, 1, 9, OF_LINEAR)]);
    let at_once = |policy| {
        let (turns, _) = run(policy, &topology, &asked, &rates, (Settings::default(), 1));
        starts(&turns).into_iter().filter(|(at, ..)| *at == 0).count()
    };
    assert_eq!(POLICIES.map(at_once), [1, 1, 2, 1]);
    let (turns, _) = run("sia", &topology, &asked[..1], &rates, (Settings::default(), 1));
    let first = turns.iter().flat_map(|turn| &turn.actions).find_map(|action| match action {
        Action::Start { devices, .. } => Some(topology.type_of(devices[0])),
        _ => None,
    });
    assert_eq!(first, Some("GPU"));
}

/// The fair share of three jobs is 2 devices, and so the first has a speedup of 1 on 2 devices and 1/2 on one; the second 1 and
/// 2/3.
#[test]
fn pollux_maximises_the_mean_speedup() {
    let asked = [(0, 1, 40, OF_LINEAR), (0, 1, 30, OF_POOR), (0, 1, 10, OF_FLAT)];
    let (starts, ends) = schedule("pollux-fixed-batch:every=10s", &asked, 0);
    assert_eq!(starts, [(0, 0, 2), (0, 1, 1), (0, 2, 1), (10, 1, 2), (20, 1, 4)]);
    assert_eq!(ends, [200, 225, 100]);
    // With restarts of 10 s the second job keeps its device after 10 s: 1/2 of a speedup of 1 is less than 2/3. After 20 s, two
    // thirds of a speedup of 1 on 4 devices are more than 1/2 on one.
    let (starts, ends) = schedule("pollux-fixed-batch:every=10s", &asked, 10);
    assert_eq!(starts, [(0, 0, 2), (0, 1, 1), (0, 2, 1), (20, 1, 4)]);
    assert_eq!(ends, [200, 350, 100]);
}

const POLICIES: [&str; 4] =
    ["elastic-fifo", "optimus:every=5s", "sia:every=5s", "pollux-fixed-batch:every=5s"];

/// A command takes no checkpoint. Nothing is known of what a restart costs in the second run.
#[test]
fn a_job_keeps_its_devices_if_it_cannot_be_restarted_or_if_the_cost_is_not_known() {
    let rates = Rates(vec![LINEAR, POOR, FLAT, GOOD]);
    let topology = Topology::uniform(4, 4, "GPU");
    for policy in POLICIES {
        let mut with_command =
            jobs(&[(0, 2, 50, OF_FLAT), (0, 4, 30, OF_LINEAR), (12, 4, 30, OF_GOOD), (31, 2, 30, OF_LINEAR)]);
        becomes_command(&mut with_command[0]);
        (with_command[0].elastic, with_command[0].plan) = (false, None);
        let (turns, outcomes) = run(policy, &topology, &with_command, &rates, (Settings::default(), 1));
        assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{policy}");
        assert_eq!((outcomes[0].starts, outcomes[0].end_ns), (1, Some(50 * SECOND)), "{policy}");

        let all = jobs(&[(0, 2, 50, OF_GOOD), (0, 4, 90, OF_LINEAR), (12, 4, 30, OF_GOOD)]);
        let restarts = |costs| {
            let (_, outcomes) = try_run(policy, &topology, &all, &rates, (Settings::default(), 1, costs));
            outcomes.expect("every job ends").iter().map(|row| row.starts - 1).sum::<u32>()
        };
        assert!(restarts(true) > 0, "{policy}");
        assert_eq!(restarts(false), 0, "{policy}");
    }
}

/// No plan of the last job is on the devices that there are. Rounds that would change nothing do not go on for ever.
#[test]
fn a_run_in_which_nothing_can_happen_any_more_ends() {
    let rates = Rates(vec![LINEAR, POOR, FLAT, GOOD]);
    for policy in POLICIES {
        let mut jobs = jobs(&[(0, 1, 9, OF_LINEAR), (2, 4, 9, OF_LINEAR), (13, 1, 9, OF_LINEAR)]);
        jobs[1].min_devices = Some(3);
        let topology = Topology::uniform(3, 3, "GPU");
        let (turns, outcomes) = try_run(policy, &topology, &jobs, &rates, (Settings::default(), 1, true));
        let error = outcomes.expect_err("a job waits for ever").to_string();
        assert_eq!(error, "no event is left, jobs wait (1), and the policy starts none of them", "{policy}");
        assert!(turns.len() < 40, "{policy}: {}", turns.len());
    }
}

/// Rates that rise by 5 to 100 % when the devices are doubled.
fn any_rates() -> impl Strategy<Value = Vec<[f64; 4]>> {
    let rise = 1.05f64..2.0;
    let rates = [rise.clone(), rise.clone(), rise].prop_map(|[a, b, c]| [1.0, a, a * b, a * b * c]);
    prop::collection::vec(rates, 1..6)
}

/// The best sum of what each job is worth on 0, 1, 2, 4 or 8 devices, of which there are so many.
fn best(worths: &[[f64; 5]], left: usize) -> f64 {
    let Some((first, others)) = worths.split_first() else { return 0.0 };
    let choices = [0, 1, 2, 4, 8].into_iter().zip(first).filter(|(devices, _)| *devices <= left);
    choices.map(|(devices, worth)| worth + best(others, left - devices)).fold(f64::NEG_INFINITY, f64::max)
}

/// What the first decision of a policy is worth, and the best that is possible.
fn found_and_best(
    policy: &str,
    devices: u32,
    rates: &[[f64; 4]],
    worth: impl Fn(&[f64; 4], usize) -> f64,
) -> (f64, f64) {
    let asked: Vec<_> = (0..rates.len() as u32).map(|number| (0, 1, 20, number)).collect();
    let topology = Topology::uniform(devices, devices, "GPU");
    let (turns, _) = run(policy, &topology, &jobs(&asked), &Rates(rates.to_vec()), (Settings::default(), 1));
    let mut given = vec![0; rates.len()];
    starts(&turns[..1]).into_iter().for_each(|(_, job, devices)| given[job as usize] = devices);
    let found = rates.iter().zip(given).map(|(rates, devices)| worth(rates, devices)).sum();
    let worths: Vec<_> =
        rates.iter().map(|rates| [0, 1, 2, 4, 8].map(|devices| worth(rates, devices))).collect();
    (found, best(&worths, devices as usize))
}

fn rate_on(rates: &[f64; 4], devices: usize) -> f64 {
    devices.checked_ilog2().map_or(0.0, |place| rates[place as usize])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sia_finds_the_optimum(rates in any_rates(), devices in 1u32..12) {
        let cost = |rates: &[f64; 4], devices| match rate_on(rates, devices) {
            0.0 => -1.1,
            rate => -rate.powf(-0.5),
        };
        let (found, best) = found_and_best("sia", devices, &rates, cost);
        prop_assert!((found - best).abs() < 1e-6, "{found} {best}");
    }

    #[test]
    fn pollux_finds_the_optimum(rates in any_rates(), devices in 1u32..12) {
        let share = devices.div_ceil(rates.len() as u32).ilog2().min(3) as usize;
        let (found, best) = found_and_best("pollux-fixed-batch", devices, &rates, |rates, devices| {
            -1.0 / (rate_on(rates, devices) / rates[share] + 1e-3)
        });
        prop_assert!((found - best).abs() < 1e-6, "{found} {best}");
    }
}

/// Two types of device, one of them on nodes of different sizes, cores that are scarce, and two virtual clusters.
fn clusters() -> [Topology; 2] {
    let nodes = |nodes, devices, device_type: &str, cpus, virtual_cluster: Option<&str>| AlikeNodes {
        nodes,
        devices,
        device_type: device_type.into(),
        virtual_cluster: virtual_cluster.map(str::to_owned),
        facts: NodeFacts { cpus, ..NodeFacts::default() },
    };
    [
        Topology::simulated(&[nodes(2, 4, "GPU", None, None), nodes(1, 2, "old", None, None)]),
        Topology::simulated(&[
            nodes(2, 4, "GPU", Some(8), Some("a")),
            nodes(1, 2, "GPU", Some(3), Some("a")),
            nodes(1, 2, "old", Some(4), Some("a")),
            nodes(1, 3, "GPU", Some(9), Some("b")),
        ]),
    ]
}

#[test]
fn nothing_that_an_elastic_policy_asks_for_is_refused() {
    let rates = Rates(vec![LINEAR, POOR, FLAT, GOOD]);
    for policy in POLICIES.into_iter().chain(["rubick:restarts=3%"]) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (seed, topology) in (0..40).zip(clusters().iter().cycle()) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut trace: Vec<_> = (0..20)
                .map(|_| (random.u64(..60), 1 << random.u32(..3), random.u64(1..60), random.u32(..4)))
                .collect();
            trace.sort_unstable_by_key(|job| job.0);
            let mut jobs = jobs(&trace);
            for job in &mut jobs {
                job.elastic = random.u8(..3) > 0;
                job.min_devices =
                    (job.elastic && random.bool()).then(|| 1 << random.u32(..=job.devices.ilog2()));
                job.max_devices = (job.elastic && random.bool()).then(|| random.u32(job.devices..9));
                job.cpus = random.bool().then(|| random.u16(1..3));
                job.device_type = (random.u8(..4) == 0).then(|| "GPU".into());
                job.virtual_cluster = if random.u8(..3) == 0 { "b" } else { "a" }.into();
                job.class = if random.bool() { Class::Guaranteed } else { Class::BestEffort };
            }
            let faults = Faults { launch_mtbf_ns: Some(90e9), ..Faults::default() };
            let progress_every = Some(Nanos(2 * SECOND));
            let settings = Settings { seed, noise: 0.1, progress_every, faults, ..Settings::default() };
            let (turns, outcomes) = run(policy, topology, &jobs, &rates, (settings, 2));
            for turn in &turns {
                assert!(turn.refused.is_empty(), "{policy} {seed}: {:?}", turn.refused);
                assert!(!turn.reason.contains("greedy"), "{policy} {seed}: {}", turn.reason);
            }
            for row in &outcomes {
                let is_over = row.status == Status::Ok || row.retries == 2;
                assert!(is_over || row.status == Status::Unsupported, "{policy} {seed}: {row:?}");
                assert!(row.packed_ns.is_none_or(|ns| ns == 0), "{policy} {seed}: {row:?}");
                *seen.entry("run").or_default() += usize::from(row.status == Status::Ok);
                *seen.entry("restarted").or_default() += usize::from(row.starts > row.retries + 1);
            }
            let other =
                |(_, job, devices): &(u64, u32, usize)| *devices != jobs[*job as usize].devices as usize;
            *seen.entry("resized").or_default() += starts(&turns).iter().filter(|start| other(start)).count();
        }
        for (what, least) in [("run", 500), ("restarted", 20), ("resized", 100)] {
            assert!(seen[what] >= least, "{policy}: {what}: {seen:?}");
        }
    }
}
