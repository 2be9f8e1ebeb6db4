//! A plan of each axis, whose ranks share one device through Gloo, or have a GPU each through NCCL.

use std::{env, path::Path, process::Command};

use schema::{
    catalog::Catalog,
    device::Device,
    plan::Plan,
    spec::{Collectives, LaunchSpec, Program, Training},
};
use torch_worker::launch::Launch;

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
    // The others may still read data of the last step.
    trainer.world().all.barrier().unwrap();
}

/// The losses of a job of GPT-2, which has no dropout.
fn losses(plan: &str, devices: &[Device], collectives: Collectives) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let plan: Plan = plan.parse().unwrap();
    let workload = Catalog::embedded().get("gpt2-mini").unwrap().clone();
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
        command.env("RANK", rank.to_string()).stdout(std::process::Stdio::piped());
        if let Device::Cuda(number) = &spec.devices[rank as usize] {
            command.env("CUDA_VISIBLE_DEVICES", number.to_string());
        }
        command.spawn().unwrap()
    };
    let ranks: Vec<_> = (0..plan.ranks()).map(start).collect();
    let mut of_job = vec![0.0; STEPS];
    for rank in ranks {
        let output = rank.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{plan}: {said}");
        let line = said.lines().find_map(|line| line.split_once("losses: ")).expect("each rank says it").1;
        for (sum, loss) in of_job.iter_mut().zip(line.split_whitespace()) {
            *sum += loss.parse::<f64>().unwrap() / f64::from(plan.dp);
        }
    }
    of_job
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
        check(&[Device::Cuda("0".parse().unwrap())], Collectives::Gloo);
    }
}

#[test]
fn ranks_with_a_gpu_each_train_as_one() {
    if there_is_a_device() && tch::Cuda::device_count() > 1 {
        check(&["0", "1"].map(|gpu| Device::Cuda(gpu.parse().unwrap())), Collectives::Nccl);
    }
}
