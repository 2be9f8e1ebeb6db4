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

/// Images of a coarse pattern of colours for each class, under noise; values lie between -0.75 and 0.75.
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
            candidates
                .into_iter()
                .max_by(|a, b| liking(a).total_cmp(&liking(b)))
                .expect("there are candidates")
        } else {
            rng.u32(..items)
        };
        pairs.extend([i64::from(user), i64::from(item)]);
        chosen.push(f32::from(u8::from(is_choice)));
    }
    Ok((Tensor::f_from_slice(&pairs)?.f_reshape([-1, 2])?, Tensor::f_from_slice(&chosen)?))
}

#[cfg(test)]
mod tests {
    use schema::catalog::Catalog;

    use super::*;
    use crate::workload::{Batch, DataStream};

    fn samples(name: &str, seed: u64) -> Batch {
        let catalog = Catalog::embedded();
        let model = &catalog.get(name).unwrap().model;
        stream(model, seed, Device::Cpu).unwrap().next(256).unwrap()
    }

    fn range(tensor: &Tensor) -> (f64, f64) {
        (tensor.min().double_value(&[]), tensor.max().double_value(&[]))
    }

    #[test]
    fn a_seed_gives_the_same_samples_to_the_last_bit_and_another_seed_others() {
        for name in ["dcgan", "gpt2-mini", "lstm", "neumf", "resnet18-cifar"] {
            let (first, again, other) = (samples(name, 1), samples(name, 1), samples(name, 2));
            assert!(first.inputs == again.inputs && first.targets == again.targets, "{name}");
            assert!(first.inputs != other.inputs && first.targets != other.targets, "{name}");
        }
    }

    #[test]
    fn images_are_channels_last_and_have_labels_that_the_model_knows() {
        let batch = samples("resnet18-cifar", 1);
        assert_eq!(batch.inputs.size(), [256, 3, 32, 32]);
        assert_eq!(batch.inputs.stride(), [3072, 1, 96, 3]);
        assert_eq!(range(&batch.targets), (0.0, f64::from(CLASSES_USED - 1)));

        let gan = samples("dcgan", 1);
        assert_eq!((gan.inputs.size(), gan.targets.size()), (vec![256, 100, 1, 1], vec![256, 3, 64, 64]));
        let (low, high) = range(&gan.targets);
        assert!(low > -1.0 && high < 1.0, "as the generator's tanh gives");
        let deviation = gan.inputs.std(true).double_value(&[]);
        assert!((deviation - 1.0).abs() < 0.02 && gan.inputs.mean(None).double_value(&[]).abs() < 0.02);
    }

    #[test]
    fn each_token_has_at_most_four_successors_and_small_numbers_are_frequent() {
        let batch = samples("gpt2-mini", 1);
        let tokens = |tensor: &Tensor| Vec::<i64>::try_from(tensor.flatten(0, -1)).unwrap();
        let (inputs, targets) = (tokens(&batch.inputs), tokens(&batch.targets));
        assert_eq!(inputs[1..], targets[..targets.len() - 1], "a target is the input that follows");
        let mut successors = std::collections::BTreeMap::<_, std::collections::BTreeSet<_>>::new();
        for (input, target) in inputs.iter().zip(&targets) {
            successors.entry(input).or_default().insert(target);
        }
        assert!(successors.values().all(|set| set.len() <= 4));
        let (low, high) = range(&batch.inputs);
        assert!(low == 0.0 && high < 512.0 && successors.len() > 50);
        let frequent = inputs.iter().filter(|&&token| token < 16).count();
        assert!((0.3..0.7).contains(&(frequent as f64 / inputs.len() as f64)), "4 of 9 octaves");
    }

    #[test]
    fn one_rating_in_five_is_a_choice() {
        let batch = samples("neumf", 1);
        let chosen = batch.targets.mean(None).double_value(&[]);
        assert!((0.12..0.28).contains(&chosen), "{chosen}");
        let most = batch.inputs.amax([0], false);
        assert!(most.int64_value(&[0]) < 6040 && most.int64_value(&[1]) < 3706);
    }
}
