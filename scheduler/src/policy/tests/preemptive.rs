//! Orders with preemption: the walk that is not made gives what the walk would, and schedules are those that are known.

use proptest::prelude::*;
use schema::units::Nanos;

use super::world::{STEPS_PER_S, World, s};
use crate::{
    cluster::JobId,
    job::{Asked, Job, State},
    policy::build,
    topology::Topology,
};

fn ends(policy: &str, devices: u32, jobs: &[(u64, u32, u64)]) -> Vec<u64> {
    let mut policy = build(policy).expect("it is in the list");
    World::new(devices, jobs).run(&mut *policy, |_| {})
}

/// Who would run if devices went to all jobs in order of a key, each that fits in what is left.
fn walk<K: Ord>(world: &World, key: impl Fn(&Asked, &Job) -> K) -> Vec<JobId> {
    let wants = world.arrived().filter(|(_, job)| !matches!(job.state, State::Ended { .. }));
    let mut order: Vec<_> =
        wants.map(|(asked, job)| (key(asked, job), job.placed().is_none(), asked.id)).collect();
    order.sort();
    let mut left = world.topology.devices();
    let mut granted = Vec::new();
    for (.., job) in order {
        let wanted = world.asked[job.0 as usize].devices;
        if wanted <= left {
            left -= wanted;
            granted.push(job);
        }
    }
    granted.sort();
    granted
}

fn running(world: &World) -> Vec<JobId> {
    world.arrived().filter(|(_, job)| job.placed().is_some()).map(|(asked, _)| asked.id).collect()
}

/// Nanoseconds left now.
fn left(world: &World, asked: &Asked, job: &Job) -> u64 {
    let steps = asked.steps.expect("all jobs here have some") - job.steps;
    let ran = job.placed().map_or(Nanos::ZERO, |placed| world.now.saturating_sub(placed.since));
    steps * (Nanos::SECOND.0 / STEPS_PER_S) - ran.0
}

fn any_jobs() -> impl Strategy<Value = Vec<(u64, u32, u64)>> {
    let job = (0u64..30, prop_oneof![4 => 1u32..3, 1 => 3u32..9], 1u64..15);
    prop::collection::vec(job, 1..25).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.0);
        jobs
    })
}

proptest! {
    #[test]
    fn srtf_runs_who_the_walk_would(jobs in any_jobs(), per_node in 2u32..9) {
        let mut policy = build("srtf").expect("it is in the list");
        let mut world = World::on(Topology::uniform(8, per_node, "GPU"), &jobs);
        world.run(&mut *policy, |world| {
            assert_eq!(running(world), walk(world, |asked, job| left(world, asked, job)));
        });
    }

    #[test]
    fn tiresias_runs_who_the_walk_would(jobs in any_jobs(), threshold in 1u64..20) {
        let mut policy = build(&format!("tiresias:{threshold}s/60s")).expect("it is in the list");
        let mut world = World::on(Topology::uniform(8, 4, "GPU"), &jobs);
        let thresholds = [s(threshold), s(60.max(threshold + 1))];
        prop_assume!(threshold < 60);
        // As the policy saw them: who is started in a turn had not been before.
        let mut first_starts = vec![None; jobs.len()];
        world.run(&mut *policy, |world| {
            let key = |asked: &Asked, job: &Job| {
                let attained = job.account_at(world.now).device_time;
                let queue = thresholds.iter().filter(|threshold| attained >= **threshold).count();
                let first_start: Option<Nanos> = first_starts[asked.id.0 as usize];
                (queue, first_start.is_none(), first_start, first_start.is_none().then_some(asked.id))
            };
            assert_eq!(running(world), walk(world, key));
            first_starts = world.jobs.iter().map(|job| job.account.first_start).collect();
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

#[test]
fn schedules_that_are_known() {
    for (policy, devices, jobs, expected) in [
        // The short one goes before the long one, which has then less left than the third.
        ("srtf", 1, &[(0, 1, 10), (2, 1, 3), (4, 1, 9)][..], vec![13, 5, 22]),
        // Two small ones make way for a wide one that is shorter than both.
        ("srtf", 2, &[(0, 1, 10), (0, 1, 12), (1, 2, 2)], vec![12, 14, 3]),
        // A wide one that is longer waits for both, and the small one behind it passes it.
        ("srtf", 2, &[(0, 1, 3), (0, 1, 6), (1, 2, 20), (1, 1, 30)], vec![3, 6, 26, 26 + 27]),
        // The first is demoted at 10 s; the second and the third are done before it goes on.
        ("tiresias:10s", 1, &[(0, 1, 30), (2, 1, 5), (12, 1, 8)], vec![43, 15, 23]),
        // Service is time times devices: on two devices, 10 s of it are over after 5.
        ("tiresias:10s", 2, &[(0, 2, 20), (1, 1, 4)], vec![24, 9]),
        // Both are demoted; the one that came first was started last, and makes way.
        ("tiresias:4s", 2, &[(0, 1, 4), (1, 2, 6), (2, 1, 9)], vec![4, 17, 13]),
        // The first, demoted, waits for small ones that keep coming, until it has waited twice as long as it ran.
        (
            "tiresias:2s:promote=2",
            1,
            &[(0, 1, 4), (1, 1, 2), (2, 1, 2), (3, 1, 2), (4, 1, 2), (5, 1, 2)],
            vec![8, 4, 6, 10, 12, 14],
        ),
        (
            "tiresias:2s",
            1,
            &[(0, 1, 4), (1, 1, 2), (2, 1, 2), (3, 1, 2), (4, 1, 2), (5, 1, 2)],
            vec![14, 4, 6, 8, 10, 12],
        ),
    ] {
        assert_eq!(ends(policy, devices, jobs), expected, "{policy} {jobs:?}");
    }
}

/// On two types of device, nobody waits who would fit on one of them, and nobody is on both.
#[test]
fn types_of_device_are_kept_apart() {
    let nodes = Topology::uniform(2, 2, "A")
        .nodes()
        .iter()
        .chain(Topology::uniform(4, 2, "B").nodes())
        .cloned()
        .collect::<Vec<_>>();
    let nodes = nodes.into_iter().map(|node| (node.name, node.device_type, node.devices));
    let topology = Topology::new(nodes);
    for policy in ["fifo", "fifo-backfill", "sjf", "srtf", "tiresias:5s"] {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50 {
            let mut jobs: Vec<_> =
                (0..12).map(|_| (random.u64(0..20), random.u32(1..5), random.u64(1..12))).collect();
            jobs.sort_by_key(|job| job.0);
            let mut world = World::on(topology.clone(), &jobs);
            let mut policy = build(policy).expect("it is in the list");
            world.run(&mut *policy, |world| {
                for placed in world.jobs.iter().filter_map(Job::placed) {
                    let pools: Vec<_> =
                        placed.devices.iter().map(|device| world.occupancy.pool_of(*device)).collect();
                    assert!(pools.windows(2).all(|pair| pair[0] == pair[1]), "{placed:?}");
                }
                for device in 0..topology.devices() {
                    assert!(world.occupancy.kept_by(crate::topology::DeviceId(device)).len() <= 1);
                }
            });
        }
    }
}
