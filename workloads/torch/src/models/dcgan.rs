//! DCGAN (Radford, Metz and Chintala, ICLR 2016), as in pytorch/examples: a generator makes images from noise, a
//! discriminator tells them from real ones, and a step is one update of each.
//!
//! Floating-point operations of a step, for the forward passes D and G of one sample: a backward pass costs one
//! forward pass for the gradients of activations and one for those of weights.
//! - The discriminator learns: D on the real image and D on the fake one, forward and both gradients: 2 * 3 D.
//! - The generator learns: G forward and both gradients, 3 G; D on the fake image forward, and of its backward pass only
//!   the gradients of activations, as its weights stand still: 2 D.
//!
//! Together 8 D + 3 G. The fake images of both updates are the same, made once.

use std::cell::RefCell;

use schema::catalog::{self, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    chain::{Chain, Link},
    nn::{
        convolution::{Conv2d, ConvTranspose2d, Window},
        init::Init,
        loss::binary_cross_entropy,
        norm::BatchNorm2d,
        parameters::{Parameters, Scope},
        precision::at_least_fp32,
        relu_in_place,
    },
    shim::activation::leaky_relu_in_place,
    workload::{Batch, Block, Update, Workload},
};

/// Both networks. A batch holds noise, `[samples, latent, 1, 1]`, and real images with values from -1 to 1.
pub(super) struct Dcgan {
    parameters: Parameters,
    generator: Chain,
    discriminator: Chain,
    updates: [Update; 2],
    /// What the generator last made, with its graph, and from which noise.
    kept: RefCell<Option<Fakes>>,
}

struct Fakes {
    noise: Tensor,
    images: Tensor,
}

/// Number of the discriminator's update; the generator's comes after it.
const DISCRIMINATOR: usize = 0;

/// Both networks double or halve the image with such a window.
const HALVING: Window = Window { kernel: 4, stride: 2, padding: 1 };
/// The smallest image inside the networks, 4x4, comes from one point and becomes one again.
const WHOLE: Window = Window { kernel: 4, stride: 1, padding: 0 };
const WEIGHTS: Init = Init::Normal { mean: 0.0, deviation: 0.02 };
const SCALES: Init = Init::Normal { mean: 1.0, deviation: 0.02 };

/// Both networks and their updates.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &catalog::Dcgan,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Dcgan, TchError> {
    let &catalog::Dcgan { latent, generator_width, discriminator_width, channels, image } = model;
    // From 4x4, the last of them in the layer that makes colours.
    let halvings = image.ilog2() - 2;
    let mut root = parameters.root();
    let generator = generator(
        root.part("generator").part("main"),
        i64::from(latent),
        i64::from(generator_width),
        i64::from(channels),
        halvings,
    )?;
    let discriminator = discriminator(
        root.part("discriminator").part("main"),
        i64::from(discriminator_width),
        i64::from(channels),
        halvings,
    )?;
    let update = |name, parameter_prefix| Update { name, parameter_prefix, optimizer };
    Ok(Dcgan {
        parameters,
        generator: Chain::new(generator),
        discriminator: Chain::new(discriminator),
        updates: [update("discriminator", "discriminator."), update("generator", "generator.")],
        kept: RefCell::new(None),
    })
}

impl Dcgan {
    /// The mean loss if the discriminator should hold `images` for real, or not.
    fn judge(&self, images: &Tensor, real: bool) -> Result<Tensor, TchError> {
        let logits = self.discriminator.forward(images)?;
        let probability = f64::from(u8::from(real));
        let truth = at_least_fp32(&logits)?.f_full_like(probability)?;
        binary_cross_entropy(&logits, &truth)
    }
}

impl Workload for Dcgan {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.updates
    }

    fn loss(&self, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        let kept = self.kept.take();
        if update == DISCRIMINATOR {
            // The last micro-batch's images would only take up memory now.
            drop(kept);
            let images = self.generator.forward(&batch.inputs)?;
            let loss = self.judge(&batch.targets, true)?.f_add(&self.judge(&images.detach(), false)?)?;
            self.kept.replace(Some(Fakes { noise: batch.inputs.shallow_clone(), images }));
            return Ok(loss);
        }
        // With several micro-batches all graphs of G would have to be kept, and saving that memory is what they are
        // for; so then the images are made again.
        let images = match kept {
            Some(fakes) if fakes.noise.data_ptr() == batch.inputs.data_ptr() => fakes.images,
            _ => self.generator.forward(&batch.inputs)?,
        };
        self.judge(&images, true)
    }

    /// The first update runs D twice and G once, the second runs D on the same fake image.
    fn step_operations(&self, forward: &[u64]) -> u64 {
        let &[both, discriminator] = forward else { unreachable!("there are two updates") };
        8 * discriminator + 3 * (both - 2 * discriminator)
    }
}

fn generator(
    mut scope: Scope<'_>,
    latent: i64,
    width: i64,
    channels: i64,
    halvings: u32,
) -> Result<Vec<Box<dyn Link>>, TchError> {
    let mut blocks: Vec<Box<dyn Link>> = Vec::new();
    let mut inputs = latent;
    // Numbers in names count the reference's modules: convolution, norm and activation.
    for index in 0..halvings {
        let outputs = width << (halvings - 1 - index);
        let window = if index == 0 { WHOLE } else { HALVING };
        blocks.push(Box::new(Enlarge {
            convolution: ConvTranspose2d::new(scope.part(3 * index), inputs, outputs, window, WEIGHTS)?,
            norm: BatchNorm2d::with_init(scope.part(3 * index + 1), outputs, SCALES)?,
        }));
        inputs = outputs;
    }
    let to_colours = ConvTranspose2d::new(scope.part(3 * halvings), inputs, channels, HALVING, WEIGHTS)?;
    blocks.push(Box::new(Paint { convolution: to_colours }));
    Ok(blocks)
}

struct Enlarge {
    convolution: ConvTranspose2d,
    norm: BatchNorm2d,
}

impl Block for Enlarge {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        relu_in_place(self.norm.forward(&self.convolution.forward(input)?)?)
    }
}

struct Paint {
    convolution: ConvTranspose2d,
}

impl Block for Paint {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.convolution.forward(input)?.f_tanh_()
    }
}

fn discriminator(
    mut scope: Scope<'_>,
    width: i64,
    channels: i64,
    halvings: u32,
) -> Result<Vec<Box<dyn Link>>, TchError> {
    let mut blocks: Vec<Box<dyn Link>> = Vec::new();
    let mut inputs = channels;
    // As in the reference the first layer has no norm, so what follows it is numbered from 2.
    for index in 0..halvings {
        let outputs = width << index;
        let place = if index == 0 { 0 } else { 3 * index - 1 };
        let convolution = Conv2d::new(scope.part(place), inputs, outputs, HALVING, WEIGHTS)?;
        let norm = (index > 0)
            .then(|| BatchNorm2d::with_init(scope.part(place + 1), outputs, SCALES))
            .transpose()?;
        blocks.push(Box::new(Shrink { convolution, norm }));
        inputs = outputs;
    }
    let to_logit = Conv2d::new(scope.part(3 * halvings - 1), inputs, 1, WHOLE, WEIGHTS)?;
    blocks.push(Box::new(to_logit));
    Ok(blocks)
}

struct Shrink {
    convolution: Conv2d,
    norm: Option<BatchNorm2d>,
}

impl Block for Shrink {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let output = self.convolution.forward(input)?;
        let output = match &self.norm {
            Some(norm) => norm.forward(&output)?,
            None => output,
        };
        const SLOPE: f64 = 0.2;
        leaky_relu_in_place(output, SLOPE)
    }
}
