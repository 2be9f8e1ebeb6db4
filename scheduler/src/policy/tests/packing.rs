//! Packing, step by step.

use model::{Prediction, Question, Throughput};

use super::world::{World, s};
use crate::{
    cluster::{Action, JobId},
    policy::{Decision, Policy, build},
    topology::DeviceId,
    view::Change,
};

/// Alone a step takes 1 ms, together `slowdown` times that, each known to a hundredth.
struct Slows {
    slowdown: Option<f64>,
    interval: f64,
}

impl Throughput for Slows {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        let slowdown = if question.co_runners.is_empty() { 1.0 } else { self.slowdown? };
        let step_ns = 1e6 * slowdown;
        let step_ns_ci = Some((step_ns * (1.0 - self.interval), step_ns * (1.0 + self.interval)));
        Some(Prediction { step_ns, step_ns_ci })
    }
}

fn world(devices: u32, jobs: &[(u64, u32, u64)], slowdown: Option<f64>) -> World {
    let mut world = World::new(devices, jobs);
    world.model = Box::new(Slows { slowdown, interval: 0.01 });
    world.arrive();
    world
}

fn turn(policy: &mut dyn Policy, world: &mut World) -> Decision {
    let decision = policy.decide(&world.view());
    decision.actions.iter().for_each(|action| world.apply(action));
    decision
}

/// `(job, its devices)` of each start.
fn starts(decision: &Decision) -> Vec<(u32, Vec<u32>)> {
    let start = |action: &Action| match action {
        Action::Start { job, devices, .. } => Some((job.0, devices.iter().map(|device| device.0).collect())),
        _ => None,
    };
    decision.actions.iter().filter_map(start).collect()
}

#[test]
fn a_pack_must_gain_by_more_than_is_unknown() {
    // Two jobs that each take `slowdown` times as long together: the sum is 2 over it, known to a hundredth of it.
    for (slowdown, packed) in
        [(Some(1.5), true), (Some(1.97), true), (Some(1.99), false), (Some(2.5), false), (None, false)]
    {
        let mut world = world(1, &[(0, 1, 60), (0, 1, 60)], slowdown);
        let mut policy = build("packing-fifo").expect("it is in the list");
        assert_eq!(starts(&turn(&mut *policy, &mut world)), [(0, vec![0])], "{slowdown:?}");
        world.now = s(1);
        let second = turn(&mut *policy, &mut world);
        assert_eq!(!starts(&second).is_empty(), packed, "{slowdown:?}");
    }
    let mut vague = world(1, &[(0, 1, 60), (0, 1, 60)], Some(1.5));
    vague.model = Box::new(Slows { slowdown: Some(1.5), interval: 0.3 });
    let mut policy = build("packing-fifo").expect("it is in the list");
    for started in [1, 0] {
        assert_eq!(starts(&turn(&mut *policy, &mut vague)).len(), started);
    }
}

#[test]
fn a_free_device_comes_first_and_no_device_has_three_jobs() {
    let mut world = world(2, &[(0, 1, 60), (0, 1, 60), (0, 1, 60), (0, 2, 60), (0, 1, 60)], Some(1.2));
    let mut policy = build("packing-fifo").expect("it is in the list");
    assert_eq!(starts(&turn(&mut *policy, &mut world)), [(0, vec![0]), (1, vec![1])]);
    let packed = turn(&mut *policy, &mut world);
    assert_eq!(starts(&packed), [(2, vec![0])], "the fourth wants two devices and holds up the fifth");
    assert_eq!(packed.reason, "j2 beside j0: 1.667 ± 0.017 times taking turns");
    assert!(turn(&mut *policy, &mut world).actions.is_empty());
    // The first leaves its device to the third, which is then alone.
    world.end(JobId(0));
    assert!(turn(&mut *policy, &mut world).actions.is_empty());
    world.end(JobId(1));
    world.end(JobId(2));
    assert_eq!(starts(&turn(&mut *policy, &mut world)), [(3, vec![0, 1])]);
    assert!(
        turn(&mut *policy, &mut world).actions.is_empty(),
        "the fifth has not as many devices as the fourth"
    );
}

#[test]
fn what_is_measured_undoes_a_pack_and_is_remembered() {
    let mut world = world(1, &[(0, 1, 600), (0, 1, 600), (0, 1, 600)], Some(1.2));
    let mut policy = build("packing-fifo").expect("it is in the list");
    turn(&mut *policy, &mut world);
    assert_eq!(starts(&turn(&mut *policy, &mut world)), [(1, vec![0])]);
    // Steps of each in each second: half of what they do alone is as good as taking turns.
    let mut steps = [5_000, 0];
    for (second, (done, undone)) in
        [([900, 900], false), ([500, 500], false), ([99, 99], true)].into_iter().enumerate()
    {
        world.now = s(10 + second as u64);
        for job in [0, 1] {
            steps[job] += done[job];
            world.progress(JobId(job as u32), steps[job]);
        }
        let decision = turn(&mut *policy, &mut world);
        let stop = Action::Stop { job: JobId(1), checkpoint: true };
        assert_eq!(decision.actions, if undone { vec![stop] } else { vec![] }, "second {second}");
        if undone {
            assert_eq!(decision.reason, "j1 no longer beside j0: measured 0.600 at most");
        }
    }
    world.now = s(20);
    assert!(turn(&mut *policy, &mut world).actions.is_empty(), "jobs like these are not packed again");
    world.end(JobId(0));
    assert_eq!(starts(&turn(&mut *policy, &mut world)), [(1, vec![0])]);
    assert!(turn(&mut *policy, &mut world).actions.is_empty(), "the third is like the other two");
}

#[test]
fn jobs_that_did_not_fit_together_stay_apart() {
    let mut world = world(1, &[(0, 1, 60), (0, 1, 60)], Some(1.2));
    let mut policy = build("packing-fifo").expect("it is in the list");
    turn(&mut *policy, &mut world);
    assert_eq!(starts(&turn(&mut *policy, &mut world)), [(1, vec![0])]);
    // It failed for lack of memory and is given another chance.
    world.stop(JobId(1));
    world.changes.push(Change::DoNotFit(JobId(0), JobId(1)));
    assert!(turn(&mut *policy, &mut world).actions.is_empty());
    assert_eq!(world.occupancy.kept_by(DeviceId(0)), [JobId(0)]);
}
