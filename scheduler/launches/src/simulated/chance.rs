//! Random numbers from one seed. Each draw has a name of its own and does not depend on earlier draws, so that two policies meet
//! the same faults and speeds.

use fastrand::Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

/// A quantity that is drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draw {
    /// The speed of a launch.
    Speed,
    /// The time of a switch.
    Switch,
    /// The time at which a launch crashes.
    Crash,
    /// The time at which a device is lost, and the time until it comes back.
    Device,
    /// The drift of the host.
    Drift,
}

/// The random numbers of the `nth` draw of a quantity for the job or the device `of`.
pub(super) fn numbers(seed: u64, draw: Draw, of: u32, nth: u32) -> Rng {
    let name = (draw as u64) << 61 ^ u64::from(of) << 31 ^ u64::from(nth);
    // The multiplier is odd, so that distinct names have distinct seeds. fastrand scrambles them.
    Rng::with_seed(seed ^ name.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Draws from the standard normal distribution.
pub(super) fn normal(rng: &mut Rng) -> f64 {
    Normal::standard().inverse_cdf(uniform(rng))
}

/// Draws from the chi-squared distribution.
pub(super) fn chi_squared(rng: &mut Rng, degrees_of_freedom: f64) -> f64 {
    let of = ChiSquared::new(degrees_of_freedom).expect("there are degrees of freedom");
    of.inverse_cdf(uniform(rng))
}

/// Draws from 0 to 1, both excluded, where inverses of distribution functions are finite.
fn uniform(rng: &mut Rng) -> f64 {
    (rng.u64(..1 << 53) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Draws from the exponential distribution with this mean.
pub(super) fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_their_mean_and_deviation() {
        let count = 20_000;
        let moments = |values: Vec<f64>| {
            let mean = values.iter().sum::<f64>() / f64::from(count);
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(count);
            (mean, variance.sqrt())
        };
        let each = |draw: fn(&mut Rng) -> f64| {
            (0..count).map(|n| draw(&mut numbers(1, Draw::Speed, n, 0))).collect()
        };
        let (mean, deviation) = moments(each(normal));
        assert!(mean.abs() < 0.03 && (deviation - 1.0).abs() < 0.03, "{mean} {deviation}");
        let (mean, deviation) = moments(each(|rng| chi_squared(rng, 8.0)));
        assert!((mean - 8.0).abs() < 0.15 && (deviation - 4.0).abs() < 0.15, "{mean} {deviation}");
        let (mean, deviation) = moments(each(|rng| exponential(rng, 5.0)));
        assert!((mean - 5.0).abs() < 0.15 && (deviation - 5.0).abs() < 0.25, "{mean} {deviation}");
    }

    #[test]
    fn every_draw_has_numbers_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for draw in [Draw::Speed, Draw::Switch, Draw::Crash, Draw::Device, Draw::Drift] {
            for (of, nth) in (0..20).flat_map(|of| (0..20).map(move |nth| (of, nth))) {
                let first = numbers(7, draw, of, nth).u64(..);
                assert_eq!(first, numbers(7, draw, of, nth).u64(..));
                assert!(seen.insert(first), "{draw:?} {of} {nth}");
            }
        }
    }
}
