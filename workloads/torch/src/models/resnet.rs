//! Residual networks (He et al., CVPR 2016), and ResNeXts (Xie et al., CVPR 2017), whose bottlenecks are grouped; laid out
//! and named as torchvision does.

use schema::catalog::{Optimizer, Resnet, ResnetBlock, ResnetStem};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        activation::Activation,
        conv_norm::{ConvNorm, Shape},
        dense::Linear,
        loss::cross_entropy,
        parameters::{Parameters, Scope},
        relu_in_place,
    },
    workload::{Block, Supervised},
};

/// Stem, residual blocks in four stages, head. Takes `[samples, 3, height, width]` and gives `[samples, classes]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Resnet,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Resnet { block, layers, stem, width, groups, classes, .. } = model;
    let (width, inner_width) = (i64::from(width), i64::from(model.inner_width()));
    let mut root = parameters.root();
    let mut blocks: Vec<Box<dyn Link>> = vec![Box::new(Stem::new(&mut root, stem, width)?)];
    let mut channels = width;
    for (stage, count) in layers.into_iter().enumerate() {
        let mut scope = root.part(format_args!("layer{}", stage + 1));
        for index in 0..count {
            // Each stage but the first halves the image and doubles the widths.
            let sizes = Sizes {
                inputs: channels,
                inner: inner_width << stage,
                width: width << stage,
                stride: if stage > 0 && index == 0 { 2 } else { 1 },
                groups: i64::from(groups),
            };
            scope.begin_link(blocks.len());
            let residual = Residual::new(scope.part(index), block, sizes)?;
            channels = residual.channels;
            blocks.push(Box::new(residual));
        }
    }
    root.begin_link(blocks.len());
    blocks.push(Box::new(Head { fc: Linear::new(root.part("fc"), channels, i64::from(classes))? }));
    Ok(Supervised::new(parameters, blocks, cross_entropy, optimizer))
}

const RELU: Option<Activation> = Some(Activation::Relu);

struct Stem {
    layer: ConvNorm,
    pools: bool,
}

impl Stem {
    fn new(root: &mut Scope<'_>, stem: ResnetStem, channels: i64) -> Result<Self, TchError> {
        const COLOURS: i64 = 3;
        let (kernel, stride, pools) = match stem {
            ResnetStem::Imagenet => (7, 2, true),
            ResnetStem::Cifar => (3, 1, false),
        };
        let shape = Shape { inputs: COLOURS, outputs: channels, kernel, stride, groups: 1 };
        Ok(Self { layer: ConvNorm::new(root, ["conv1", "bn1"], shape, RELU)?, pools })
    }
}

impl Block for Stem {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let activation = self.layer.forward(input)?;
        if self.pools {
            activation.f_max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false)
        } else {
            Ok(activation)
        }
    }
}

/// Convolutions beside a shortcut, which is a convolution itself where the shape changes.
struct Residual {
    layers: Vec<ConvNorm>,
    downsample: Option<ConvNorm>,
    /// Of the output.
    channels: i64,
}

/// Of a residual block.
struct Sizes {
    inputs: i64,
    /// Channels of the 3x3 convolution of a bottleneck.
    inner: i64,
    /// Channels of the output, before a bottleneck's last convolution widens it.
    width: i64,
    stride: i64,
    groups: i64,
}

impl Residual {
    fn new(mut scope: Scope<'_>, block: ResnetBlock, sizes: Sizes) -> Result<Self, TchError> {
        let Sizes { inputs, inner, width, stride, groups } = sizes;
        let mut layer = |number: usize, shape, activation| {
            let names = [format!("conv{number}"), format!("bn{number}")];
            ConvNorm::new(&mut scope, [&names[0], &names[1]], shape, activation)
        };
        let square = |inputs, outputs, stride, groups| Shape { inputs, outputs, kernel: 3, stride, groups };
        let (layers, channels) = match block {
            ResnetBlock::Basic => (
                vec![
                    layer(1, square(inputs, width, stride, 1), RELU)?,
                    layer(2, square(width, width, 1, 1), None)?,
                ],
                width,
            ),
            // The stride is that of the 3x3 convolution, as in torchvision and unlike in the paper.
            ResnetBlock::Bottleneck => (
                vec![
                    layer(1, Shape::pointwise(inputs, inner), RELU)?,
                    layer(2, square(inner, inner, stride, groups), RELU)?,
                    layer(3, Shape::pointwise(inner, 4 * width), None)?,
                ],
                4 * width,
            ),
        };
        let shape = Shape { stride, ..Shape::pointwise(inputs, channels) };
        let downsample = (stride != 1 || inputs != channels)
            .then(|| ConvNorm::new(&mut scope.part("downsample"), ["0", "1"], shape, None))
            .transpose()?;
        Ok(Self { layers, downsample, channels })
    }
}

impl Block for Residual {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (last, rest) = self.layers.split_last().expect("a block has two or three layers");
        let inner = rest.iter().try_fold(input.shallow_clone(), |x, layer| layer.forward(&x))?;
        let shortcut =
            self.downsample.as_ref().map_or(Ok(input.shallow_clone()), |layer| layer.forward(input))?;
        relu_in_place(last.forward(&inner)?.f_add_(&shortcut)?)
    }
}

/// The mean over the image, then a linear layer.
struct Head {
    fc: Linear,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.fc.forward(&input.f_mean_dim([2, 3].as_slice(), false, None)?)
    }
}
