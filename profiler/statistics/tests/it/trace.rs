//! Simulated step times with a known truth, from a seed.

use std::f64::consts::TAU;

/// One draw from the standard normal distribution (Box and Muller, 1958).
pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    // f64() may be 0, which has no logarithm, and is never 1.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (TAU * random.f64()).cos()
}

/// Noise with correlated neighbours: a stationary AR(1) process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    /// Standard deviation of every value; that of the logarithm of step time, so 0.02 is 2 %.
    pub(crate) deviation: f64,
    /// The correlation of consecutive values.
    pub(crate) phi: f64,
}

/// Step times in ns of a launch that takes `level_ns`, times `shape` of the step's index, times noise.
pub(crate) fn steps(
    random: &mut fastrand::Rng,
    count: usize,
    level_ns: f64,
    noise: Noise,
    shape: impl Fn(usize) -> f64,
) -> Vec<u64> {
    let innovation = (1.0 - noise.phi * noise.phi).sqrt();
    let mut wander = normal(random);
    (0..count)
        .map(|index| {
            let step = level_ns * shape(index) * (noise.deviation * wander).exp();
            wander = noise.phi * wander + innovation * normal(random);
            step.round() as u64
        })
        .collect()
}
