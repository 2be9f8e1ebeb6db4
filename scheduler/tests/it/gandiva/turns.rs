//! Turns: shares, weights, priorities, and where jobs are placed.

use engine::{cluster::Action, topology::Topology};
use record::suspension::Suspension;
use schema::units::Nanos;

use super::{HEAVY, World, ends, job, starts, steps_at};
use crate::support::SECOND;

#[test]
fn six_jobs_on_two_devices_have_equal_shares() {
    let jobs: Vec<_> = (0..6).map(|id| job(id, HEAVY, (0, 1, 60))).collect();
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=2s:pack=off", &jobs);
    // Three jobs on each device have a third of 90 s each.
    let done = steps_at(&turns, 90, 6);
    assert!(done.iter().all(|done| (280..=320).contains(done)), "{done:?}");
    let ends = ends(&outcomes);
    assert!(ends.iter().all(|end| *end >= 174.0), "the last turns: {ends:?}");
    assert!(ends.iter().copied().fold(0.0, f64::max) <= 180.5, "turns lose nothing: {ends:?}");
}

#[test]
fn shares_are_by_weight() {
    let mut jobs: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 60))).collect();
    jobs[0].weight = 2;
    let (_, outcomes) = World::node(1).run("gandiva:quantum=1s:pack=off", &jobs);
    let ends = ends(&outcomes);
    assert!((89.0..=91.0).contains(&ends[0]), "two thirds of the time: {ends:?}");
    assert!((120.0..=120.5).contains(&ends[1]), "{ends:?}");
}

#[test]
fn a_higher_priority_is_never_suspended_for_a_lower_one() {
    let mut jobs = vec![job(0, HEAVY, (0, 1, 30)), job(1, HEAVY, (5, 1, 20)), job(2, HEAVY, (7, 1, 10))];
    jobs[1].priority = 1;
    let (_, outcomes) = World::node(1).run("gandiva:quantum=4s:pack=off", &jobs);
    let ends = ends(&outcomes);
    assert!((ends[1] - 25.0).abs() < 0.3, "it runs at once, to its end: {ends:?}");
    assert!(ends[2] <= 46.0 && ends[0] >= 59.9, "the others take turns: {ends:?}");
}

#[test]
fn suspended_by_checkpoint_jobs_are_stopped_and_started_again() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 20))).collect();
    let world = World { suspension: Suspension::Checkpoint, ..World::node(1) };
    let (turns, outcomes) = world.run("gandiva:quantum=4s:pack=off", &jobs);
    let actions: Vec<&Action> = turns.iter().flat_map(|turn| &turn.actions).collect();
    assert!(
        actions.iter().all(|action| matches!(action, Action::Start { .. } | Action::Stop { .. })),
        "{actions:?}"
    );
    assert!(actions.len() >= 14, "{actions:?}");
    assert!(ends(&outcomes).iter().all(|end| (35.0..=40.5).contains(end)), "{outcomes:?}");
    assert!(outcomes.iter().all(|row| row.steps_lost == 0));
}

#[test]
fn a_job_of_two_devices_takes_turns_with_jobs_of_one() {
    let jobs = [job(0, HEAVY, (0, 1, 60)), job(1, HEAVY, (0, 1, 60)), job(2, HEAVY, (0, 2, 60))];
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=3s:pack=off:relax=1s", &jobs);
    let done = steps_at(&turns, 60, 3);
    assert!(done.iter().all(|done| (260..=340).contains(done)), "{done:?}");
    assert!(ends(&outcomes).iter().all(|end| *end <= 121.0), "{outcomes:?}");
}

/// A node of another affinity is shared only when a job has waited.
#[test]
fn jobs_of_one_size_are_kept_together() {
    let world = World::new(Topology::uniform(4, 2, "GPU"));
    let jobs = [
        job(0, HEAVY, (0, 1, 100)),
        job(1, HEAVY, (0, 2, 100)),
        job(2, HEAVY, (1, 1, 100)),
        job(3, HEAVY, (2, 2, 100)),
        job(4, HEAVY, (3, 1, 100)),
    ];
    let (turns, _) = world.run("gandiva:quantum=5s:pack=off:migrate=off", &jobs);
    let devices: Vec<_> = starts(&turns).into_iter().map(|(_, job, devices)| (job, devices)).collect();
    assert_eq!(devices[..5], [(0, vec![0]), (1, vec![2, 3]), (2, vec![1]), (3, vec![2, 3]), (4, vec![0])]);
    let jobs = [job(0, HEAVY, (0, 1, 300)), job(1, HEAVY, (0, 1, 300)), job(2, HEAVY, (1, 2, 10))];
    let (turns, _) = World::node(2).run("gandiva:quantum=5s:pack=off:relax=20s", &jobs);
    let of_pair: Vec<_> = starts(&turns).into_iter().filter(|(_, job, _)| *job == 2).collect();
    assert!(of_pair[0].0 >= 21.0 && of_pair[0].0 <= 30.0, "{of_pair:?}");
}

#[test]
fn two_jobs_share_a_switch_cost_that_is_small_beside_the_quantum() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 120))).collect();
    let world = World { cost: Nanos(SECOND / 5), ..World::node(1) };
    let (_, outcomes) = world.run("gandiva:quantum=20s:pack=off", &jobs);
    let last = ends(&outcomes).into_iter().fold(0.0, f64::max);
    // A resumption every 20 s costs 0.2 s.
    assert!((242.0..=243.5).contains(&last), "{last}");
}

/// The first job is on its way back from 20 s to 23 s. In between it cannot be suspended.
#[test]
fn a_job_that_resumes_shares_its_devices_with_no_higher_priority() {
    let mut jobs = vec![job(0, HEAVY, (0, 1, 60)), job(1, HEAVY, (0, 1, 60)), job(2, HEAVY, (21, 1, 20))];
    jobs[2].priority = 1;
    let world = World { cost: Nanos(3 * SECOND), ..World::node(1) };
    let (turns, outcomes) = world.run("gandiva:quantum=10s:pack=off", &jobs);
    assert_eq!(starts(&turns)[2], (23.0, 2, vec![0]));
    assert!(outcomes.iter().all(|row| row.packed_ns == Some(0)), "{outcomes:?}");
}

/// The first device has a job of a higher priority, which leaves nothing to the others there.
#[test]
fn a_job_is_not_left_beside_a_higher_priority() {
    let mut jobs = vec![job(0, HEAVY, (0, 1, 60)), job(1, HEAVY, (0, 1, 60)), job(2, HEAVY, (1, 1, 20))];
    jobs[0].priority = 1;
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=4s:pack=off", &jobs);
    assert_eq!(starts(&turns)[2].2, [1]);
    assert!((36.0..=44.0).contains(&ends(&outcomes)[2]), "it has half of the second device: {outcomes:?}");
    // It is there first, and moves when the other comes.
    let jobs = [
        job(0, HEAVY, (0, 1, 40)),
        job(1, HEAVY, (0, 1, 60)),
        job(2, HEAVY, (5, 1, 60)).with(|request| request.priority = 1),
    ];
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=4s:pack=off", &jobs);
    let moved: Vec<_> = starts(&turns).into_iter().filter(|(_, job, _)| *job != 2).skip(2).collect();
    assert_eq!(moved[0], (8.0, 0, vec![1]), "at the next turn: {moved:?}");
    assert!((ends(&outcomes)[2] - 65.0).abs() < 0.5, "{outcomes:?}");
}
