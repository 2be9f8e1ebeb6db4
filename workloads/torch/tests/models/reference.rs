//! Models against reference implementations in Python: from the same weights one step must give the same.

use std::{collections::BTreeMap, path::Path};

use schema::catalog::Model;
use tch::Tensor;
use torch_worker::{nn::channels_last, workload::Batch};

use crate::{
    operations::{State, assert_same_gradients, gradients},
    support::{build_model, difference, state},
};

/// `model` has the loss and the gradients that stand in `tests/reference/<name>.safetensors`, and leaves the running
/// statistics that stand there. `scripts/reference_py/export.py` says what such a file holds.
pub(crate) fn assert_equal_to_reference(name: &str, model: Model) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/reference/{name}.safetensors"));
    let reference = BTreeMap::from_iter(Tensor::read_safetensors(file).unwrap());
    let group = |prefix: &str| -> State {
        let tensor = |(key, tensor): (&String, &Tensor)| {
            Some((key.strip_prefix(prefix)?.to_owned(), tensor.shallow_clone()))
        };
        reference.iter().filter_map(tensor).collect()
    };
    let model = build_model(model);
    let (state, weights) = (state(model.as_ref()), group("weights."));
    assert!(state.keys().eq(weights.keys()), "{name}: {:?} and {:?}", state.keys(), weights.keys());
    tch::no_grad(|| state.iter().for_each(|(key, ours)| ours.shallow_clone().copy_(&weights[key])));

    let inputs = &reference["inputs"];
    let is_images = inputs.dim() == 4;
    let inputs = if is_images { channels_last(inputs).unwrap() } else { inputs.shallow_clone() };
    let loss = model.loss(0, &Batch { inputs, targets: reference["targets"].shallow_clone() }).unwrap();
    let apart = difference(&loss.detach(), &reference["loss"]);
    assert!(apart < 1e-5, "{name}: losses are {apart} apart");
    assert_same_gradients(&gradients(&state, &loss), &group("gradients."), 1e-4);
    for (key, buffer) in group("after.") {
        let apart = difference(&state[&key], &buffer);
        assert!(apart < 1e-5, "{name}: {key} are {apart} apart after the step");
    }
}
