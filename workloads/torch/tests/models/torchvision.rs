//! Models against torchvision's: one training step that `scripts/reference_py/torchvision_models.py` exported.

use schema::catalog::{
    Efficientnet, InvertedResiduals, MobilenetV2, MobilenetV3, MobilenetV3Activation, MobilenetV3Block,
    Model, Resnet, ResnetBlock, ResnetStem, Vgg,
};

use crate::reference::assert_equal_to_reference;

const IMAGE: u32 = 32;
const CLASSES: u32 = 10;

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
    assert_equal_to_reference("resnet", bottlenecks(3, 1, None));
}

#[test]
fn resnext_equals_torchvision() {
    assert_equal_to_reference("resnext", bottlenecks(2, 4, Some(1)));
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
    assert_equal_to_reference("mobilenet_v2", Model::MobilenetV2(model));
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
    assert_equal_to_reference("mobilenet_v3", Model::MobilenetV3(model));
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
    assert_equal_to_reference("efficientnet", Model::Efficientnet(model));
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
    assert_equal_to_reference("vgg", Model::Vgg(model));
}
