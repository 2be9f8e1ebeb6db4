//! Models against reference implementations in Python: the same weights must give the same loss and the same gradients.
//!
//! `scripts/reference_py/<name>.py` writes `tests/reference/<name>.safetensors`: `weights.*` and `gradients.*` under the
//! names of our models, a batch as `inputs` and `targets`, and its `loss`.

use std::{collections::HashMap, path::Path};

use schema::catalog::Model;
use tch::Tensor;
use torch_worker::{shim::autograd::backward, workload::Batch};

use crate::support::{build, catalog, difference, state};

/// `model` is built in place of that of `workload`, from which it is of the same family.
pub(crate) fn assert_equal_to_reference(name: &str, workload: &str, model: Model) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/reference/{name}.safetensors"));
    let reference: HashMap<_, _> = Tensor::read_safetensors(file).unwrap().into_iter().collect();
    let mut workload = catalog(workload);
    workload.model = model;
    let model = build(&workload);
    let state = state(model.as_ref());
    tch::no_grad(|| {
        for (name, tensor) in &state {
            let weight = &reference[&format!("weights.{name}")];
            assert_eq!(tensor.size(), weight.size(), "{name}");
            tensor.shallow_clone().copy_(weight);
        }
    });
    let weights = reference.keys().filter(|key| key.starts_with("weights.")).count();
    assert_eq!(weights, state.len(), "the reference has weights that the model lacks");

    let part = |name: &str| reference[name].shallow_clone();
    let batch = Batch { inputs: part("inputs"), targets: part("targets") };
    let loss = model.loss(0, &batch).unwrap();
    assert!(difference(&loss, &reference["loss"]) < 1e-5, "{loss} for {}", reference["loss"]);
    backward(&loss, &[]).unwrap();
    for (name, tensor) in state.iter().filter(|(_, tensor)| tensor.requires_grad()) {
        let apart = difference(&tensor.grad(), &reference[&format!("gradients.{name}")]);
        assert!(apart < 1e-4, "the gradient of {name} is {apart} apart");
    }
}
