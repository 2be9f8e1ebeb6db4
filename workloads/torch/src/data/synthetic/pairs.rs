//! Images in two sizes.

use std::f32::consts::TAU;

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, pool_samples};

/// Large images of a few waves in random directions, and small ones whose pixels are the means of the area
/// that they cover. Values lie between 0 and 1.
///
/// Returns `[samples, 1, side, side]` and `[samples, 1, side * upscale, side * upscale]`.
pub(super) fn small_and_large(rng: &mut Rng, side: u32, upscale: u32) -> Pairs {
    const WAVES: usize = 4;
    /// Maximum over the whole image, so that the shortest wave is visible in a small image of 24 pixels.
    const PERIODS_MAX: f32 = 8.0;
    let large = (side * upscale) as usize;
    let samples = pool_samples(large * large * size_of::<f32>());
    let mut pixels = vec![0.5_f32; samples * large * large];
    for image in pixels.chunks_exact_mut(large * large) {
        for _ in 0..WAVES {
            let direction = TAU * rng.f32();
            let radians_a_pixel = TAU * PERIODS_MAX * rng.f32() / large as f32;
            let (down, right) = direction.sin_cos();
            let start = TAU * rng.f32();
            for (row, line) in image.chunks_exact_mut(large).enumerate() {
                for (column, pixel) in line.iter_mut().enumerate() {
                    let along = down * row as f32 + right * column as f32;
                    *pixel += 0.5 / WAVES as f32 * (radians_a_pixel * along + start).sin();
                }
            }
        }
    }
    let shape = [samples as i64, 1, large as i64, large as i64];
    let images = Tensor::f_from_slice(&pixels)?.f_reshape(shape)?;
    let window = [i64::from(upscale); 2];
    let means = images.f_avg_pool2d(window, window, [0; 2], false, true, None)?;
    Ok((means, images))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{range, samples};

    #[test]
    fn a_small_image_holds_the_means_of_the_large_one() {
        let batch = samples("espcn-mini", 1);
        assert_eq!((batch.inputs.size(), batch.targets.size()), (vec![256, 1, 24, 24], vec![256, 1, 72, 72]));
        let (low, high) = range(&batch.targets);
        assert!(low >= 0.0 && high <= 1.0 && high - low > 0.8, "{low} to {high}");
        let patch = batch.targets.select(0, 7).select(0, 0).narrow(0, 3 * 5, 3).narrow(1, 3 * 9, 3);
        let (mean, small) = (patch.mean(None).double_value(&[]), batch.inputs.double_value(&[7, 0, 5, 9]));
        assert!((mean - small).abs() < 1e-6, "{mean} and {small}");
    }
}
