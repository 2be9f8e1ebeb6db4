//! Intervals over launches, which are independent of each other, and ratios of two kinds of launch.
//!
//! Both are computed on the logarithm. What makes one launch differ from the next (clocks, memory
//! layout, neighbours) multiplies its step time; with the two or three launches a budget
//! allows, an interval on the plain scale can reach below zero; and the interval of a throughput,
//! or of a ratio, is then the mirror image or the difference of those of step times, whichever of
//! them was computed first. At noise of a few percent the two scales agree.

use crate::interval::{Interval, mean, t_half_width, t_quantile};

/// The geometric mean of launches' medians, with the t interval over launches.
///
/// This is the number that a cell publishes: it holds for the next launch's median, on average over
/// launches. It describes the minutes of its run. On a simulated machine whose speed varies by 10 % with a
/// correlation time of fifty launches, five launches in a row cover their own minutes in 99 of 100 runs,
/// and the machine's mean over hours in 21.
///
/// Percentile bootstraps need ten launches and more; the t interval is right from two on, and
/// useful from three.
///
/// `None` for fewer than two launches, or a median that is not a positive number.
pub fn between_launches(launch_medians: &[f64]) -> Option<Interval> {
    let logs = logarithms(launch_medians.iter().copied())?;
    exponentiated_t_interval(&logs)
}

/// The standard deviation of launches on the log scale, recovered from the interval of [`between_launches`]
/// over `launches` of them.
///
/// `None` for fewer than two launches, or an interval that is not one of positive numbers.
pub fn log_deviation(lo: f64, hi: f64, launches: usize) -> Option<f64> {
    let half_width = (hi / lo).ln() / 2.0;
    let is_interval = lo > 0.0 && half_width >= 0.0 && half_width.is_finite() && launches > 1;
    is_interval.then(|| half_width * (launches as f64).sqrt() / t_quantile(launches - 1))
}

/// The ratio of the second to the first value of pairs, with its 95 % interval.
///
/// A pair is `(baseline, treatment)`, measured close together in time, so that what changes
/// between pairs cancels within them (L. Bulej et al., "Duet Benchmarking: Improving Measurement
/// Accuracy in the Cloud", ICPE 2020, arXiv 2001.05811). On the machine of [`between_launches`] each such
/// interval covers the truth 95 times in 100. Rows that share their baselines miss together, however: over
/// the pairs of six jobs the share of rows that miss varies between runs 1.8 times as much as for
/// independent rows.
///
/// `None` for fewer than two pairs, or a value that is not a positive number.
pub fn ratio_paired(pairs: &[(f64, f64)]) -> Option<Interval> {
    let baseline = logarithms(pairs.iter().map(|&(baseline, _)| baseline))?;
    let treatment = logarithms(pairs.iter().map(|&(_, treatment)| treatment))?;
    let differences: Vec<f64> = treatment.iter().zip(&baseline).map(|(t, b)| t - b).collect();
    exponentiated_t_interval(&differences)
}

/// The pair `(A, B)` of four launches in the order A B B A, by geometric means.
///
/// A drift by a constant factor per launch cancels exactly, because both kinds have, on average, the same
/// position among the four.
pub fn abba([first_a, first_b, second_b, second_a]: [f64; 4]) -> (f64, f64) {
    ((first_a * second_a).sqrt(), (first_b * second_b).sqrt())
}

/// The logarithms, or `None` if a value is not a positive finite number.
pub(crate) fn logarithms(values: impl Iterator<Item = f64>) -> Option<Vec<f64>> {
    values.map(|value| (value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

fn exponentiated_t_interval(logs: &[f64]) -> Option<Interval> {
    let half_width = t_half_width(logs)?;
    let centre = mean(logs);
    Some(Interval {
        estimate: centre.exp(),
        lo: (centre - half_width).exp(),
        hi: (centre + half_width).exp(),
        n: logs.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 1e-9, "{actual} is not {expected}");
    }

    /// Mean 3, standard error sqrt(2.5 / 5), t of 4 degrees of freedom 2.776445105.
    #[test]
    fn t_interval_of_one_to_five_is_that_of_the_textbook() {
        let launches: Vec<f64> = (1..=5).map(|exponent| f64::from(exponent).exp()).collect();
        let interval = between_launches(&launches).expect("five positive values");
        let half_width = 2.776_445_105_197_793 * 0.5_f64.sqrt();
        assert_close(interval.estimate.ln(), 3.0);
        assert_close(interval.lo.ln(), 3.0 - half_width);
        assert_close(interval.hi.ln(), 3.0 + half_width);
        assert_eq!(interval.n, 5);
        let deviation = log_deviation(interval.lo, interval.hi, 5).expect("it is an interval");
        assert_close(deviation, 2.5_f64.sqrt());
        for (lo, hi, launches) in [(1.0, 2.0, 1), (2.0, 1.0, 5), (0.0, 1.0, 5), (-1.0, 1.0, 5)] {
            assert_eq!(log_deviation(lo, hi, launches), None);
        }
    }

    #[test]
    fn two_launches_have_the_interval_of_one_degree_of_freedom() {
        let interval = between_launches(&[1.0, std::f64::consts::E]).expect("two positive values");
        // The standard error of 0 and 1 is one half; t of 1 degree of freedom is tan(0.475 pi).
        let half_width = (0.475 * std::f64::consts::PI).tan() / 2.0;
        assert_close(interval.estimate.ln(), 0.5);
        assert_close(interval.hi.ln(), 0.5 + half_width);
    }

    #[test]
    fn what_has_no_interval_has_none() {
        for medians in [&[][..], &[5.0], &[5.0, 0.0], &[5.0, -1.0], &[5.0, f64::NAN]] {
            assert_eq!(between_launches(medians), None, "{medians:?}");
        }
        assert_eq!(ratio_paired(&[(1.0, 2.0)]), None);
        assert_eq!(ratio_paired(&[(1.0, 2.0), (0.0, 2.0)]), None);
    }

    #[test]
    fn a_constant_ratio_is_exact_however_the_pairs_differ() {
        let pairs = [(10.0, 11.0), (1_000.0, 1_100.0), (0.1, 0.11)];
        let ratio = ratio_paired(&pairs).expect("three pairs");
        assert_close(ratio.estimate, 1.1);
        assert!(ratio.half_width_percent() < 1e-9);
    }

    #[test]
    fn abba_cancels_a_geometric_drift_where_aabb_does_not() {
        let at = |position: i32, ratio: f64| 100.0 * ratio * 1.01_f64.powi(position);
        let (a, b) = abba([at(0, 1.0), at(1, 1.25), at(2, 1.25), at(3, 1.0)]);
        assert_close(b / a, 1.25);
        let (a, b) = abba([at(0, 1.0), at(2, 1.25), at(3, 1.25), at(1, 1.0)]);
        assert_close(b / a, 1.25 * 1.01_f64.powi(2));
    }
}
