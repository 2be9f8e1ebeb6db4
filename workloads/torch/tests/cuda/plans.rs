//! A plan of each axis, whose ranks share one device through Gloo, or have a GPU each through NCCL.

use std::{
    env,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    process::{Child, Command, Stdio},
};

use schema::{
    catalog::Catalog,
    device::Device,
    mesh::{Coordinates, Mesh},
    plan::Plan,
    spec::{Collectives, LaunchSpec, Program, Training},
};
use torch_worker::{launch::Launch, nn::parameters::Entry, shim::storage::Storage};

use crate::there_is_a_device;

const STEPS: usize = 4;
const GLOBAL_BATCH: u32 = 4;
const PLANS: [&str; 9] = [
    "dp2",
    "dp2-zero1",
    "dp2-zero2-ga2",
    "dp2-zero3",
    "dp2-zero3-gc",
    "tp2",
    "pp2-ga2",
    "tp2-gc",
    "pp2-ga4-offload",
];

/// Names the spec of a launch to the process of a rank.
const SPEC: &str = "TANDEM_TEST_SPEC";

/// Runs a rank if this process is one, and prints its losses.
#[test]
fn one_rank() {
    let (Some(spec), Some(rank)) = (env::var_os(SPEC), env::var("RANK").ok()) else { return };
    let launch = Launch::read(Path::new(&spec), rank.parse().expect("a number")).unwrap();
    let mut trainer = launch.build(launch.meet().unwrap()).unwrap().trainer;
    trainer.restart().unwrap();
    let losses = (0..STEPS).map(|_| {
        trainer.issue().unwrap();
        trainer.completed(0).unwrap().unwrap().loss
    });
    let losses: Vec<String> = losses.filter(|loss| !loss.is_nan()).map(|loss| loss.to_string()).collect();
    println!("losses: {}", losses.join(" "));
    for (what, is_slice) in [("whole", false), ("slices", true)] {
        let mut hasher = DefaultHasher::new();
        // Under ZeRO-3 parameters have no memory between steps.
        let is_here = |entry: &&Entry| Storage::of(entry.tensor()).unwrap().0.bytes > 0;
        let here = trainer.workload().parameters().trainable("").filter(is_here);
        for entry in here.filter(|entry| entry.slice().is_some() == is_slice) {
            let numbers = entry.tensor().detach().to_device(tch::Device::Cpu).reshape([-1]);
            Vec::<f32>::try_from(numbers)
                .unwrap()
                .iter()
                .for_each(|number| number.to_bits().hash(&mut hasher));
        }
        println!("{what}: {}", hasher.finish());
    }
    // The others may still read data of the last step.
    trainer.world().all.barrier().unwrap();
}

/// What the ranks of a job print.
fn said_by_ranks(workload: &str, plan: Plan, devices: &[Device], collectives: Collectives) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let workload = Catalog::embedded().get(workload).unwrap().clone();
    let training = Training {
        rendezvous: Some(folder.path().join("rendezvous")),
        collectives: Some(collectives),
        ..Training::new(workload, GLOBAL_BATCH, plan)
    };
    let program = Program::Training(Box::new(training));
    let devices = devices.iter().cycle().take(plan.ranks() as usize).cloned().collect();
    let spec = LaunchSpec { seed: 3, ..LaunchSpec::new("0001-plan", "plan", program, devices) };
    let file = folder.path().join("spec.json");
    std::fs::write(&file, serde_json::to_vec(&spec).unwrap()).unwrap();
    let start = |rank: u32| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "plans::one_rank", "--nocapture"]).env(SPEC, &file);
        command.env("RANK", rank.to_string()).stdout(Stdio::piped());
        // Each rank sees its own GPU; if they share one, it is the first of those that this process sees.
        if let (Collectives::Nccl, Device::Cuda(number)) = (collectives, &spec.devices[rank as usize]) {
            command.env("CUDA_VISIBLE_DEVICES", number.to_string());
        }
        command.spawn().unwrap()
    };
    let ranks: Vec<_> = (0..plan.ranks()).map(start).collect();
    let end = |rank: Child| {
        let output = rank.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{plan}: {said}");
        said
    };
    ranks.into_iter().map(end).collect()
}

/// What a rank has printed behind this word.
fn behind<'a>(said: &'a str, word: &str) -> &'a str {
    let line = said.lines().find_map(|line| line.split_once(&format!("{word}: ")));
    line.expect("each rank says it").1
}

/// The losses of a job of GPT-2, which has no dropout.
fn losses(plan: &str, devices: &[Device], collectives: Collectives) -> Vec<f64> {
    let plan: Plan = plan.parse().unwrap();
    let mut of_job = vec![0.0; STEPS];
    for said in said_by_ranks("gpt2-mini", plan, devices, collectives) {
        for (sum, loss) in of_job.iter_mut().zip(behind(&said, "losses").split_whitespace()) {
            *sum += loss.parse::<f64>().unwrap() / f64::from(plan.dp);
        }
    }
    of_job
}

/// Dropout masks that differ between tensor-parallel ranks would drive their whole parameters apart.
#[test]
fn replicas_are_equal_to_the_bit_with_dropout() {
    for workload in ["bert-mini", "t5-mini"] {
        for plan in ["dp2", "dp2-zero2", "tp2", "tp2-gc", "dp2-tp2"] {
            let plan: Plan = plan.parse().unwrap();
            let said = said_by_ranks(workload, plan, &[Device::AllCores], Collectives::Gloo);
            let mesh = Mesh::of(&plan);
            for (rank, of_rank) in (0..).zip(&said) {
                let at = mesh.coordinates(rank);
                assert_eq!(behind(of_rank, "whole"), behind(&said[0], "whole"), "{workload} {plan}");
                let replica = mesh.rank(Coordinates { data: 0, ..at }) as usize;
                assert_eq!(behind(of_rank, "slices"), behind(&said[replica], "slices"), "{workload} {plan}");
            }
        }
    }
}

fn check(devices: &[Device], collectives: Collectives) {
    let expected = losses("dp1", &devices[..1], Collectives::Gloo);
    for plan in PLANS {
        let ours = losses(plan, devices, collectives);
        for (ours, expected) in ours.iter().zip(&expected) {
            assert!((ours - expected).abs() < 1e-3 * expected, "{plan}: {ours} for {expected}");
        }
    }
}

#[test]
fn ranks_that_share_the_cpu_train_as_one() {
    check(&[Device::AllCores], Collectives::Gloo);
}

#[test]
fn ranks_that_share_a_gpu_train_as_one() {
    if there_is_a_device() {
        check(&[Device::Cuda(0)], Collectives::Gloo);
    }
}

#[test]
fn ranks_with_a_gpu_each_train_as_one() {
    if there_is_a_device() && tch::Cuda::device_count() > 1 {
        check(&[Device::Cuda(0), Device::Cuda(1)], Collectives::Nccl);
    }
}
