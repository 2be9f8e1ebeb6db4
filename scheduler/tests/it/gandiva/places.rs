//! Where jobs are placed on nodes of different sizes, and whose cores are few.

use engine::{job::JobRequest, topology::Topology};
use record::manifest::{AlikeNodes, NodeFacts};

use super::{HEAVY, LIGHT, World, ends, job, reasons, starts, steps_at};

/// One node with eight cores.
fn node_with_cores(devices: u32) -> World {
    let facts = NodeFacts { cpus: Some(8), ..NodeFacts::default() };
    World::new(Topology::simulated(&[AlikeNodes {
        nodes: 1,
        devices,
        device_type: "GPU".into(),
        facts,
        ..AlikeNodes::default()
    }]))
}

fn with_cores(cpus: u16, job: JobRequest) -> JobRequest {
    job.with(|request| request.cpus = Some(cpus))
}

#[test]
fn a_job_that_needs_fewer_cores_does_not_wait_for_one_that_needs_more() {
    let jobs = [
        with_cores(5, job(0, HEAVY, (0, 1, 20))),
        with_cores(4, job(1, HEAVY, (1, 1, 20))),
        with_cores(3, job(2, HEAVY, (2, 1, 20))),
    ];
    let (turns, _) = node_with_cores(2).run("gandiva:slice=off:pack=off", &jobs);
    assert_eq!(starts(&turns), [(0.0, 0, vec![0]), (2.0, 2, vec![1]), (20.0, 1, vec![0])]);
}

/// Each has a device, and the cores are enough for one of them.
#[test]
fn jobs_that_take_turns_for_cores_have_equal_shares_from_the_arrival_of_the_second() {
    let jobs = [with_cores(6, job(0, HEAVY, (0, 1, 60))), with_cores(6, job(1, HEAVY, (30, 1, 60)))];
    let (turns, _) = node_with_cores(2).run("gandiva:quantum=2s:pack=off", &jobs);
    let done = steps_at(&turns, 60, 2);
    assert!((430..=470).contains(&done[0]) && (130..=170).contains(&done[1]), "{done:?}");
}

/// A pack of both would never have its cores.
#[test]
fn jobs_whose_cores_do_not_fit_together_are_not_packed() {
    let jobs = [0, 1].map(|id| with_cores(5, job(id, LIGHT, (0, 1, 60))));
    let (turns, outcomes) = node_with_cores(1).run("gandiva:quantum=5s:reports=3", &jobs);
    assert_eq!(reasons(&turns, "tries").len(), 0);
    assert!(ends(&outcomes).iter().all(|end| *end <= 121.0), "{outcomes:?}");
}

/// Two of the nodes have two devices, and are less loaded than the one that has four.
#[test]
fn a_job_of_several_nodes_is_on_no_more_than_it_needs() {
    let group =
        |nodes, devices| AlikeNodes { nodes, devices, device_type: "GPU".into(), ..AlikeNodes::default() };
    let world = World::new(Topology::simulated(&[group(2, 2), group(1, 4)]));
    let mut jobs: Vec<JobRequest> = (0..4).map(|id| job(id, HEAVY, (0, 2, 200))).collect();
    jobs[2].weight = 5;
    jobs.push(job(4, HEAVY, (1, 6, 20)));
    let (turns, _) = world.run("gandiva:quantum=5s:pack=off:relax=10s", &jobs);
    let of_large: Vec<_> = starts(&turns).into_iter().filter(|(_, job, _)| *job == 4).collect();
    assert_eq!(of_large[0].2, [0, 1, 6, 7, 4, 5]);
}
