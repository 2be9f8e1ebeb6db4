//! What the tests of all families share.

use std::collections::BTreeMap;

use schema::catalog::{Catalog, Model, Workload};
use tch::{Device, Tensor};
use torch_worker::{data, models, step::Trainer, workload};

pub(crate) fn catalog(name: &str) -> Workload {
    Catalog::embedded().get(name).expect("the catalog has it").clone()
}

/// With every share that is dropped at zero, so that the same batch gives the same loss.
pub(crate) fn without_dropout(workload: &Workload) -> Workload {
    Workload { model: workload.model.without_dropout(), ..workload.clone() }
}

pub(crate) fn build(workload: &Workload) -> Box<dyn workload::Workload> {
    models::build(workload, Device::Cpu).unwrap()
}

/// A model of any family and size. Nothing else of a workload affects its results.
pub(crate) fn build_model(model: Model) -> Box<dyn workload::Workload> {
    build(&Workload { model, ..catalog("resnet18-mini") })
}

pub(crate) fn batch(workload: &Workload, samples: usize) -> workload::Batch {
    data::open(workload.model.samples(), None, 0, Device::Cpu).unwrap().next(samples).unwrap()
}

/// As [`batch`], also for a model that makes its samples by acting.
pub(crate) fn batch_of(
    model: &dyn workload::Workload,
    workload: &Workload,
    samples: usize,
) -> workload::Batch {
    data::of(model, workload.model.samples(), None, 0, Device::Cpu).unwrap().next(samples).unwrap()
}

/// One step of a training, from its start to its end.
pub(crate) fn take_step(trainer: &mut Trainer) {
    trainer.issue().unwrap();
    trainer.completed(0).unwrap().expect("it was issued");
}

/// Parameters of the part of a workload's model whose names begin with `prefix`, counted from shapes.
pub(crate) fn size_of_part(name: &str, prefix: &str) -> usize {
    let model = models::build_shapes(&catalog(name)).unwrap();
    model.parameters().with_prefix(prefix).iter().map(Tensor::numel).sum()
}

/// Whether tests run that take minutes or gigabytes; reports those that do not.
pub(crate) fn is_slow_run(purpose: &str) -> bool {
    let is_slow = std::env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    if !is_slow {
        schema::skips::skipped("slow", format_args!("set TANDEM_SLOW=1 to learn {purpose}"));
    }
    is_slow
}

pub(crate) fn state(model: &dyn workload::Workload) -> BTreeMap<String, Tensor> {
    let entries = model.parameters().state();
    entries.map(|entry| (entry.name().to_owned(), entry.tensor().shallow_clone())).collect()
}

/// The largest difference, as a part of the largest value.
pub(crate) fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    ((a - b).abs().max() / b.abs().max().clamp_min(1e-12)).double_value(&[])
}

/// The standard deviation of a parameter is that of the distribution it was drawn from.
pub(crate) fn assert_deviation(model: &dyn workload::Workload, name: &str, expected: f64) {
    let deviation = state(model)[name].std(true).double_value(&[]);
    assert!((deviation / expected - 1.0).abs() < 0.05, "{name}: {deviation} for {expected}");
}
