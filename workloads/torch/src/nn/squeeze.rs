//! Squeeze-and-excitation (Hu et al., CVPR 2018).

use tch::{TchError, Tensor};

use super::{
    activation::Activation,
    convolution::{Conv2d, Window},
    init::Init,
    parameters::Scope,
};
use crate::workload::Block;

/// Weighs each channel by what the means of all of them say, as torchvision's `SqueezeExcitation`.
pub struct SqueezeExcitation {
    squeeze: Conv2d,
    activation: Activation,
    excite: Conv2d,
    gate: Gate,
}

/// Makes a weight from 0 to 1 of any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Sigmoid,
    Hardsigmoid,
}

impl SqueezeExcitation {
    /// `squeezed` channels stand between the means and the weights.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        mut scope: Scope<'_>,
        channels: i64,
        squeezed: i64,
        activation: Activation,
        gate: Gate,
    ) -> Result<Self, TchError> {
        let mut layer = |name, inputs, outputs| {
            let init = Init::fan_out_normal(outputs);
            Conv2d::with_bias(scope.part(name), inputs, outputs, Window::centred(1, 1), init, Init::ZEROS)
        };
        let squeeze = layer("fc1", channels, squeezed)?;
        let excite = layer("fc2", squeezed, channels)?;
        Ok(Self { squeeze, activation, excite, gate })
    }
}

impl Block for SqueezeExcitation {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        const KEEP_DIMENSIONS: bool = true;
        let means = input.f_mean_dim([2, 3].as_slice(), KEEP_DIMENSIONS, None)?;
        let squeezed = self.activation.in_place(self.squeeze.forward(&means)?)?;
        let logits = self.excite.forward(&squeezed)?;
        let weights = match self.gate {
            Gate::Sigmoid => logits.f_sigmoid()?,
            Gate::Hardsigmoid => logits.f_hardsigmoid()?,
        };
        weights.f_mul(input)
    }
}
