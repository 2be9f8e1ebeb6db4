//! EfficientNet (Tan and Le, ICML 2019), laid out and named as torchvision does.
//!
//! Batch norms have PyTorch's constants, as torchvision gives them to B0 to B4; the paper's own code has 1e-3 and 0.01.

use schema::catalog::{Efficientnet, InvertedResiduals, Optimizer};
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
        squeeze::{Gate, SqueezeExcitation},
    },
    workload::{Block, Supervised},
};

const SILU: Option<Activation> = Some(Activation::Silu);

/// Stem, inverted residual blocks, head. Takes `[samples, 3, height, width]` and gives `[samples, classes]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Efficientnet,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let mut root = parameters.root();
    let mut features = root.part("features");
    let mut channels = i64::from(model.stem);
    let stem = stem(features.part(0), channels, i64::from(model.stem_stride), Activation::Silu)?;
    let mut blocks: Vec<Box<dyn Link>> = vec![Box::new(stem)];
    let residuals: u32 = model.blocks.iter().map(|row| row.count).sum();
    for (stage, row) in model.blocks.iter().enumerate() {
        let mut scope = features.part(stage + 1);
        for index in 0..row.count {
            // The stem is the first of the blocks and no residual one.
            let depth = (blocks.len() - 1) as f64 / f64::from(residuals);
            let stride = if index == 0 { i64::from(row.stride) } else { 1 };
            scope.begin_link(blocks.len());
            let residual = InvertedResidual {
                layers: layers(scope.part(index), channels, row, stride)?,
                has_shortcut: stride == 1 && channels == i64::from(row.channels),
                stochastic_depth: model.stochastic_depth * depth,
            };
            blocks.push(Box::new(residual));
            channels = i64::from(row.channels);
        }
    }
    let (head, classes) = (i64::from(model.head), i64::from(model.classes));
    let mut scope = features.part(model.blocks.len() + 1);
    scope.begin_link(blocks.len());
    let convolution = ConvNorm::new(&mut scope, ["0", "1"], Shape::pointwise(channels, head), SILU)?;
    // By the number of outputs, as in the paper's own code.
    let init = Init::fan_in(classes);
    let classifier = Linear::with_init(root.part("classifier").part(1), head, classes, init)?;
    blocks.push(Box::new(Head { convolution, dropout: Dropout(model.dropout), classifier }));
    Ok(Supervised::new(parameters, blocks, cross_entropy, optimizer))
}

/// Of an inverted residual block.
fn layers(
    mut scope: Scope<'_>,
    inputs: i64,
    row: &InvertedResiduals,
    stride: i64,
) -> Result<Vec<Box<dyn Block>>, TchError> {
    let [expansion, kernel, outputs] = [row.expansion, row.kernel, row.channels].map(i64::from);
    let inner = inputs * expansion;
    let mut scope = scope.part("block");
    let mut layers: Vec<Box<dyn Block>> = Vec::new();
    if inner != inputs {
        let shape = Shape::pointwise(inputs, inner);
        layers.push(Box::new(ConvNorm::new(&mut scope.part(0), ["0", "1"], shape, SILU)?));
    }
    let shape = Shape::depthwise(inner, kernel, stride);
    layers.push(Box::new(ConvNorm::new(&mut scope.part(layers.len()), ["0", "1"], shape, SILU)?));
    // A quarter of the block's input channels, not of its expanded ones.
    let squeezed = (inputs / 4).max(1);
    let part = scope.part(layers.len());
    layers.push(Box::new(SqueezeExcitation::new(part, inner, squeezed, Activation::Silu, Gate::Sigmoid)?));
    let shape = Shape::pointwise(inner, outputs);
    layers.push(Box::new(ConvNorm::new(&mut scope.part(layers.len()), ["0", "1"], shape, None)?));
    Ok(layers)
}
