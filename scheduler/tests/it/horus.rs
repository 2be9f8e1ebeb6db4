//! The stand-in for Horus: jobs share a device if they keep it busy for at most all of the time, and fit.

use engine::{
    Engine,
    job::{JobRequest, Payload},
    topology::Topology,
    view::PolicyContext,
};
use formats::decision::{Action, DeviceId, Turn};
use launches::simulated::{self, Settings};
use model::{Classified, JobKey, PackingClasses, UseAlone, switch_costs::Named};
use record::manifest::{AlikeNodes, NodeFacts};
use schema::units::Nanos;

use crate::support::{Own, SECOND, asked, built};

/// The batch of a job is the percent of the time for which it keeps a device busy, and its memory in bytes. Nothing is known of a
/// batch of 7.
struct ByBatch;

impl PackingClasses for ByBatch {
    fn class(&self, _job: &JobKey<'_>) -> Option<Classified> {
        None
    }

    fn use_alone(&self, job: &JobKey<'_>) -> Option<UseAlone> {
        let batch = job.global_batch.filter(|batch| *batch != 7)?;
        Some(UseAlone { busy: f64::from(batch) / 100.0, peak_memory_bytes: Some(batch.into()) })
    }
}

/// A job of this batch that arrives at a second and runs for 100 s on this number of devices.
fn job(id: u32, batch: u32, (arrival, devices): (u64, u32)) -> JobRequest {
    asked(id, arrival * SECOND, devices, 100, SECOND).with(|request| {
        request.what = Payload::Training { workload: "lstm".into(), global_batch: Some(batch) }
    })
}

/// The first device and the second at which each job was started, on two devices. Jobs of one device arrive a second apart.
fn starts(batches: &[u32], device_memory_bytes: Option<u64>) -> Vec<(u64, u32)> {
    let jobs = (0..).zip(batches).map(|(id, batch)| job(id, *batch, (id.into(), 1)));
    starts_of(&jobs.collect::<Vec<_>>(), 2, device_memory_bytes)
}

fn starts_of(jobs: &[JobRequest], devices: u32, device_memory_bytes: Option<u64>) -> Vec<(u64, u32)> {
    let facts = NodeFacts { device_memory_bytes, ..NodeFacts::default() };
    let nodes = AlikeNodes { nodes: 1, devices, device_type: "GPU".into(), virtual_cluster: None, facts };
    let topology = Topology::simulated(&[nodes]);
    let (truth, costs) = (Own { slowdown: 1.0 }, Named::constant(Nanos::ZERO));
    let mut sim = simulated::cluster(&topology, jobs, Box::new(truth), &costs, Settings::default())
        .expect("all is known");
    let known = PolicyContext { classes: Some(&ByBatch), ..PolicyContext::default() };
    let mut engine = Engine::new(&topology, jobs, truth, engine::Settings::default()).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    engine::run(&mut engine, &mut sim, &mut *built("horus-stand-in"), &mut turns).expect("every job ends");
    let mut starts = vec![(0, 0); jobs.len()];
    for turn in &turns {
        for action in &turn.actions {
            if let Action::Start { job, devices, .. } = action {
                let DeviceId(device) = devices[0];
                starts[job.0 as usize] = (turn.at_ns.0 / SECOND, device);
            }
        }
    }
    starts
}

#[test]
fn the_smallest_sum_that_is_at_most_one_is_chosen() {
    // The third job is beside the second, with 80 %, and the fourth would be busy for 105 % beside the first.
    assert_eq!(starts(&[60, 50, 30, 45], None), [(0, 0), (1, 1), (2, 1), (100, 0)]);
    // Of equals the first.
    assert_eq!(starts(&[50, 50, 50, 40], None), [(0, 0), (1, 1), (2, 0), (3, 1)]);
    // Of a job of which nothing is known, no pack is made.
    assert_eq!(starts(&[60, 50, 7], None), [(0, 0), (1, 1), (100, 0)]);
    assert_eq!(starts(&[7, 50, 20], None), [(0, 0), (1, 1), (2, 1)]);
}

#[test]
fn jobs_that_do_not_fit_are_not_packed() {
    assert_eq!(starts(&[60, 50, 30], Some(80)), [(0, 0), (1, 1), (2, 1)]);
    assert_eq!(starts(&[60, 50, 30], Some(79)), [(0, 0), (1, 1), (100, 0)]);
}

/// The third job needs two devices and shares those of the first. The device that is left is for the fourth, though it might share that
/// of the second.
#[test]
fn a_job_behind_a_pack_starts_on_free_devices() {
    let jobs = [job(0, 50, (0, 2)), job(1, 50, (0, 1)), job(2, 40, (1, 2)), job(3, 40, (1, 1))];
    assert_eq!(starts_of(&jobs, 4, None), [(0, 0), (0, 2), (1, 0), (1, 3)]);
}
