//! Convolutions of images, and of points one by one.

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

impl Window {
    /// One that gives an image of the same size at stride 1, for a kernel with a middle.
    pub fn centred(kernel: i64, stride: i64) -> Self {
        Self { kernel, stride, padding: kernel / 2 }
    }
}

/// The window of a convolution whose two dimensions are not alike: height, then width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    pub kernel: [i64; 2],
    pub stride: [i64; 2],
    pub padding: [i64; 2],
}

impl From<Window> for Rectangle {
    fn from(Window { kernel, stride, padding }: Window) -> Self {
        Self { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2] }
    }
}

/// As `torch.nn.Conv2d`.
///
/// Depthwise and grouped ones want images channels-last as the others do: on one core with oneDNN, MobileNetV2 takes 0.6
/// of the time that it takes with channels first, EfficientNet-B0 the same.
pub struct Conv2d {
    weight: Tensor,
    bias: Option<Tensor>,
    window: Rectangle,
    groups: i64,
}

impl Conv2d {
    /// Without bias, for where a batch norm or the loss makes up for it; every output channel sees every input channel.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        scope: Scope<'_>,
        inputs: i64,
        outputs: i64,
        window: Window,
        init: Init,
    ) -> Result<Self, TchError> {
        Self::grouped(scope, inputs, outputs, UNGROUPED, window, init)
    }

    /// Without bias; inputs and outputs fall into `groups`, which must divide both, and see nothing of the others. With as
    /// many groups as channels this is a depthwise convolution.
    ///
    /// # Errors
    /// Out of memory.
    pub fn grouped(
        mut scope: Scope<'_>,
        inputs: i64,
        outputs: i64,
        groups: i64,
        window: Window,
        init: Init,
    ) -> Result<Self, TchError> {
        let shape = [outputs, inputs / groups, window.kernel, window.kernel];
        Ok(Self {
            weight: scope.parameter("weight", &shape, init)?,
            bias: None,
            window: window.into(),
            groups,
        })
    }

    /// With a bias from `bias_init`; every output channel sees every input channel.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_bias(
        mut scope: Scope<'_>,
        inputs: i64,
        outputs: i64,
        window: impl Into<Rectangle>,
        init: Init,
        bias_init: Init,
    ) -> Result<Self, TchError> {
        let window = window.into();
        let [height, width] = window.kernel;
        let weight = scope.parameter("weight", &[outputs, inputs, height, width], init)?;
        let bias = scope.parameter("bias", &[outputs], bias_init)?;
        Ok(Self { weight, bias: Some(bias), window, groups: UNGROUPED })
    }
}

impl Block for Conv2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let Rectangle { stride, padding, .. } = self.window;
        let output =
            input.f_conv2d(&self.weight, self.bias.as_ref(), stride, padding, [1; 2], self.groups)?;
        // Each output is a sum over the inputs of its group and the kernel.
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

/// The same linear map for each point, as `torch.nn.Conv1d` with a kernel of one: takes `[samples, inputs, points]` and
/// gives `[samples, outputs, points]`.
pub struct Pointwise {
    /// `[outputs, inputs, 1]`
    weight: Tensor,
    bias: Tensor,
}

impl Pointwise {
    /// PyTorch's own initial values.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(mut scope: Scope<'_>, inputs: i64, outputs: i64) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[outputs, inputs, 1], Init::fan_in(inputs))?;
        let bias = scope.parameter("bias", &[outputs], Init::fan_in(inputs))?;
        Ok(Self { weight, bias })
    }
}

impl Block for Pointwise {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        flops::add(|| input.numel() as i64 * self.weight.size()[0]);
        input.f_conv1d(&self.weight, Some(&self.bias), [1], [0], [1], UNGROUPED)
    }
}

/// Every output channel sees every input channel.
const UNGROUPED: i64 = 1;
