//! Synthetic samples that can be learnt, so that a falling loss shows that training works.
//!
//! They have their own random generator: torch's generator decides initial weights and dropout alone.

mod answers;
mod clouds;
mod images;
mod language;
mod masked;
mod pairs;
mod ratings;
mod spans;
mod strokes;
mod tokens;
mod translations;
mod utterances;

use std::iter::repeat_with;

use fastrand::Rng;
use schema::catalog::Samples;
use tch::{Device, TchError, Tensor};

use super::{DataError, in_order::InOrder, pool::Pool};

/// The endless stream of samples.
///
/// # Errors
/// Out of memory; `Unsupported` for a model that this worker does not train.
pub(super) fn stream(samples: Samples, seed: u64, device: Device) -> Result<InOrder<Pool>, DataError> {
    let rng = &mut Rng::with_seed(seed);
    let (inputs, targets) = match samples {
        Samples::LabelledImages { channels, side, classes } => {
            images::labelled(rng, classes, channels, side)?
        }
        Samples::NoiseAndImages { latent, channels, side } => {
            let (images, _labels) = images::labelled(rng, images::CLASSES_USED, channels, side)?;
            (noise(rng, images.size()[0], i64::from(latent))?, images)
        }
        Samples::Tokens { vocabulary, context } => tokens::markov_chain(rng, vocabulary, context)?,
        Samples::MaskedPairs { vocabulary, context } => masked::pairs(rng, vocabulary, context)?,
        Samples::MaskedTokens { vocabulary, context } => masked::texts(rng, vocabulary, context)?,
        Samples::Answers { vocabulary, context } => answers::questions(rng, vocabulary, context)?,
        Samples::Translations { vocabulary, source, target } => {
            translations::translations(rng, vocabulary, source, target)?
        }
        Samples::Spans { vocabulary, source, target } => spans::spans(rng, vocabulary, source, target)?,
        Samples::Ratings { users, items } => ratings::implicit(rng, users, items)?,
        Samples::PointClouds { points, classes } => clouds::labelled(rng, points, classes)?,
        Samples::GreyImages { side } => strokes::images(rng, side)?,
        Samples::ImagePairs { side, upscale } => pairs::small_and_large(rng, side, upscale)?,
        Samples::Utterances { frequencies, frames, alphabet, letters } => {
            utterances::spoken(rng, [frequencies, frames], alphabet, letters)?
        }
        Samples::Transitions => {
            return Err(DataError::Unsupported("the model makes its samples by acting".into()));
        }
        Samples::Nothing => {
            return Err(DataError::Unsupported("the synthetic worker's model takes no samples".into()));
        }
    };
    Ok(InOrder::new(Pool::new(inputs.f_to(device)?, targets.f_to(device)?)))
}

/// Inputs and targets, with one sample per index of the first dimension.
type Pairs = Result<(Tensor, Tensor), TchError>;

/// The number of samples of a pool: small beside a model, and a power of two, so that usual batches divide
/// it.
fn pool_samples(sample_bytes: usize) -> usize {
    const POOL_BYTES: usize = 40 << 20;
    const SAMPLES_MAX: usize = 1024;
    1 << (POOL_BYTES / sample_bytes).clamp(1, SAMPLES_MAX).ilog2()
}

/// The input of a generator: `[samples, latent, 1, 1]`, standard normal.
fn noise(rng: &mut Rng, samples: i64, latent: i64) -> Result<Tensor, TchError> {
    let values: Vec<f32> = repeat_with(|| normal(rng)).take((samples * latent) as usize).collect();
    Tensor::f_from_slice(&values)?.f_reshape([samples, latent, 1, 1])
}

/// A number from the standard normal distribution: Box and Muller, 1958.
pub(crate) fn normal(rng: &mut Rng) -> f32 {
    // The logarithm needs a number above zero.
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    (radius * (std::f64::consts::TAU * rng.f64()).cos()) as f32
}

#[cfg(test)]
mod tests {
    use schema::catalog::{Catalog, Workload};

    use super::*;
    use crate::workload::{Batch, DataStream};

    /// Samples for a workload of the catalog.
    pub(super) fn samples(name: &str, seed: u64) -> Batch {
        let catalog = Catalog::embedded();
        let model = &catalog.get(name).unwrap().model;
        stream(model.samples(), seed, Device::Cpu).unwrap().next(256).unwrap()
    }

    pub(super) fn range(tensor: &Tensor) -> (f64, f64) {
        (tensor.min().double_value(&[]), tensor.max().double_value(&[]))
    }

    #[test]
    fn a_seed_gives_the_same_samples_to_the_last_bit_and_another_seed_others() {
        let is_drawn = |workload: &&Workload| workload.model.samples() != Samples::Transitions;
        for Workload { name, .. } in Catalog::embedded().set("quick").filter(is_drawn) {
            let (first, again, other) = (samples(name, 1), samples(name, 1), samples(name, 2));
            assert!(first.inputs == again.inputs && first.targets == again.targets, "{name}");
            assert!(first.inputs != other.inputs && first.targets != other.targets, "{name}");
        }
    }
}
