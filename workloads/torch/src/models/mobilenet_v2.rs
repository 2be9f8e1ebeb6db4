//! MobileNetV2 (Sandler et al., CVPR 2018), laid out and named as torchvision does.

use schema::catalog::{InvertedResiduals, MobilenetV2, Optimizer};
use tch::TchError;

use super::inverted_residual::{Head, InvertedResidual, stem};
use crate::{
    chain::Link,
    nn::{
        activation::Activation,
        conv_norm::{ConvNorm, Shape},
        dense::Linear,
        dropout::Dropout,
        init::Init,
        loss::cross_entropy,
        parameters::{Parameters, Scope},
    },
    workload::{Block, Supervised},
};

const RELU6: Option<Activation> = Some(Activation::Relu6);

/// Stem, inverted residual blocks, head. Takes `[samples, 3, height, width]` and gives `[samples, classes]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &MobilenetV2,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let mut root = parameters.root();
    let mut features = root.part("features");
    let mut channels = i64::from(model.stem);
    let stem = stem(features.part(0), channels, i64::from(model.stem_stride), Activation::Relu6)?;
    let mut blocks: Vec<Box<dyn Link>> = vec![Box::new(stem)];
    for row in &model.blocks {
        for index in 0..row.count {
            let stride = if index == 0 { i64::from(row.stride) } else { 1 };
            features.begin_link(blocks.len());
            let scope = features.part(blocks.len());
            blocks.push(Box::new(inverted_residual(scope, channels, row, stride)?));
            channels = i64::from(row.channels);
        }
    }
    let (head, classes) = (i64::from(model.head), i64::from(model.classes));
    let shape = Shape::pointwise(channels, head);
    features.begin_link(blocks.len());
    let convolution = ConvNorm::new(&mut features.part(blocks.len()), ["0", "1"], shape, RELU6)?;
    let init = Init::normal(0.01);
    let classifier = Linear::with_init(root.part("classifier").part(1), head, classes, init)?;
    blocks.push(Box::new(Head { convolution, dropout: Dropout(model.dropout), classifier }));
    Ok(Supervised::new(parameters, blocks, cross_entropy, optimizer))
}

fn inverted_residual(
    mut scope: Scope<'_>,
    inputs: i64,
    row: &InvertedResiduals,
    stride: i64,
) -> Result<InvertedResidual, TchError> {
    let &InvertedResiduals { expansion, kernel, channels, .. } = row;
    let (inner, outputs) = (inputs * i64::from(expansion), i64::from(channels));
    let mut scope = scope.part("conv");
    let mut layers: Vec<Box<dyn Block>> = Vec::new();
    if expansion != 1 {
        let shape = Shape::pointwise(inputs, inner);
        layers.push(Box::new(ConvNorm::new(&mut scope.part(0), ["0", "1"], shape, RELU6)?));
    }
    let place = layers.len();
    let shape = Shape::depthwise(inner, i64::from(kernel), stride);
    layers.push(Box::new(ConvNorm::new(&mut scope.part(place), ["0", "1"], shape, RELU6)?));
    // The last two are modules of the block itself, as they have no activation.
    let names = [format!("{}", place + 1), format!("{}", place + 2)];
    let shape = Shape::pointwise(inner, outputs);
    layers.push(Box::new(ConvNorm::new(&mut scope, [&names[0], &names[1]], shape, None)?));
    let has_shortcut = stride == 1 && inputs == outputs;
    Ok(InvertedResidual { layers, has_shortcut, stochastic_depth: 0.0 })
}
