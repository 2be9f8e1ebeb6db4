//! The order of the queue: estimates, their corrections, and the bound of a wait.

use engine::job::JobRequest;

use super::{World, estimated, job, starts};
use crate::virtual_clusters::divided;

/// The jobs in the order of their starts.
fn order(found: &[(u64, u32, Vec<u32>)]) -> Vec<u32> {
    found.iter().map(|(_, job, _)| *job).collect()
}

#[test]
fn the_least_estimated_time_times_devices_comes_first() {
    // Services of 200, 150, 50 and 120. They wait until both devices are free.
    let jobs = [
        job(0, (0, 2, 10)),
        estimated(100, job(1, (1, 2, 30))),
        estimated(150, job(2, (1, 1, 30))),
        estimated(50, job(3, (1, 1, 30))),
        estimated(60, job(4, (1, 2, 30))),
    ];
    let world = World::node(2).remembers(&[50, 60, 100, 150]);
    let found = world.starts("lucid:estimates=rolling:backfill=off", &jobs);
    // After the third, one device is free, and the fifth does not fit and holds up the second.
    assert_eq!(
        found,
        [(0, 0, vec![0, 1]), (10, 3, vec![0]), (40, 4, vec![0, 1]), (70, 2, vec![0]), (100, 1, vec![0, 1])]
    );
    // With backfill, the second one is not held up.
    let found = world.starts("lucid:estimates=rolling", &jobs);
    assert_eq!(
        found,
        [(0, 0, vec![0, 1]), (10, 3, vec![0]), (10, 2, vec![1]), (40, 4, vec![0, 1]), (70, 1, vec![0, 1])]
    );
}

#[test]
fn fewer_devices_and_then_arrival_decide_if_nothing_is_known() {
    let jobs =
        [job(0, (0, 2, 10)), job(1, (1, 2, 10)), job(2, (2, 1, 10)), job(3, (3, 2, 10)), job(4, (4, 1, 10))];
    assert_eq!(order(&World::node(2).starts("lucid", &jobs)), [0, 2, 4, 1, 3]);
}

/// Two jobs of each of two users tell them apart. The last two have waited since before then, in order of arrival.
#[test]
fn jobs_that_wait_are_estimated_again_when_the_model_is_fitted() {
    let of = |user: &str, id| {
        let length = if user == "ann" { 10 } else { 100 };
        job(id, (0, 1, length)).with(|request| request.user = user.into())
    };
    let jobs = [of("ann", 0), of("bob", 1), of("ann", 2), of("bob", 3), of("bob", 4), of("ann", 5)];
    assert_eq!(order(&World::node(1).starts("lucid", &jobs)), [0, 1, 2, 3, 5, 4]);
    // The rolling estimate is made when a job begins to wait.
    assert_eq!(order(&World::node(1).starts("lucid:estimates=rolling", &jobs)), [0, 1, 2, 3, 4, 5]);
}

/// Both jobs outlive a stage of 100 s. The first was estimated to run for 50 s, and has run for 100 s without an end, so that it is taken
/// to run for 200 s.
#[test]
fn an_estimate_that_has_turned_out_to_be_wrong_is_corrected() {
    let jobs =
        [job(0, (0, 1, 1000)), estimated(50, job(1, (1, 1, 300))), estimated(150, job(2, (2, 1, 300)))];
    let world = |topology| World::new(topology).remembers(&[50, 150]);
    let topology = super::stage::with_stage(&[("", 1, 1, true), ("", 1, 1, false)]);
    let found = world(topology).starts("lucid:estimates=rolling:profile=100s", &jobs);
    let on_main: Vec<_> = found.iter().filter(|(.., devices)| *devices == [1]).cloned().collect();
    assert_eq!(on_main, [(100, 0, vec![1]), (1100, 2, vec![1]), (1400, 1, vec![1])]);
    // Without a stage, the estimate stands.
    assert_eq!(
        order(&world(divided(&[("", 1, 1, "GPU")])).starts("lucid:estimates=rolling", &jobs)),
        [0, 1, 2]
    );
}

/// A job of two devices is passed by jobs of one device.
#[test]
fn a_job_that_has_waited_for_the_bound_holds_up_the_others() {
    let jobs = [
        job(0, (0, 1, 60)),
        job(1, (1, 2, 10)),
        job(2, (2, 1, 60)),
        job(3, (50, 1, 60)),
        job(4, (61, 1, 60)),
        job(5, (110, 1, 60)),
        job(6, (111, 1, 60)),
    ];
    let (turns, ends) = World::node(2).run("lucid:bound=100s", &jobs);
    let first = [(0, 0, vec![0]), (2, 2, vec![1]), (60, 3, vec![0]), (62, 4, vec![1])];
    assert_eq!(starts(&turns)[..4], first);
    // From 101 s on, no job passes it. At 120 s one device is free, and at 122 s both.
    assert_eq!(starts(&turns)[4..], [(122, 1, vec![0, 1]), (132, 5, vec![0]), (132, 6, vec![1])]);
    assert_eq!(ends[1], 132.0);
    for policy in ["lucid:bound=never", "lucid"] {
        let (turns, ends) = World::node(2).run(policy, &jobs);
        assert_eq!(starts(&turns)[4..], [(120, 5, vec![0]), (122, 6, vec![1]), (182, 1, vec![0, 1])]);
        assert_eq!(ends[1], 192.0, "{policy}");
    }
}

#[test]
fn each_virtual_cluster_has_a_queue_of_its_own() {
    let of = |name: &str, job: JobRequest| job.with(|request| request.virtual_cluster = name.into());
    let jobs = [
        of("a", job(0, (0, 2, 10))),
        of("a", job(1, (0, 2, 5))),
        of("b", job(2, (0, 2, 4))),
        of("b", job(3, (0, 2, 3))),
    ];
    let topology = divided(&[("a", 1, 2, "GPU"), ("b", 1, 2, "GPU")]);
    let (turns, ends) = World::new(topology).run("lucid:backfill=off", &jobs);
    assert_eq!(ends, [10.0, 15.0, 4.0, 7.0]);
    assert!(turns.iter().any(|turn| turn.reason == "b: least estimated service: job-3"), "{turns:?}");
}
