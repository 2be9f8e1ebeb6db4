//! Ranks that share a step copy no large gradient. All of it is one test: memory is recorded for the whole process.

use std::fs;

use schema::{
    catalog::Catalog,
    device::Device,
    spec::{LaunchSpec, Program, Training},
};
use torch_worker::{
    launch::{Built, Launch},
    shim::{
        memory::count_cpu_tensors,
        memory_trace::{self, Event},
    },
    step::Trainer,
    world::World,
};

/// A gradient of this size or more is summed on its own.
const LARGE_BYTES: i64 = 1 << 20;

/// The trainer of the first rank of a job with two samples per rank. The other ranks do not exist.
fn trainer(workload: &str, plan: &str) -> Trainer {
    let workload = Catalog::embedded().get(workload).expect("a workload of the catalog").clone();
    let plan: schema::plan::Plan = plan.parse().expect("a canonical plan");
    let devices = vec![Device::AllCores; plan.ranks() as usize];
    let training = Training::new(workload, 2 * plan.batch_divisor(), plan);
    let spec = LaunchSpec::new("0001", "a test", Program::Training(Box::new(training)), devices);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spec.json");
    fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let launch = Launch::read(&file, 0).unwrap();
    let Built { trainer, .. } = launch.build(World::absent(launch.mesh, 0)).unwrap();
    trainer
}

/// The large pieces of memory that the next step takes, in order.
fn large_pieces(trainer: &mut Trainer) -> Vec<i64> {
    memory_trace::begin(tch::Device::Cpu).unwrap();
    trainer.issue().unwrap();
    let events = memory_trace::end(tch::Device::Cpu).unwrap();
    trainer.completed(0).unwrap().expect("the step is complete");
    let large = |event| match event {
        Event::Bytes(bytes) if bytes >= LARGE_BYTES => Some(bytes),
        _ => None,
    };
    events.into_iter().filter_map(large).collect()
}

#[test]
fn sharing_a_step_takes_no_large_piece_of_memory_that_it_does_not_take_alone() {
    count_cpu_tensors();
    // Convolutions, 1x1 ones among them, and products of matrices, which autograd makes transposed.
    for (workload, is_large) in [("resnet50-cifar", 9_437_184), ("gpt2-mini", LARGE_BYTES)] {
        for recompute in ["", "-gc"] {
            let mut alone = trainer(workload, if recompute.is_empty() { "dp1" } else { "gc" });
            let _first = large_pieces(&mut alone);
            let alone = large_pieces(&mut alone);
            assert!(alone.contains(&is_large), "{workload} has such a gradient: {alone:?}");
            let plan = format!("dp2{recompute}");
            let mut shared = trainer(workload, &plan);
            // Sums begin at the end of the first step, and within the backward pass of the next.
            for step in 0..2 {
                assert_eq!(large_pieces(&mut shared), alone, "{workload}@{plan}, step {step}");
            }
        }
    }
}
