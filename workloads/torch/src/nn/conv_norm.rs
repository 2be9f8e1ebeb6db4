//! A convolution and the batch norm behind it, which most networks for images are made of.

use tch::{TchError, Tensor};

use super::{
    activation::Activation,
    convolution::{Conv2d, Window},
    init::Init,
    norm::BatchNorm2d,
    parameters::Scope,
};
use crate::workload::Block;

/// The two layers, and the activation of their output.
pub struct ConvNorm {
    convolution: Conv2d,
    norm: BatchNorm2d,
    activation: Option<Activation>,
}

/// Of a convolution that gives an image of the same size at stride 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub inputs: i64,
    pub outputs: i64,
    pub kernel: i64,
    pub stride: i64,
    pub groups: i64,
}

impl Shape {
    /// One that looks at single points.
    pub fn pointwise(inputs: i64, outputs: i64) -> Self {
        Self { inputs, outputs, kernel: 1, stride: 1, groups: 1 }
    }

    /// One that looks at single channels.
    pub fn depthwise(channels: i64, kernel: i64, stride: i64) -> Self {
        Self { inputs: channels, outputs: channels, kernel, stride, groups: channels }
    }
}

impl ConvNorm {
    /// Registers convolution and norm under the names given, as `conv1` and `bn1`. Weights are drawn as torchvision does:
    /// by the fan-out of an ungrouped convolution, also where there are groups.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        scope: &mut Scope<'_>,
        names: [&str; 2],
        shape: Shape,
        activation: Option<Activation>,
    ) -> Result<Self, TchError> {
        let Shape { inputs, outputs, kernel, stride, groups } = shape;
        let init = Init::fan_out_normal(outputs * kernel * kernel);
        let window = Window::centred(kernel, stride);
        let [convolution, norm] = names;
        Ok(Self {
            convolution: Conv2d::grouped(scope.part(convolution), inputs, outputs, groups, window, init)?,
            norm: BatchNorm2d::new(scope.part(norm), outputs)?,
            activation,
        })
    }

    /// With other constants of the norm: see [`BatchNorm2d::with_constants`].
    #[must_use = "it gives the layers back"]
    pub fn with_norm_constants(self, epsilon: f64, momentum: f64) -> Self {
        Self { norm: self.norm.with_constants(epsilon, momentum), ..self }
    }
}

impl Block for ConvNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let output = self.norm.forward(&self.convolution.forward(input)?)?;
        match self.activation {
            Some(activation) => activation.in_place(output),
            None => Ok(output),
        }
    }
}
