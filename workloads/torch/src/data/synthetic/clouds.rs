//! Clouds of points.

use std::iter::repeat_with;

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, images::CLASSES_USED, normal, pool_samples};

/// Points on the surface of an ellipsoid per class, which fits into the unit sphere as those of ShapeNet
/// do. Each cloud is rotated about its upright axis and has a random size.
///
/// Returns `[samples, 3, points]` and labels `[samples]`.
pub(super) fn labelled(rng: &mut Rng, points: u32, classes: u32) -> Pairs {
    const COORDINATES: usize = 3;
    let length = points as usize;
    let samples = pool_samples(COORDINATES * length * size_of::<f32>());
    let classes = classes.clamp(1, CLASSES_USED) as usize;
    let axes: Vec<[f32; COORDINATES]> =
        repeat_with(|| [rng.f32(), rng.f32(), rng.f32()].map(|axis| 0.1 + 0.9 * axis))
            .take(classes)
            .collect();

    let mut labels = Vec::with_capacity(samples);
    let mut coordinates = vec![0.0; samples * COORDINATES * length];
    for cloud in coordinates.chunks_exact_mut(COORDINATES * length) {
        let class = rng.usize(..classes);
        labels.push(class as i64);
        let size = 0.8 + 0.2 * rng.f32();
        let (sine, cosine) = (std::f32::consts::TAU * rng.f32()).sin_cos();
        for point in 0..length {
            let direction = [normal(rng), normal(rng), normal(rng)];
            let norm = direction.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            let [x, y, z] = [0, 1, 2].map(|axis| size * axes[class][axis] * direction[axis] / norm);
            for (axis, value) in [cosine * x - sine * z, y, sine * x + cosine * z].into_iter().enumerate() {
                cloud[axis * length + point] = value;
            }
        }
    }
    let shape = [samples as i64, COORDINATES as i64, i64::from(points)];
    Ok((Tensor::f_from_slice(&coordinates)?.f_reshape(shape)?, Tensor::f_from_slice(&labels)?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{range, samples};

    #[test]
    fn clouds_fill_the_unit_sphere_and_classes_differ_in_height() {
        let batch = samples("pointnet-mini", 1);
        assert_eq!((batch.inputs.size(), batch.targets.size()), (vec![256, 3, 128], vec![256]));
        let radius = batch.inputs.square().sum_dim_intlist([1].as_slice(), false, None).sqrt();
        let (_, farthest) = range(&radius);
        assert!((0.7..=1.0).contains(&farthest), "{farthest}");
        assert_eq!(range(&batch.targets), (0.0, 3.0));
        let height = |class: i64| {
            let chosen = batch.targets.eq(class).nonzero().flatten(0, -1);
            batch.inputs.index_select(0, &chosen).select(1, 1).std(false).double_value(&[])
        };
        let heights: Vec<f64> = (0..4).map(height).collect();
        let spread =
            heights.iter().fold(0.0_f64, |a, &b| a.max(b)) / heights.iter().fold(1.0_f64, |a, &b| a.min(b));
        assert!(spread > 1.3, "{heights:?}");
    }
}
