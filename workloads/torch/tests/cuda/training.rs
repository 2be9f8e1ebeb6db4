//! Training on a device: its times, its losses, its updates in host memory, and its pauses.

use std::{collections::HashSet, iter};

use schema::{catalog::Catalog, wire::Timing};
use tch::{Device, Kind, Tensor};
use torch_worker::{
    data, models,
    nn::channels_last,
    optimizer::{GradientNorm, Home, Optimizer},
    pause::Paused,
    shim::{autograd::backward, storage::Storage},
    step::{Completed, Execution, Trainer},
};

use crate::{FIRST, optimizers::OPTIMIZERS, there_is_a_device};

/// Steps of two micro-batches.
fn trainer(name: &str, device: Device, recompute: bool) -> Trainer {
    let workload = Catalog::embedded().get(name).unwrap().clone();
    tch::manual_seed(7);
    let model = models::build(&workload, device).unwrap();
    let samples = data::open(workload.model.samples(), None, 7, device).unwrap();
    let execution = Execution { micro_batches: 2, recompute, ..Execution::plain(device, 4) };
    Trainer::new(model, samples, execution).unwrap()
}

/// Trains eight steps, issued ahead of the device where it allows that.
fn train(name: &str, device: Device, recompute: bool) -> Vec<Completed> {
    let mut trainer = trainer(name, device, recompute);
    let mut steps = Vec::new();
    for _ in 0..8 {
        trainer.issue().unwrap();
        steps.extend(iter::from_fn(|| trainer.completed(4).unwrap()));
    }
    steps.extend(iter::from_fn(|| trainer.completed(0).unwrap()));
    assert_eq!(steps.len(), 8);
    steps
}

#[test]
fn a_device_times_its_own_steps_and_computes_what_the_cpu_does() {
    if !there_is_a_device() {
        return;
    }
    for name in ["dcgan", "gpt2-mini", "lstm", "neumf", "resnet18-cifar"] {
        let steps = train(name, FIRST, false);
        assert!(steps.is_sorted_by_key(|step| step.end));
        for step in &steps {
            let phases = &step.phases;
            let parts = [phases.data_ns, phases.forward_ns, phases.backward_ns, phases.optimizer_ns];
            let sum: u64 = parts.map(|part| part.expect("each is timed").0).iter().sum();
            assert!(step.dur.0 > 0 && sum.abs_diff(step.dur.0) < 50_000, "phases fill the step: {step:?}");
            assert!(step.loss.is_finite() && step.timing == Timing::DeviceEvent, "{name}: {step:?}");
        }
    }
    // Neither dropout, whose masks differ, nor convolutions, which are in TF32.
    for recompute in [false, true] {
        let on_cpu = train("gpt2-mini", Device::Cpu, false);
        for (cpu, gpu) in on_cpu.iter().zip(train("gpt2-mini", FIRST, recompute)) {
            assert!((cpu.loss - gpu.loss).abs() < 1e-3, "{} and {}", cpu.loss, gpu.loss);
        }
    }
}

/// Where ten updates lead, on parameters of a few and of millions of numbers.
fn updated(home: Home) -> Vec<Tensor> {
    let values = |shape: &[i64]| {
        let count = shape.iter().product::<i64>();
        (Tensor::arange(count, (Kind::Float, FIRST)) * 0.7).sin().view(shape)
    };
    let parameters = [&[7][..], &[2100, 2100], &[16, 3, 3, 3]].map(|shape| {
        let start = values(shape);
        let start = if shape.len() == 4 { channels_last(&start).unwrap() } else { start };
        start.set_requires_grad(true)
    });
    let [.., (_, adamw)] = OPTIMIZERS;
    let handles = parameters.iter().map(Tensor::shallow_clone).collect();
    let mut optimizer = Optimizer::new(adamw, handles, home).unwrap();
    let place = if home == Home::Device { FIRST } else { Device::Cpu };
    for (kind, tensors) in optimizer.state() {
        assert!(tensors.iter().all(|tensor| tensor.device() == place), "{kind} for {home:?}");
    }
    for _ in 0..10 {
        // The device is still at work when the update is asked for, and again when the next step is.
        let loss: Tensor = parameters.iter().map(|parameter| (parameter - 0.5).square().sum(None)).sum();
        backward(&loss, &[]).unwrap();
        optimizer.clip_gradients(10.0, &GradientNorm::Own).unwrap();
        optimizer.step(&mut |_| Ok(())).unwrap();
        optimizer.clear_gradients().unwrap();
    }
    parameters.iter().map(|parameter| parameter.detach().to(Device::Cpu)).collect()
}

#[test]
fn updates_in_host_memory_are_those_on_the_device() {
    if !there_is_a_device() {
        return;
    }
    for (device, host) in updated(Home::Device).iter().zip(updated(Home::Host { threads: 2 })) {
        let difference = (device - host).abs().max().double_value(&[]);
        assert!(difference < 1e-6, "they differ by {difference}");
    }
}

#[test]
fn a_paused_job_leaves_its_device_and_comes_back_as_it_was() {
    if !there_is_a_device() {
        return;
    }
    // A tied weight, weights that cuDNN wants in one piece, channels-last ones and buffers, a table.
    for name in ["gpt2-mini", "lstm", "resnet18-cifar", "llama-mini"] {
        let mut trainer = trainer(name, FIRST, false);
        let step = |trainer: &mut Trainer| {
            trainer.issue().unwrap();
            trainer.completed(0).unwrap().unwrap().loss
        };
        step(&mut trainer);
        let there = trainer.tensors();
        let values: Vec<_> = there.iter().map(|tensor| tensor.detach().to_device(Device::Cpu)).collect();
        let strides: Vec<_> = there.iter().map(Tensor::stride).collect();
        let storages = |tensors: &[Tensor]| {
            let storages: HashSet<_> = tensors.iter().map(|tensor| Storage::of(tensor).unwrap().0).collect();
            storages.len()
        };
        let before = storages(&there);

        let (paused, left) = Paused::new(&mut trainer).unwrap();
        println!("{name}: {} bytes freed in {} ns", left.bytes_freed, left.dur.0);
        for (tensor, value) in trainer.tensors().iter().zip(&values) {
            assert_eq!((tensor.device(), tensor), (Device::Cpu, value), "{name}");
        }
        let dur = paused.resume(&mut trainer).unwrap();
        println!("{name}: back in {} ns", dur.0);
        let back = trainer.tensors();
        assert!(back.iter().all(|tensor| tensor.device() == FIRST), "{name}");
        assert_eq!(back.iter().map(Tensor::stride).collect::<Vec<_>>(), strides, "{name}");
        for (tensor, value) in back.iter().zip(&values) {
            assert_eq!(&tensor.to_device(Device::Cpu), value, "{name}");
        }
        assert_eq!(storages(&back), before, "{name}: what shared memory shares it again");
        assert!(step(&mut trainer).is_finite(), "{name}");
    }
}
