//! What the networks of inverted residual blocks share (Sandler et al., CVPR 2018).

use tch::{TchError, Tensor};

use crate::{
    nn::{
        activation::Activation,
        conv_norm::{ConvNorm, Shape},
        dense::Linear,
        dropout::{Dropout, stochastic_depth},
        parameters::Scope,
    },
    workload::Block,
};

/// The first layer, a 3x3 convolution of the image: `[samples, 3, height, width]` to `channels` of them.
///
/// # Errors
/// Out of memory.
pub(super) fn stem(
    mut scope: Scope<'_>,
    channels: i64,
    stride: i64,
    activation: Activation,
) -> Result<ConvNorm, TchError> {
    const COLOURS: i64 = 3;
    let shape = Shape { inputs: COLOURS, outputs: channels, kernel: 3, stride, groups: 1 };
    ConvNorm::new(&mut scope, ["0", "1"], shape, Some(activation))
}

/// Layers that widen their input, convolve each channel, and narrow it again, with a shortcut if the shape stays.
pub(super) struct InvertedResidual {
    /// The last one's output is no other operation's to keep.
    pub(super) layers: Vec<Box<dyn Block>>,
    pub(super) has_shortcut: bool,
    /// Share of the samples that take the shortcut alone.
    pub(super) stochastic_depth: f64,
}

impl Block for InvertedResidual {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let output = self.layers.iter().try_fold(input.shallow_clone(), |x, layer| layer.forward(&x))?;
        if self.has_shortcut {
            stochastic_depth(output, self.stochastic_depth)?.f_add_(input)
        } else {
            Ok(output)
        }
    }
}

/// A last convolution, the mean over the image, dropout, and a linear layer.
pub(super) struct Head {
    pub(super) convolution: ConvNorm,
    pub(super) dropout: Dropout,
    pub(super) classifier: Linear,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let means = image_means(&self.convolution.forward(input)?)?;
        self.classifier.forward(&self.dropout.forward(&means)?)
    }
}

/// `[samples, channels]` of `[samples, channels, height, width]`.
pub(super) fn image_means(images: &Tensor) -> Result<Tensor, TchError> {
    const KEEP_DIMENSIONS: bool = false;
    images.f_mean_dim([2, 3].as_slice(), KEEP_DIMENSIONS, None)
}
