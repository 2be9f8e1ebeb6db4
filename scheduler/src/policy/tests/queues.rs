//! Orders without preemption.

use super::world::World;
use crate::policy::build;

/// Ends in seconds under a policy, on one node.
fn ends(policy: &str, devices: u32, jobs: &[(u64, u32, u64)]) -> Vec<u64> {
    let mut policy = build(policy).expect("it is in the list");
    World::new(devices, jobs).run(&mut *policy, |_| {})
}

#[test]
fn schedules_that_are_known() {
    // The second job wants both devices and waits for the first; the third fits beside the first.
    let blocked = &[(0, 1, 10), (1, 2, 5), (2, 1, 4)];
    // The second and third wait for the first, the shorter one came later.
    let lengths = &[(0, 1, 10), (1, 1, 8), (2, 1, 3), (3, 1, 8)];
    for (policy, devices, jobs, expected) in [
        ("fifo", 2, &blocked[..], vec![10, 15, 19]),
        ("fifo-backfill", 2, blocked, vec![10, 15, 6]),
        ("sjf", 2, blocked, vec![10, 15, 6]),
        ("fifo", 1, lengths, vec![10, 18, 21, 29]),
        ("fifo-backfill", 1, lengths, vec![10, 18, 21, 29]),
        ("sjf", 1, lengths, vec![10, 21, 13, 29]),
    ] {
        assert_eq!(ends(policy, devices, jobs), expected, "{policy}");
    }
}

/// With backfill a job that wants all devices waits as long as others keep coming.
#[test]
fn backfill_makes_no_reservation() {
    let mut jobs: Vec<(u64, u32, u64)> = (0..20).map(|at| (at, 1, 2)).collect();
    jobs.insert(1, (0, 2, 1));
    assert_eq!(ends("fifo-backfill", 2, &jobs)[1], 22);
    assert_eq!(ends("fifo", 2, &jobs)[1], 3);
}

#[test]
fn a_job_of_unknown_length_comes_last() {
    let mut world = World::new(1, &[(0, 1, 3), (1, 1, 2), (1, 1, 9)]);
    world.asked[1].step_ns = None;
    world.arrive();
    let mut policy = build("sjf").expect("it is in the list");
    let mut started = |world: &mut World| {
        let decision = policy.decide(&world.view());
        decision.actions.iter().for_each(|action| world.apply(action));
        decision.actions.iter().map(|action| action.job().0).collect::<Vec<_>>()
    };
    assert_eq!(started(&mut world), [0]);
    world.arrive();
    assert!(started(&mut world).is_empty());
    for (ends, next) in [(0, vec![2]), (2, vec![1])] {
        world.end(crate::cluster::JobId(ends));
        assert_eq!(started(&mut world), next);
    }
}
