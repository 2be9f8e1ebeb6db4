//! A variational autoencoder (Kingma and Welling, ICLR 2014) as in pytorch/examples, under its names: an image becomes the
//! mean and variance of a few numbers, and numbers drawn from there become an image.

use schema::catalog::{Optimizer, Vae};
use tch::{Reduction, TchError, Tensor};

use crate::{
    chain::Link,
    nn::{dense::Linear, parameters::Parameters, precision::at_least_fp32, relu_in_place},
    workload::{Block, Supervised},
};

/// Encoder, decoder. Takes `[samples, 1, image, image]` and gives, for each sample, the logits of all pixels, then the
/// means and the logarithms of the variances of the latent numbers.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Vae,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Vae { image, hidden, latent } = model;
    let (pixels, hidden, latent) = (i64::from(image) * i64::from(image), hidden.into(), latent.into());
    let mut root = parameters.root();
    let encoder = Encoder {
        hidden: Linear::new(root.part("fc1"), pixels, hidden)?,
        mean: Linear::new(root.part("fc21"), hidden, latent)?,
        log_variance: Linear::new(root.part("fc22"), hidden, latent)?,
    };
    root.begin_link(1);
    let decoder = Decoder {
        hidden: Linear::new(root.part("fc3"), latent, hidden)?,
        logits: Linear::new(root.part("fc4"), hidden, pixels)?,
        draws: !root.is_exact(),
    };
    let links: Vec<Box<dyn Link>> = vec![Box::new(encoder), Box::new(decoder)];
    Ok(Supervised::new(parameters, links, negative_evidence_bound, optimizer))
}

struct Encoder {
    hidden: Linear,
    mean: Linear,
    log_variance: Linear,
}

impl Block for Encoder {
    /// Gives means, then logarithms of variances, side by side in one row.
    fn forward(&self, images: &Tensor) -> Result<Tensor, TchError> {
        let hidden = relu_in_place(self.hidden.forward(&images.f_flatten(1, -1)?)?)?;
        Tensor::f_cat(&[self.mean.forward(&hidden)?, self.log_variance.forward(&hidden)?], 1)
    }
}

struct Decoder {
    hidden: Linear,
    logits: Linear,
    /// In an exact model the means stand for what would be drawn.
    draws: bool,
}

impl Block for Decoder {
    /// Draws from the distributions with torch's generator, and passes them by for the loss.
    fn forward(&self, row: &Tensor) -> Result<Tensor, TchError> {
        let halves = row.f_chunk(2, 1)?;
        let drawn = if self.draws {
            let deviation = halves[1].f_mul_scalar(0.5)?.f_exp()?;
            deviation.f_randn_like()?.f_mul(&deviation)?.f_add(&halves[0])?
        } else {
            halves[0].shallow_clone()
        };
        let logits = self.logits.forward(&relu_in_place(self.hidden.forward(&drawn)?)?)?;
        Tensor::f_cat(&[&logits, row], 1)
    }
}

/// What the paper's equation 10 maximises, negated, for a sample: the binary cross entropy summed over its pixels, and how
/// far the distributions are from standard normal ones (appendix B). In nats, in fp32 at least, also where autocast made bf16.
fn negative_evidence_bound(output: &Tensor, images: &Tensor) -> Result<Tensor, TchError> {
    let output = at_least_fp32(output)?;
    let images = images.f_flatten(1, -1)?;
    let (samples, pixels) = images.size2()?;
    let latent = (output.size()[1] - pixels) / 2;
    let entropy = output.f_narrow(1, 0, pixels)?.f_binary_cross_entropy_with_logits(
        &images,
        None::<&Tensor>,
        None::<&Tensor>,
        Reduction::Sum,
    )?;
    let (mean, log_variance) =
        (output.f_narrow(1, pixels, latent)?, output.f_narrow(1, pixels + latent, latent)?);
    let terms = mean.f_square()?.f_add(&log_variance.f_exp()?)?.f_sub(&log_variance)?.f_sub_scalar(1.0)?;
    entropy.f_add(&terms.f_sum(None)?.f_mul_scalar(0.5)?)?.f_div_scalar(samples as f64)
}
