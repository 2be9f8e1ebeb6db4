//! The profiler stage: what it takes, in which order, and what it costs.

use engine::{
    Engine,
    cluster::{DeviceId, Settled},
    job::JobRequest,
    topology::Topology,
};
use formats::decision::{ClusterEvent, Turn};
use record::manifest::{AlikeNodes, NodeFacts};
use schema::units::Nanos;

use super::{ALONE, TINY, World, job, of_class, starts, stops};
use crate::{
    actions::{Scripted, arrived, settled},
    support::built,
};

/// Nodes as `(virtual cluster, nodes, devices of each, whether they are of the stage)`.
pub(super) fn with_stage(groups: &[(&str, u32, u32, bool)]) -> Topology {
    let group = |&(name, nodes, devices, profiling): &(&str, u32, u32, bool)| AlikeNodes {
        nodes,
        devices,
        device_type: "GPU".into(),
        virtual_cluster: (!name.is_empty()).then(|| name.into()),
        facts: NodeFacts { profiling, ..NodeFacts::default() },
    };
    Topology::simulated(&groups.iter().map(group).collect::<Vec<_>>())
}

/// Device 0 is that of the stage.
fn one_and_two() -> World<'static> {
    World::new(with_stage(&[("", 1, 1, true), ("", 1, 2, false)]))
}

#[test]
fn a_job_is_done_within_the_stage_or_begins_anew_after_it() {
    let jobs = [job(0, (0, 1, 150)), job(1, (0, 1, 300)), job(2, (0, 2, 100))];
    let (turns, ends) = one_and_two().run("lucid", &jobs);
    // The second waits for the stage until 150 s, is there until 350 s, and its 200 s of work are lost. The third is too large for it.
    assert_eq!(starts(&turns), [(0, 2, vec![1, 2]), (0, 0, vec![0]), (150, 1, vec![0]), (350, 1, vec![1])]);
    assert_eq!(stops(&turns), [(350, 1, false)]);
    assert_eq!(ends, [150.0, 650.0, 100.0]);
    // With a checkpoint, only the wait is lost.
    let (turns, ends) = one_and_two().run("lucid:profile-checkpoint=on", &jobs);
    assert_eq!((stops(&turns), ends), (vec![(350, 1, true)], vec![150.0, 450.0, 100.0]));
    let (turns, ends) = one_and_two().run("lucid:profile=60s", &jobs);
    assert_eq!(starts(&turns)[2..], [(60, 1, vec![0]), (100, 0, vec![1]), (120, 1, vec![2])]);
    assert_eq!(ends, [250.0, 420.0, 100.0]);
}

/// Profiling is charged unless it is said to be free: jobs that outlive the stage then skip it.
#[test]
fn profiling_is_free_only_if_it_is_said_to_be() {
    let jobs = [job(0, (0, 1, 300)), job(1, (0, 1, 150)), of_class(TINY, job(2, (0, 1, 300)))];
    let (turns, ends) = one_and_two().run("lucid:free-profiling=on", &jobs);
    assert_eq!(starts(&turns), [(0, 0, vec![1]), (0, 2, vec![2]), (0, 1, vec![0])]);
    assert_eq!((stops(&turns), ends), (vec![], vec![300.0, 150.0, 300.0]));
    let (_, ends) = one_and_two().run("lucid", &jobs);
    assert_eq!(ends, [500.0, 350.0, 850.0]);
}

#[test]
fn the_fewest_devices_are_profiled_first() {
    let topology = with_stage(&[("", 1, 4, true), ("", 1, 4, false)]);
    let jobs =
        [job(0, (0, 4, 50)), job(1, (1, 4, 10)), job(2, (2, 2, 10)), job(3, (3, 1, 10)), job(4, (4, 4, 10))];
    let found = World::new(topology.clone()).starts("lucid", &jobs);
    let order: Vec<u32> = found.iter().map(|(_, job, _)| *job).collect();
    assert_eq!(order, [0, 3, 2, 1, 4]);
    assert_eq!(found[1..3], [(50, 3, vec![0]), (50, 2, vec![1, 2])]);
    // The others are too large then.
    let found = World::new(topology).starts("lucid:profile-devices=1", &jobs);
    assert_eq!(found[..2], [(0, 0, vec![4, 5, 6, 7]), (3, 3, vec![0])]);
}

/// The stage is a node of one virtual cluster. The other devices are not for jobs of the other.
#[test]
fn the_stage_is_for_all_virtual_clusters() {
    let topology = with_stage(&[("a", 1, 1, true), ("a", 1, 1, false), ("b", 1, 1, false)]);
    let of = |name: &str, job: JobRequest| job.with(|request| request.virtual_cluster = name.into());
    let jobs = [of("b", job(0, (0, 1, 300))), of("a", job(1, (0, 1, 250)))];
    let (turns, ends) = World::new(topology.clone()).run("lucid", &jobs);
    assert_eq!(starts(&turns), [(0, 0, vec![0]), (200, 0, vec![2]), (200, 1, vec![0]), (400, 1, vec![1])]);
    assert_eq!(ends, [500.0, 650.0]);
    // To another policy it is a node of its virtual cluster.
    assert_eq!(World::new(topology).starts("fifo", &jobs), [(0, 1, vec![0]), (0, 0, vec![2])]);
}

/// Two devices are outside the stage. A job of four takes the node of the stage, too, when it is free. After the bound, it keeps others
/// from it.
#[test]
fn a_job_that_is_too_large_without_the_stage_takes_its_devices() {
    let topology = || with_stage(&[("", 1, 2, true), ("", 1, 2, false)]);
    let few = [job(0, (0, 2, 50)), job(1, (10, 4, 30)), job(2, (20, 2, 60))];
    let found = World::new(topology()).starts("lucid", &few);
    assert_eq!(found, [(0, 0, vec![0, 1]), (50, 1, vec![0, 1, 2, 3]), (80, 2, vec![0, 1])]);
    // Without an end, one job after the other is profiled.
    let ten = |id| job(id, (u64::from(id) * 10, 1, 25));
    let many: Vec<JobRequest> =
        (0..20).map(|id| if id == 1 { job(1, (10, 4, 30)) } else { ten(id) }).collect();
    let start_of_large = |policy: &str| {
        let found = World::new(topology()).starts(policy, &many);
        found.into_iter().find(|(_, job, _)| *job == 1).map(|(second, ..)| second)
    };
    assert_eq!(start_of_large("lucid:bound=60s"), Some(80));
    assert!(start_of_large("lucid") > Some(150));
}

/// Jobs that were profiled have a class. A job that was not is packed with none, whatever its class would be.
#[test]
fn only_what_was_profiled_is_packed() {
    let tiny = |id, devices| of_class(TINY, job(id, (0, devices, 300)));
    let large = [tiny(0, 2), tiny(1, 2)];
    let (_, ends) = one_and_two().run("lucid:sharing=on", &large);
    assert_eq!(ends, [300.0, 600.0]);
    let (_, ends) = World::node(2).run("lucid:sharing=on", &large);
    assert_eq!(ends, [360.0, 360.0]);
    // The second is profiled from 200 s to 400 s, and joins the first.
    let topology = with_stage(&[("", 1, 1, true), ("", 1, 1, false)]);
    let found = World::new(topology).starts("lucid:sharing=on", &[tiny(0, 1), tiny(1, 1)]);
    assert_eq!(found, [(0, 0, vec![0]), (200, 0, vec![1]), (200, 1, vec![0]), (400, 1, vec![1])]);
}

/// Jobs of one device keep a stage of two devices busy. The job of two has waited for 60 s then, and comes first outside.
#[test]
fn a_job_that_has_waited_for_the_bound_skips_the_stage() {
    let topology = with_stage(&[("", 1, 2, true), ("", 1, 2, false)]);
    let small = |id: u32| job(id, (u64::from(id) * 10, 1, 25));
    let jobs: Vec<JobRequest> =
        (0..20).map(|id| if id == 2 { job(2, (20, 2, 30)) } else { small(id) }).collect();
    let start_of_large = |policy: &str| {
        let found = World::new(topology.clone()).starts(policy, &jobs);
        found.into_iter().find(|(_, job, _)| *job == 2)
    };
    assert_eq!(start_of_large("lucid:bound=60s"), Some((80, 2, vec![2, 3])));
    let (at, _, devices) = start_of_large("lucid").expect("it is profiled at last");
    assert!(at > 200 && devices == [0, 1], "{at}");
}

/// Lost devices may never come back. The second job no longer fits into the stage, and goes on without it.
#[test]
fn a_stage_that_is_too_small_for_a_job_does_not_hold_it() {
    let topology = with_stage(&[("", 1, 2, true), ("", 1, 2, false)]);
    let jobs = [job(0, (0, 1, 10)), job(1, (0, 2, 10))];
    let lost = ClusterEvent::DeviceLost { device: DeviceId(1) };
    let events = [arrived(0), settled(0, Settled::Running), arrived(1), lost];
    let mut cluster = Scripted { now: Nanos::ZERO, events: events.into() };
    let mut engine = Engine::new(&topology, &jobs, &ALONE, engine::Settings::default());
    let mut turns: Vec<Turn> = Vec::new();
    engine::run(&mut engine, &mut cluster, &mut *built("lucid"), &mut turns).expect_err("the script ends");
    let order: Vec<_> = starts(&turns).into_iter().map(|(_, job, devices)| (job, devices)).collect();
    assert_eq!(order, [(0, vec![0]), (1, vec![2, 3])]);
    assert_eq!(turns.last().map(|turn| turn.actions.len()), Some(1), "at the loss");
}
