//! Super-resolution by sub-pixel convolution (Shi et al., CVPR 2016) as in pytorch/examples, under its names.

use schema::catalog::{Espcn, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        convolution::{Conv2d, Window},
        init::Init,
        loss::mean_squared_error,
        parameters::Parameters,
        relu_in_place,
    },
    workload::{Block, Supervised},
};

/// Three convolutions and the one that enlarges. Takes `[samples, 1, side, side]` and gives an image whose sides are
/// `upscale` times as long.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Espcn,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    const GREY: i64 = 1;
    let &Espcn { image: _, upscale, widths } = model;
    let upscale = i64::from(upscale);
    let mut root = parameters.root();
    let mut convolution = |number: usize, inputs: i64, outputs: i64, gain: f64| {
        let kernel = if number == 1 { 5 } else { 3 };
        root.begin_link(number - 1);
        let (init, bias_init) = (Init::Orthogonal { gain }, Init::fan_in(inputs * kernel * kernel));
        let window = Window { kernel, stride: 1, padding: kernel / 2 };
        Conv2d::with_bias(root.part(format_args!("conv{number}")), inputs, outputs, window, init, bias_init)
    };
    let mut blocks: Vec<Box<dyn Link>> = Vec::new();
    let mut channels = GREY;
    for (index, width) in widths.into_iter().map(i64::from).enumerate() {
        // A ReLU halves the mean square of its input.
        let layer = convolution(index + 1, channels, width, 2.0_f64.sqrt())?;
        blocks.push(Box::new(Rectified { layer }));
        channels = width;
    }
    let layer = convolution(widths.len() + 1, channels, upscale * upscale, 1.0)?;
    blocks.push(Box::new(Enlarged { layer, upscale }));
    Ok(Supervised::new(parameters, blocks, mean_squared_error, optimizer))
}

struct Rectified {
    layer: Conv2d,
}

impl Block for Rectified {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        relu_in_place(self.layer.forward(input)?)
    }
}

/// The channels of each pixel become a square of pixels.
struct Enlarged {
    layer: Conv2d,
    upscale: i64,
}

impl Block for Enlarged {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.layer.forward(input)?.f_pixel_shuffle(self.upscale)
    }
}
