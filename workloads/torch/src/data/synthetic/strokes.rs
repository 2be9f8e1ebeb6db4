//! Images of strokes.

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, pool_samples};

/// White strokes on black, as handwritten digits: a line from a point near the middle that bends as it
/// goes. Values lie between 0 and 1, and most are 0.
///
/// Returns `[samples, 1, side, side]` twice, because the model reconstructs the image.
pub(super) fn images(rng: &mut Rng, side: u32) -> Pairs {
    /// Length of a stroke in sides, and of one step of it in pixels.
    const LENGTH: f32 = 2.5;
    const STEP: f32 = 0.5;
    let width = side as usize;
    let samples = pool_samples(width * width * size_of::<f32>());
    let mut pixels = vec![0.0_f32; samples * width * width];
    for image in pixels.chunks_exact_mut(width * width) {
        let last = (side - 1) as f32;
        let [mut x, mut y] = [0, 1].map(|_| last * (0.4 + 0.2 * rng.f32()));
        let (mut direction, mut bend) = (std::f32::consts::TAU * rng.f32(), 0.0_f32);
        for _ in 0..(LENGTH * side as f32 / STEP) as usize {
            bend = 0.9 * bend + 0.1 * (rng.f32() - 0.5);
            direction += bend;
            x = (x + STEP * direction.cos()).clamp(0.15 * last, 0.85 * last);
            y = (y + STEP * direction.sin()).clamp(0.15 * last, 0.85 * last);
            // A pixel is brighter if the line passes nearer.
            let (row, column) = (y.floor() as usize, x.floor() as usize);
            for (row, near_row) in [(row, 1.0 - y.fract()), (row + 1, y.fract())] {
                for (column, near_column) in [(column, 1.0 - x.fract()), (column + 1, x.fract())] {
                    if row < width && column < width {
                        let pixel = &mut image[row * width + column];
                        *pixel = pixel.max(near_row * near_column);
                    }
                }
            }
        }
    }
    let shape = [samples as i64, 1, i64::from(side), i64::from(side)];
    let images = Tensor::f_from_slice(&pixels)?.f_reshape(shape)?;
    Ok((images.shallow_clone(), images))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{range, samples};

    #[test]
    fn most_of_an_image_is_black_and_it_is_its_own_target() {
        let batch = samples("vae", 1);
        assert_eq!(batch.inputs.size(), [256, 1, 28, 28]);
        assert_eq!(batch.inputs, batch.targets);
        let (low, high) = range(&batch.inputs);
        assert!(low == 0.0 && (0.9..=1.0).contains(&high), "{low} to {high}");
        let white = batch.inputs.gt(0.5).to_kind(tch::Kind::Float).mean(None).double_value(&[]);
        assert!((0.02..0.2).contains(&white), "{white}");
    }
}
