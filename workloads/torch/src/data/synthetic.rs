//! Synthetic samples with something to learn in them, so that a falling loss shows that training works.
//!
//! They come from a generator of their own: torch's generator decides initial weights and dropout alone.

use std::iter::repeat_with;

use fastrand::Rng;
use schema::catalog::Model;
use tch::{Device, TchError, Tensor};

use super::{DataError, pool::Pool};
use crate::nn::channels_last;

/// The endless stream of a model's samples.
///
/// # Errors
/// Out of memory; `Unsupported` for a model that is not ours to train.
pub(super) fn stream(model: &Model, seed: u64, device: Device) -> Result<Pool, DataError> {
    let rng = &mut Rng::with_seed(seed);
    let (inputs, targets) = match *model {
        Model::Resnet { classes, image, .. } => labelled_images(rng, classes, 3, image)?,
        Model::Dcgan { latent, channels, image, .. } => {
            let (images, _labels) = labelled_images(rng, CLASSES_USED, channels, image)?;
            (noise(rng, images.size()[0], i64::from(latent))?, images)
        }
        Model::Gpt2 { vocabulary, context, .. } | Model::LstmLm { vocabulary, context, .. } => {
            sequences(rng, vocabulary, context)?
        }
        Model::Neumf { users, items, .. } => ratings(rng, users, items)?,
        Model::Synthetic(_) => {
            return Err(DataError::Unsupported("the synthetic worker's model takes no samples".into()));
        }
    };
    Ok(Pool::new(inputs.f_to(device)?, targets.f_to(device)?))
}

type Samples = Result<(Tensor, Tensor), TchError>;

/// Images are drawn from so many classes, also where the model knows more: ten steps show each one several times.
const CLASSES_USED: u32 = 4;

/// As many samples as stay small beside a model, and a power of two, so that usual batches divide the pool.
fn pool_samples(sample_bytes: usize) -> usize {
    const POOL_BYTES: usize = 40 << 20;
    const SAMPLES_MAX: usize = 1024;
    1 << (POOL_BYTES / sample_bytes).clamp(1, SAMPLES_MAX).ilog2()
}

/// Images of a coarse pattern of colours for each class, under noise; values are mostly between -1 and 1.
///
/// Gives `[samples, channels, image, image]`, channels-last, and labels `[samples]`.
fn labelled_images(rng: &mut Rng, classes: u32, channels: u32, image: u32) -> Samples {
    /// Side of the pattern, in patches of one colour.
    const PATCHES: usize = 2;
    const NOISE: f32 = 0.5;
    let (side, channels) = (image as usize, channels as usize);
    let samples = pool_samples(side * side * channels * size_of::<f32>());
    let classes = classes.clamp(1, CLASSES_USED) as usize;
    let patterns: Vec<f32> =
        repeat_with(|| rng.f32() - 0.5).take(classes * PATCHES * PATCHES * channels).collect();

    let mut labels = Vec::with_capacity(samples);
    let mut pixels = Vec::with_capacity(samples * side * side * channels);
    for _ in 0..samples {
        let class = rng.usize(..classes);
        labels.push(class as i64);
        for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
            let (row, column) = (y * PATCHES / side, x * PATCHES / side);
            let patch = ((class * PATCHES + row) * PATCHES + column) * channels;
            for colour in &patterns[patch..patch + channels] {
                pixels.push(colour + NOISE * (rng.f32() - 0.5));
            }
        }
    }
    let shape = [samples, side, side, channels].map(|size| size as i64);
    // The pixels were written channels-last; seen as channels-first they are what `channels_last` makes.
    let images = Tensor::f_from_slice(&pixels)?.f_reshape(shape)?.f_permute([0, 3, 1, 2])?;
    Ok((channels_last(&images)?, Tensor::f_from_slice(&labels)?))
}

/// What a generator starts from: `[samples, latent, 1, 1]`, standard normal.
pub(super) fn noise(rng: &mut Rng, samples: i64, latent: i64) -> Result<Tensor, TchError> {
    let values: Vec<f32> = repeat_with(|| normal(rng)).take((samples * latent) as usize).collect();
    Tensor::f_from_slice(&values)?.f_reshape([samples, latent, 1, 1])
}

/// Box and Muller, 1958.
fn normal(rng: &mut Rng) -> f32 {
    // The logarithm needs a number above zero.
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    (radius * (std::f64::consts::TAU * rng.f64()).cos()) as f32
}

/// Sequences from a Markov chain in which each token has but four successors, drawn like words of a language: the k-th
/// most frequent with a probability proportional to 1/k (Zipf's law). First the frequencies can be learnt, then the
/// successors.
///
/// Gives tokens `[samples, context]` and, for each, the token that follows.
fn sequences(rng: &mut Rng, vocabulary: u32, context: u32) -> Samples {
    const SUCCESSORS: usize = 4;
    let zipf = |rng: &mut Rng| (f64::from(vocabulary).powf(rng.f64()) as u32 - 1).min(vocabulary - 1);
    let successors: Vec<u32> = repeat_with(|| zipf(rng)).take(vocabulary as usize * SUCCESSORS).collect();

    let length = context as usize;
    let samples = pool_samples(2 * length * size_of::<i64>());
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    let mut token = zipf(rng);
    for _ in 0..samples * length {
        inputs.push(i64::from(token));
        token = successors[token as usize * SUCCESSORS + rng.usize(..SUCCESSORS)];
        targets.push(i64::from(token));
    }
    let shape = [samples as i64, i64::from(context)];
    Ok((Tensor::f_from_slice(&inputs)?.f_reshape(shape)?, Tensor::f_from_slice(&targets)?.f_reshape(shape)?))
}

/// Implicit feedback: one item that a user chose for every four that were drawn at random, as the paper of NeuMF samples.
/// A user chooses, of some items at random, the one whose hidden taste is nearest to his own.
///
/// Gives pairs (user, item), `[samples, 2]`, and 1 for chosen or 0, `[samples]`.
fn ratings(rng: &mut Rng, users: u32, items: u32) -> Samples {
    const SAMPLES: usize = 1 << 16;
    const PER_CHOICE: usize = 5;
    const CANDIDATES: usize = 16;
    let mut tastes = |count: u32| -> Vec<[f32; 2]> {
        repeat_with(|| [normal(rng), normal(rng)]).take(count as usize).collect()
    };
    let (of_users, of_items) = (tastes(users), tastes(items));

    let (mut pairs, mut chosen) = (Vec::with_capacity(2 * SAMPLES), Vec::with_capacity(SAMPLES));
    for _ in 0..SAMPLES {
        let user = rng.u32(..users);
        let is_choice = rng.usize(..PER_CHOICE) == 0;
        let liking = |item: &u32| {
            let (a, b) = (of_users[user as usize], of_items[*item as usize]);
            a[0] * b[0] + a[1] * b[1]
        };
        let item = if is_choice {
            let candidates: Vec<u32> = repeat_with(|| rng.u32(..items)).take(CANDIDATES).collect();
            candidates.into_iter().max_by(|a, b| liking(a).total_cmp(&liking(b))).expect("there are candidates")
        } else {
            rng.u32(..items)
        };
        pairs.extend([i64::from(user), i64::from(item)]);
        chosen.push(f32::from(u8::from(is_choice)));
    }
    Ok((Tensor::f_from_slice(&pairs)?.f_reshape([-1, 2])?, Tensor::f_from_slice(&chosen)?))
}
