//! The noise of a series, robust against outliers, changes of level and autocorrelation.

use crate::order::{median_in_place, robust_deviation};

/// The number of blocks at the coarsest scale. With this number, one change of level affects a quarter of
/// the differences, which the median absolute deviation tolerates.
const BLOCKS_AT_COARSEST_SCALE: usize = 10;

/// The coarsest scale is no finer than this even for the shortest series, whose neighbouring values
/// the running median has made alike.
const FINEST_COARSEST_SCALE: usize = 3;

/// The coarsest scale is no coarser than this. A longer correlation is a change of level.
const COARSEST_SCALE: usize = 64;

/// Every value replaced by the median of the `window` values around it, fewer at the two ends.
///
/// With a window of five, up to two slow steps in any five disappear, periodic ones included,
/// while a lasting change of level stays sharp.
pub(crate) fn running_median(series: &[f64], window: usize) -> Vec<f64> {
    let reach = window / 2;
    let mut scratch = Vec::with_capacity(window);
    (0..series.len())
        .map(|index| {
            let end = (index + reach + 1).min(series.len());
            scratch.clear();
            scratch.extend_from_slice(&series[index.saturating_sub(reach)..end]);
            median_in_place(&mut scratch)
        })
        .collect()
}

/// The medians of consecutive blocks of `length` values, the last block perhaps shorter.
pub(crate) fn block_medians(series: &[f64], length: usize) -> Vec<f64> {
    series.chunks(length).map(|block| median_in_place(&mut block.to_vec())).collect()
}

/// The long-run variance of at least six values: what `n` times the variance of their mean tends to.
///
/// For independent values this is their variance; for AR(1) with coefficient phi it is
/// `(1 + phi) / (1 - phi)` times that, and a threshold scaled by the plain variance would take
/// every slow wander for a change. It is estimated from the differences of neighbouring blocks'
/// means (the Allan variance) at doubling block lengths, and the largest is taken: for correlated
/// noise the estimate grows with the block until it levels off at the long-run variance.
/// Differences see a change of level only where blocks touch it, and the median absolute deviation
/// disregards those few places.
pub(crate) fn long_run_variance(series: &[f64]) -> f64 {
    let n = series.len();
    let mut sum = vec![0.0; n + 1];
    for (index, value) in series.iter().enumerate() {
        sum[index + 1] = sum[index] + value;
    }
    let coarsest = (n / BLOCKS_AT_COARSEST_SCALE).clamp(FINEST_COARSEST_SCALE, COARSEST_SCALE);
    let doubling = std::iter::successors(Some(1), |length| Some(length * 2));
    doubling
        .take_while(|&length| length < coarsest)
        .chain([coarsest])
        .map(|length| {
            let mut differences: Vec<f64> = (length..=n - length)
                .map(|at| (sum[at + length] - 2.0 * sum[at] + sum[at - length]) / length as f64)
                .collect();
            length as f64 * robust_deviation(&mut differences).powi(2) / 2.0
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An AR(1) process of variance 1 from uniform innovations.
    fn wander(phi: f64, count: usize) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(1);
        // A uniform number has a variance of one twelfth.
        let scale = (12.0 * (1.0 - phi * phi)).sqrt();
        std::iter::repeat_with(|| scale * (random.f64() - 0.5))
            .scan(0.0, |value, innovation| {
                *value = phi * *value + innovation;
                Some(*value)
            })
            .take(count)
            .collect()
    }

    #[test]
    fn the_long_run_variance_is_that_of_the_process() {
        for phi in [0.0, 0.3, 0.6, 0.9] {
            let truth = (1.0 + phi) / (1.0 - phi);
            let ratio = long_run_variance(&wander(phi, 5_000)) / truth;
            // The choice of the largest scale biases it upwards, the end of the scales downwards.
            assert!((0.7..1.5).contains(&ratio), "{ratio} times the truth at {phi}");
        }
    }

    #[test]
    fn changes_of_level_hardly_add_to_the_noise() {
        let flat = wander(0.3, 2_000);
        let stairs: Vec<f64> =
            flat.iter().zip(0..).map(|(value, at)| value + f64::from(at / 500) * 20.0).collect();
        let ratio = long_run_variance(&stairs) / long_run_variance(&flat);
        assert!((1.0..1.5).contains(&ratio), "{ratio} times as noisy");
    }

    #[test]
    fn a_running_median_drops_spikes_and_keeps_steps() {
        let spiked = [1.0, 9.0, 1.0, 1.0, 1.0, 9.0, 9.0, 1.0, 1.0, 5.0, 5.0, 5.0];
        let expected = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0, 5.0];
        assert_eq!(running_median(&spiked, 5), expected);
    }

    #[test]
    fn the_last_block_may_be_short() {
        assert_eq!(block_medians(&[1.0, 5.0, 2.0, 7.0, 3.0], 3), [2.0, 5.0]);
        assert_eq!(block_medians(&[1.0, 5.0], 1), [1.0, 5.0]);
    }
}
