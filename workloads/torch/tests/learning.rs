//! Every workload learns: its loss falls within the steps that `profile verify` gives it, and the same seed gives the
//! same losses.

use std::sync::{Mutex, PoisonError};

use schema::catalog::{Catalog, Workload};
use tch::Device;
use torch_worker::{
    data, models,
    shim::library::flush_denormals,
    step::{Execution, Trainer},
};

/// The losses of the first steps, at the batch that `profile verify` uses.
fn losses(workload: &Workload, seed: u64, steps: u64) -> Vec<f64> {
    /// Initial weights, dropout and the noise of an autoencoder come from torch's one generator, which tests that run side
    /// by side would draw from in turns.
    static GENERATOR: Mutex<()> = Mutex::new(());
    let _guard = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    tch::manual_seed(seed as i64);
    let model = models::build(workload, Device::Cpu).unwrap();
    let samples = data::of(&*model, workload.model.samples(), None, seed, Device::Cpu).unwrap();
    let execution = Execution::plain(Device::Cpu, workload.verify.global_batch as usize);
    let mut trainer = Trainer::new(model, samples, execution).unwrap();
    let step = |_| {
        trainer.issue().unwrap();
        trainer.completed(0).unwrap().unwrap().loss
    };
    (0..steps).map(step).collect()
}

/// Whether parameters, gradients and optimizer state leave a third of the machine's memory to all else.
fn fits(workload: &Workload) -> bool {
    use procfs::Current as _;
    let memory_bytes = procfs::Meminfo::current().unwrap().mem_total;
    let bytes_per_parameter = 4 * (2 + workload.optimizer.state_per_parameter());
    workload.parameters.is_none_or(|parameters| bytes_per_parameter * parameters <= memory_bytes / 3 * 2)
}

#[test]
fn losses_fall_within_the_steps_of_verify() {
    // Tests share the cores with each other, where threads that wait for each other cost more than they bring.
    tch::set_num_threads(1);
    flush_denormals();
    let all = std::env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    let catalog = Catalog::embedded();
    for workload in catalog.iter().filter(|workload| workload.model.worker() == "torch-worker") {
        if !all && !workload.sets.iter().any(|set| set == "quick") {
            schema::skips::skipped("slow", format_args!("set TANDEM_SLOW=1 to train {}", workload.name));
            continue;
        }
        if !fits(workload) {
            schema::skips::skipped(
                "memory",
                format_args!("this machine has not the memory to train {}", workload.name),
            );
            continue;
        }
        let losses = losses(workload, 1, workload.verify.steps);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (first, last) = (mean(&losses[..3]), mean(&losses[losses.len() - 3..]));
        println!("{}: {first:.3} -> {last:.3}", workload.name);
        assert!(last < 0.95 * first, "{}: {losses:.3?}", workload.name);
    }
}

#[test]
fn a_seed_gives_the_same_losses_to_the_last_bit_and_another_seed_others() {
    let catalog = Catalog::embedded();
    for mut workload in catalog.set("quick").cloned() {
        workload.verify.global_batch = 4;
        let run = |seed| losses(&workload, seed, 3).into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(run(1), run(1), "{}", workload.name);
        assert_ne!(run(1), run(2), "{}", workload.name);
    }
}
