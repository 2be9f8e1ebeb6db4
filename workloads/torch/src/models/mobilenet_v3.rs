//! MobileNetV3 (Howard et al., ICCV 2019), laid out and named as torchvision does.

use schema::catalog::{MobilenetV3, MobilenetV3Activation, MobilenetV3Block, Optimizer};
use tch::{TchError, Tensor};

use super::inverted_residual::{InvertedResidual, image_means, stem};
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
        squeeze::{Gate, SqueezeExcitation},
    },
    workload::{Block, Supervised},
};

/// Stem, inverted residual blocks, head. Takes `[samples, 3, height, width]` and gives `[samples, classes]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &MobilenetV3,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let mut root = parameters.root();
    let mut features = root.part("features");
    let mut channels = i64::from(model.stem);
    const STRIDE: i64 = 2;
    let stem = stem(features.part(0), channels, STRIDE, Activation::Hardswish)?;
    let mut blocks: Vec<Box<dyn Link>> = vec![Box::new(stem.with_norm_constants(EPSILON, MOMENTUM))];
    for block in &model.blocks {
        features.begin_link(blocks.len());
        let scope = features.part(blocks.len());
        blocks.push(Box::new(inverted_residual(scope, channels, block)?));
        channels = i64::from(block.channels);
    }
    let [head, hidden, classes] = [model.head, model.hidden, model.classes].map(i64::from);
    let shape = Shape::pointwise(channels, head);
    features.begin_link(blocks.len());
    let convolution = conv_norm(features.part(blocks.len()), shape, Some(Activation::Hardswish))?;
    let mut scope = root.part("classifier");
    blocks.push(Box::new(Head {
        convolution,
        hidden: Linear::with_init(scope.part(0), head, hidden, Init::normal(0.01))?,
        dropout: Dropout(model.dropout),
        classifier: Linear::with_init(scope.part(3), hidden, classes, Init::normal(0.01))?,
    }));
    Ok(Supervised::new(parameters, blocks, cross_entropy, optimizer))
}

// Of the norms: the paper's (section 6.1.1: running statistics decay by 0.99) and torchvision's.
const EPSILON: f64 = 1e-3;
const MOMENTUM: f64 = 0.01;

fn conv_norm(
    mut scope: Scope<'_>,
    shape: Shape,
    activation: Option<Activation>,
) -> Result<ConvNorm, TchError> {
    Ok(ConvNorm::new(&mut scope, ["0", "1"], shape, activation)?.with_norm_constants(EPSILON, MOMENTUM))
}

fn inverted_residual(
    mut scope: Scope<'_>,
    inputs: i64,
    block: &MobilenetV3Block,
) -> Result<InvertedResidual, TchError> {
    let [kernel, inner, outputs, stride] =
        [block.kernel, block.expanded, block.channels, block.stride].map(i64::from);
    let activation = Some(match block.activation {
        MobilenetV3Activation::Relu => Activation::Relu,
        MobilenetV3Activation::Hardswish => Activation::Hardswish,
    });
    let mut scope = scope.part("block");
    let mut layers: Vec<Box<dyn Block>> = Vec::new();
    if inner != inputs {
        layers.push(Box::new(conv_norm(scope.part(0), Shape::pointwise(inputs, inner), activation)?));
    }
    let shape = Shape::depthwise(inner, kernel, stride);
    layers.push(Box::new(conv_norm(scope.part(layers.len()), shape, activation)?));
    if block.squeeze {
        let (scope, squeezed) = (scope.part(layers.len()), squeezed_channels(inner));
        let gate = Gate::Hardsigmoid;
        layers.push(Box::new(SqueezeExcitation::new(scope, inner, squeezed, Activation::Relu, gate)?));
    }
    layers.push(Box::new(conv_norm(scope.part(layers.len()), Shape::pointwise(inner, outputs), None)?));
    let has_shortcut = stride == 1 && inputs == outputs;
    Ok(InvertedResidual { layers, has_shortcut, stochastic_depth: 0.0 })
}

/// A quarter of the channels, rounded to a multiple of eight, but not to less than nine tenths of it (torchvision's
/// `_make_divisible`).
fn squeezed_channels(channels: i64) -> i64 {
    const MULTIPLE: i64 = 8;
    let quarter = channels / 4;
    let rounded = ((quarter + MULTIPLE / 2) / MULTIPLE * MULTIPLE).max(MULTIPLE);
    if rounded * 10 < quarter * 9 { rounded + MULTIPLE } else { rounded }
}

/// A last convolution, the mean over the image, and two linear layers.
struct Head {
    convolution: ConvNorm,
    hidden: Linear,
    dropout: Dropout,
    classifier: Linear,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let means = image_means(&self.convolution.forward(input)?)?;
        let hidden = Activation::Hardswish.in_place(self.hidden.forward(&means)?)?;
        self.classifier.forward(&self.dropout.forward(&hidden)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeezed_channels_are_torchvisions() {
        let channels = [16, 96, 240, 120, 144, 288, 576, 72, 672, 960];
        assert_eq!(channels.map(squeezed_channels), [8, 24, 64, 32, 40, 72, 144, 24, 168, 240]);
    }
}
