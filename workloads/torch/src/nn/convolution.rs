//! Convolutions of images, without bias: in all our models a batch norm or the loss makes up for it.

use tch::{TchError, Tensor};

use super::{flops, init::Init, parameters::Scope};
use crate::workload::Block;

/// The window of a convolution; square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub kernel: i64,
    pub stride: i64,
    pub padding: i64,
}

/// As `torch.nn.Conv2d(.., bias=False)`.
pub struct Conv2d {
    weight: Tensor,
    window: Window,
}

impl Conv2d {
    /// # Errors
    /// Out of memory.
    pub fn new(
        mut scope: Scope<'_>,
        inputs: i64,
        outputs: i64,
        window: Window,
        init: Init,
    ) -> Result<Self, TchError> {
        let shape = [outputs, inputs, window.kernel, window.kernel];
        Ok(Self { weight: scope.parameter("weight", &shape, init)?, window })
    }
}

impl Block for Conv2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let Window { stride, padding, .. } = self.window;
        let output =
            input.f_conv2d(&self.weight, None::<&Tensor>, [stride; 2], [padding; 2], [1; 2], UNGROUPED)?;
        // Each output is a sum over the inputs and the kernel.
        flops::add(|| output.numel() as i64 * self.weight.size()[1..].iter().product::<i64>());
        Ok(output)
    }
}

/// As `torch.nn.ConvTranspose2d(.., bias=False)`: the gradient of a convolution, used forwards to enlarge an image.
pub struct ConvTranspose2d {
    weight: Tensor,
    window: Window,
}

impl ConvTranspose2d {
    /// # Errors
    /// Out of memory.
    pub fn new(
        mut scope: Scope<'_>,
        inputs: i64,
        outputs: i64,
        window: Window,
        init: Init,
    ) -> Result<Self, TchError> {
        let shape = [inputs, outputs, window.kernel, window.kernel];
        Ok(Self { weight: scope.parameter("weight", &shape, init)?, window })
    }
}

impl Block for ConvTranspose2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        // Each input is spread over the outputs and the kernel.
        flops::add(|| input.numel() as i64 * self.weight.size()[1..].iter().product::<i64>());
        let Window { stride, padding, .. } = self.window;
        let output_padding = [0; 2];
        input.f_conv_transpose2d(
            &self.weight,
            None::<&Tensor>,
            [stride; 2],
            [padding; 2],
            output_padding,
            UNGROUPED,
            [1; 2],
        )
    }
}

/// Every output channel sees every input channel.
const UNGROUPED: i64 = 1;
