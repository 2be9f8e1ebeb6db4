//! What the tests of all families share.

use std::collections::BTreeMap;

use schema::catalog::{Catalog, Workload};
use tch::{Device, Tensor};
use torch_worker::{data, models, workload};

pub(crate) fn catalog(name: &str) -> Workload {
    Catalog::embedded().get(name).expect("the catalog has it").clone()
}

pub(crate) fn build(workload: &Workload) -> Box<dyn workload::Workload> {
    models::build(workload, Device::Cpu).unwrap()
}

pub(crate) fn batch(workload: &Workload, samples: usize) -> workload::Batch {
    data::open(workload.model.samples(), None, 0, Device::Cpu).unwrap().next(samples).unwrap()
}

pub(crate) fn state(model: &dyn workload::Workload) -> BTreeMap<String, Tensor> {
    model.parameters().state().map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone())).collect()
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
