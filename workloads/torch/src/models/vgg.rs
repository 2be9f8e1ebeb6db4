//! VGG (Simonyan and Zisserman, ICLR 2015), laid out and named as torchvision does.

use schema::catalog::{Optimizer, Vgg};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        convolution::{Conv2d, Window},
        dense::Linear,
        dropout::Dropout,
        init::Init,
        loss::cross_entropy,
        norm::BatchNorm2d,
        parameters::Parameters,
        relu_in_place,
    },
    workload::{Block, Supervised},
};

/// Convolutions, then linear layers. Takes `[samples, 3, height, width]` and gives `[samples, classes]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Vgg,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    const COLOURS: i64 = 3;
    let mut root = parameters.root();
    let mut features = root.part("features");
    let mut blocks: Vec<Box<dyn Link>> = Vec::new();
    let mut channels = COLOURS;
    // Numbers in names count the reference's modules: convolution, norm where there is one, activation, max-pool.
    let mut place = 0;
    for stage in &model.stages {
        for (index, &outputs) in stage.iter().enumerate() {
            let (outputs, window) = (i64::from(outputs), Window::centred(3, 1));
            let init = Init::fan_out_normal(outputs * window.kernel * window.kernel);
            features.begin_link(blocks.len());
            let scope = features.part(place);
            let convolution = Conv2d::with_bias(scope, channels, outputs, window, init, Init::ZEROS)?;
            let norm =
                model.batch_norm.then(|| BatchNorm2d::new(features.part(place + 1), outputs)).transpose()?;
            place += if model.batch_norm { 3 } else { 2 };
            blocks.push(Box::new(Convolution { convolution, norm, pools: index + 1 == stage.len() }));
            channels = outputs;
        }
        place += 1;
    }
    blocks.push(Box::new(Flatten { side: i64::from(model.pool) }));

    let mut classifier = root.part("classifier");
    let mut width = channels * i64::from(model.pool).pow(2);
    // Linear layer, activation, dropout.
    for (index, &outputs) in model.hidden.iter().enumerate() {
        let outputs = i64::from(outputs);
        classifier.begin_link(blocks.len());
        let linear = Linear::with_init(classifier.part(3 * index), width, outputs, Init::normal(0.01))?;
        blocks.push(Box::new(Hidden { linear, dropout: Dropout(model.dropout) }));
        width = outputs;
    }
    classifier.begin_link(blocks.len());
    let (place, classes) = (3 * model.hidden.len(), i64::from(model.classes));
    blocks.push(Box::new(Linear::with_init(classifier.part(place), width, classes, Init::normal(0.01))?));
    Ok(Supervised::new(parameters, blocks, cross_entropy, optimizer))
}

/// A convolution with its activation, and the max-pool behind it where it is a stage's last.
struct Convolution {
    convolution: Conv2d,
    norm: Option<BatchNorm2d>,
    pools: bool,
}

impl Block for Convolution {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let output = self.convolution.forward(input)?;
        let output = match &self.norm {
            Some(norm) => norm.forward(&output)?,
            None => output,
        };
        let activation = relu_in_place(output)?;
        if self.pools {
            activation.f_max_pool2d([2, 2], [2, 2], [0, 0], [1, 1], false)
        } else {
            Ok(activation)
        }
    }
}

/// Averages to an image of one size whatever the input's, and makes a vector of it.
struct Flatten {
    side: i64,
}

impl Block for Flatten {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        input.f_adaptive_avg_pool2d([self.side; 2])?.f_flatten(1, -1)
    }
}

struct Hidden {
    linear: Linear,
    dropout: Dropout,
}

impl Block for Hidden {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.dropout.forward(&relu_in_place(self.linear.forward(input)?)?)
    }
}
