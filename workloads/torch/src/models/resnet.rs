//! Residual networks (He et al., CVPR 2016), laid out and named as torchvision does.

use schema::catalog::{Optimizer, Resnet, ResnetBlock, ResnetStem};
use tch::{TchError, Tensor};

use crate::{
    nn::{
        convolution::{Conv2d, Window},
        dense::Linear,
        init::Init,
        loss::cross_entropy,
        norm::BatchNorm2d,
        parameters::{Parameters, Scope},
        relu_in_place,
    },
    workload::{Block, Sequential, Supervised},
};

/// Stem, residual blocks in four groups, head. Takes `[samples, 3, height, width]` and gives `[samples, classes]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Resnet,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    const STEM_CHANNELS: i64 = 64;
    let &Resnet { block, layers, stem, classes, image: _ } = model;
    let mut root = parameters.root();
    let mut blocks: Vec<Box<dyn Block>> = vec![Box::new(Stem::new(&mut root, stem, STEM_CHANNELS)?)];
    let mut channels = STEM_CHANNELS;
    for (group, count) in layers.into_iter().enumerate() {
        // Each group but the first halves the image and doubles the width.
        let width = STEM_CHANNELS << group;
        let mut scope = root.part(format_args!("layer{}", group + 1));
        for index in 0..count {
            let stride = if group > 0 && index == 0 { 2 } else { 1 };
            let residual = Residual::new(scope.part(index), block, channels, width, stride)?;
            channels = residual.channels;
            blocks.push(Box::new(residual));
        }
    }
    blocks.push(Box::new(Head { fc: Linear::new(root.part("fc"), channels, i64::from(classes))? }));
    Ok(Supervised::new(parameters, Sequential::new(blocks), cross_entropy, optimizer))
}

/// A convolution that keeps the size at stride 1, and the batch norm behind it.
struct ConvNorm {
    convolution: Conv2d,
    norm: BatchNorm2d,
}

impl ConvNorm {
    /// Registers the two under the names given, as `conv1` and `bn1`.
    fn new(
        scope: &mut Scope<'_>,
        names: [&str; 2],
        [inputs, outputs]: [i64; 2],
        kernel: i64,
        stride: i64,
    ) -> Result<Self, TchError> {
        let window = Window { kernel, stride, padding: kernel / 2 };
        let init = Init::fan_out_normal(outputs * kernel * kernel);
        let [convolution, norm] = names;
        Ok(Self {
            convolution: Conv2d::new(scope.part(convolution), inputs, outputs, window, init)?,
            norm: BatchNorm2d::new(scope.part(norm), outputs)?,
        })
    }

    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.norm.forward(&self.convolution.forward(input)?)
    }
}

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
        Ok(Self { layer: ConvNorm::new(root, ["conv1", "bn1"], [COLOURS, channels], kernel, stride)?, pools })
    }
}

impl Block for Stem {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let activation = relu_in_place(self.layer.forward(input)?)?;
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

impl Residual {
    fn new(
        mut scope: Scope<'_>,
        block: ResnetBlock,
        inputs: i64,
        width: i64,
        stride: i64,
    ) -> Result<Self, TchError> {
        let mut layers = Vec::new();
        let mut layer = |number: usize, channels, kernel, stride| {
            let names = [format!("conv{number}"), format!("bn{number}")];
            layers.push(ConvNorm::new(&mut scope, [&names[0], &names[1]], channels, kernel, stride)?);
            Ok::<_, TchError>(())
        };
        let channels = match block {
            ResnetBlock::Basic => {
                layer(1, [inputs, width], 3, stride)?;
                layer(2, [width, width], 3, 1)?;
                width
            }
            // The stride is that of the 3x3 convolution, as in torchvision and unlike in the paper.
            ResnetBlock::Bottleneck => {
                layer(1, [inputs, width], 1, 1)?;
                layer(2, [width, width], 3, stride)?;
                layer(3, [width, 4 * width], 1, 1)?;
                4 * width
            }
        };
        let downsample = (stride != 1 || inputs != channels)
            .then(|| ConvNorm::new(&mut scope.part("downsample"), ["0", "1"], [inputs, channels], 1, stride))
            .transpose()?;
        Ok(Self { layers, downsample, channels })
    }
}

impl Block for Residual {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (last, rest) = self.layers.split_last().expect("a block has two or three layers");
        let inner =
            rest.iter().try_fold(input.shallow_clone(), |x, layer| relu_in_place(layer.forward(&x)?))?;
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
