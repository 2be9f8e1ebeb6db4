//! Deep Speech 2 (Amodei et al., ICML 2016), laid out and named as in SeanNaren/deepspeech.pytorch: bidirectional, and so
//! without lookahead.
//!
//! All utterances of a batch are of one length, so nothing is packed or masked. The clipped ReLU is not computed in place,
//! as it is there, for tch has it between -1 and 1 alone.

use schema::catalog::{Deepspeech, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        convolution::{Conv2d, Rectangle},
        dense::Linear,
        init::Init,
        loss::connectionist_temporal_classification,
        norm::BatchNorm2d,
        parameters::{Parameters, Scope},
        recurrent::Lstm,
    },
    workload::{Block, Supervised},
};

/// Two convolutions, recurrent layers, head. Takes spectrograms `[samples, 1, frequencies, frames]` and gives logits
/// `[samples, frames / 2, alphabet]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Deepspeech,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Deepspeech { frequencies, frames: _, alphabet, letters: _, channels, layers, width } = model;
    let (channels, width) = (i64::from(channels), i64::from(width));
    let mut root = parameters.root();
    let mut convolutions = root.part("conv.seq_module");
    let first = Clipped::new(&mut convolutions, [0, 1], [1, channels], FIRST)?;
    convolutions.begin_link(1);
    let second = Clipped::new(&mut convolutions, [3, 4], [channels, channels], SECOND)?;
    let mut blocks: Vec<Box<dyn Link>> = vec![Box::new(first), Box::new(second), Box::new(Moments)];
    // Both convolutions halve the frequencies, rounding up.
    let mut inputs = i64::from(frequencies.div_ceil(4)) * channels;
    for layer in 0..layers {
        root.begin_link(blocks.len());
        blocks.push(Box::new(Recurrent::new(root.part("rnns").part(layer), layer > 0, inputs, width)?));
        inputs = width;
    }
    root.begin_link(blocks.len());
    let mut head = root.part("fc.0.module");
    blocks.push(Box::new(Head {
        norm: BatchNorm2d::new(head.part(0), width)?,
        output: Linear::unbiased(head.part(1), width, i64::from(alphabet), Init::fan_in(width))?,
    }));
    Ok(Supervised::new(parameters, blocks, connectionist_temporal_classification, optimizer))
}

/// Height is frequency, width is time.
const FIRST: Rectangle = Rectangle { kernel: [41, 11], stride: [2, 2], padding: [20, 5] };
const SECOND: Rectangle = Rectangle { kernel: [21, 11], stride: [2, 1], padding: [10, 5] };

/// A convolution with batch norm and a ReLU that ends at 20.
struct Clipped {
    layer: Conv2d,
    norm: BatchNorm2d,
}

impl Clipped {
    fn new(
        scope: &mut Scope<'_>,
        numbers: [u32; 2],
        [inputs, outputs]: [i64; 2],
        window: Rectangle,
    ) -> Result<Self, TchError> {
        let init = Init::fan_in(inputs * window.kernel.iter().product::<i64>());
        Ok(Self {
            layer: Conv2d::with_bias(scope.part(numbers[0]), inputs, outputs, window, init, init)?,
            norm: BatchNorm2d::new(scope.part(numbers[1]), outputs)?,
        })
    }
}

impl Block for Clipped {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.norm.forward(&self.layer.forward(input)?)?.f_clamp(0.0, 20.0)
    }
}

/// Makes one vector of all channels and frequencies of a moment: `[samples, time, channels * frequencies]`.
struct Moments;

impl Block for Moments {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        input.f_permute([0, 3, 1, 2])?.f_flatten(2, 3)
    }
}

/// Batch norm over all moments of all samples, but not before the first layer, and an LSTM both ways whose two outputs
/// are added.
struct Recurrent {
    norm: Option<BatchNorm2d>,
    lstm: Lstm,
    width: i64,
}

impl Recurrent {
    fn new(mut scope: Scope<'_>, normalised: bool, inputs: i64, width: i64) -> Result<Self, TchError> {
        let norm =
            normalised.then(|| BatchNorm2d::new(scope.part("batch_norm.module"), inputs)).transpose()?;
        Ok(Self { norm, lstm: Lstm::bidirectional(scope.part("rnn"), inputs, width)?, width })
    }
}

impl Block for Recurrent {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let normalised =
            self.norm.as_ref().map_or(Ok(input.shallow_clone()), |norm| each_moment(norm, input))?;
        let both = self.lstm.forward(&normalised)?;
        both.f_narrow(2, 0, self.width)?.f_add(&both.f_narrow(2, self.width, self.width)?)
    }
}

/// Runs a layer on `[samples * time, ..]` as deepspeech.pytorch does.
fn each_moment(layer: &impl Block, input: &Tensor) -> Result<Tensor, TchError> {
    let (samples, time, _) = input.size3()?;
    layer.forward(&input.f_flatten(0, 1)?)?.f_view([samples, time, -1])
}

struct Head {
    norm: BatchNorm2d,
    output: Linear,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.output.forward(&each_moment(&self.norm, input)?)
    }
}
