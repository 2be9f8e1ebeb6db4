//! Images of a few classes.

use std::iter::repeat_with;

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, pool_samples};
use crate::nn::channels_last;

/// Number of classes of the images, even if the model has more, so that ten steps show each one several
/// times.
pub(super) const CLASSES_USED: u32 = 4;

/// Images of a coarse colour pattern per class, with noise; values lie between -0.75 and 0.75.
///
/// Returns `[samples, channels, image, image]`, channels-last, and labels `[samples]`.
pub(super) fn labelled(rng: &mut Rng, classes: u32, channels: u32, image: u32) -> Pairs {
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

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{range, samples},
        *,
    };

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
}
