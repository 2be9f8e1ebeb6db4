//! Models against torchvision's: one training step that `scripts/reference_py/torchvision_models.py` exported.

use std::{collections::BTreeMap, path::Path};

use schema::catalog::{
    Efficientnet, InvertedResiduals, MobilenetV2, MobilenetV3, MobilenetV3Activation, MobilenetV3Block,
    Model, Resnet, ResnetBlock, ResnetStem, Vgg,
};
use tch::Tensor;
use torch_worker::{nn::channels_last, shim::autograd::backward, workload::Batch};

use crate::support::{build, catalog, difference, state};

const IMAGE: u32 = 32;
const CLASSES: u32 = 10;

/// Loss, gradients and running statistics of a step from the same weights are those of the reference.
fn equals_torchvision(file: &str, model: Model) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let tensors = Tensor::read_safetensors(folder.join(format!("{file}.safetensors"))).unwrap();
    let reference = BTreeMap::from_iter(tensors);
    let part = |prefix: &str| -> BTreeMap<&str, &Tensor> {
        reference.iter().filter_map(|(name, tensor)| Some((name.strip_prefix(prefix)?, tensor))).collect()
    };
    // Of the workload nothing but the architecture is used.
    let mut workload = catalog("resnet18-mini");
    workload.model = model;
    let model = build(&workload);
    let state = state(model.as_ref());
    let before = part("before.");
    assert!(state.keys().eq(before.keys()), "{file}: names differ:\n{:?}\n{:?}", state.keys(), before.keys());
    tch::no_grad(|| {
        state.iter().for_each(|(name, tensor)| tensor.shallow_clone().copy_(before[name.as_str()]))
    });

    let inputs = channels_last(&reference["inputs"]).unwrap();
    let loss = model.loss(0, &Batch { inputs, targets: reference["targets"].shallow_clone() }).unwrap();
    backward(&loss, &[]).unwrap();
    let apart = difference(&loss.detach(), &reference["loss"]);
    assert!(apart < 1e-5, "{file}: losses are {apart} apart");
    let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
    let gradients = part("gradient.");
    let largest_of_all = gradients.values().map(|gradient| largest(gradient)).fold(0.0, f64::max);
    for (name, gradient) in gradients {
        // A shift that the next batch norm takes away has a gradient of nothing but rounding.
        let scale = largest(gradient).max(1e-2 * largest_of_all);
        let apart = largest(&(state[name].grad() - gradient)) / scale;
        assert!(apart < 1e-4, "{file}: gradients of {name} are {apart} apart");
    }
    for (name, buffer) in part("after.") {
        let apart = difference(&state[name], buffer);
        assert!(apart < 1e-5, "{file}: {name} are {apart} apart after the step");
    }
}

fn bottlenecks(width: u32, groups: u32, width_per_group: Option<u32>) -> Model {
    Model::Resnet(Resnet {
        block: ResnetBlock::Bottleneck,
        layers: [1, 2, 1, 1],
        stem: ResnetStem::Imagenet,
        width,
        groups,
        width_per_group,
        classes: CLASSES,
        image: IMAGE,
    })
}

#[test]
fn resnet_equals_torchvision() {
    equals_torchvision("resnet", bottlenecks(3, 1, None));
}

#[test]
fn resnext_equals_torchvision() {
    equals_torchvision("resnext", bottlenecks(2, 4, Some(1)));
}

/// Rows of expansion, kernel, channels, count, stride.
fn rows(rows: &[[u32; 5]]) -> Vec<InvertedResiduals> {
    let row = |&[expansion, kernel, channels, count, stride]: &[u32; 5]| InvertedResiduals {
        expansion,
        kernel,
        channels,
        count,
        stride,
    };
    rows.iter().map(row).collect()
}

#[test]
fn mobilenet_v2_equals_torchvision() {
    let model = MobilenetV2 {
        stem: 32,
        stem_stride: 2,
        blocks: rows(&[[1, 3, 8, 1, 1], [6, 3, 16, 2, 2], [4, 3, 24, 1, 2]]),
        head: 48,
        dropout: 0.0,
        classes: CLASSES,
        image: IMAGE,
    };
    equals_torchvision("mobilenet_v2", Model::MobilenetV2(model));
}

#[test]
fn mobilenet_v3_equals_torchvision() {
    use MobilenetV3Activation::{Hardswish, Relu};
    let block = |kernel, expanded, channels, squeeze, activation, stride| MobilenetV3Block {
        kernel,
        expanded,
        channels,
        squeeze,
        activation,
        stride,
    };
    let model = MobilenetV3 {
        stem: 8,
        blocks: vec![
            block(3, 8, 8, true, Relu, 1),
            block(3, 24, 16, false, Relu, 2),
            block(5, 48, 16, true, Hardswish, 1),
        ],
        head: 96,
        hidden: 24,
        dropout: 0.0,
        classes: CLASSES,
        image: IMAGE,
    };
    equals_torchvision("mobilenet_v3", Model::MobilenetV3(model));
}

#[test]
fn efficientnet_equals_torchvision() {
    let model = Efficientnet {
        stem: 8,
        stem_stride: 2,
        blocks: rows(&[[1, 3, 8, 1, 1], [6, 3, 16, 2, 2], [6, 5, 24, 1, 1]]),
        head: 48,
        dropout: 0.0,
        stochastic_depth: 0.0,
        classes: CLASSES,
        image: IMAGE,
    };
    equals_torchvision("efficientnet", Model::Efficientnet(model));
}

#[test]
fn vgg_equals_torchvision() {
    let model = Vgg {
        stages: vec![vec![8], vec![16, 16]],
        batch_norm: false,
        pool: 2,
        hidden: vec![32, 24],
        dropout: 0.0,
        classes: CLASSES,
        image: IMAGE,
    };
    equals_torchvision("vgg", Model::Vgg(model));
}
