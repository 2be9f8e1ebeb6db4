//! Whether two arithmetic averages over the same items differ, such as the average completion times of the jobs of one trace.
//!
//! The geometric mean of the items' ratios answers another question: if many short jobs end sooner and a few long ones later, the
//! ratio is below 1 and the average is higher.

use statrs::distribution::ContinuousCDF;

use crate::interval::{Interval, mean, standard_deviation, student_t, t_half_width};

/// The average of the second values of pairs over that of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AveragesCompared {
    /// Its interval is that of the mean difference, as a share of the first average.
    pub ratio: Interval,
    /// The probability of a difference of at least this size if the true averages do not differ.
    pub p: f64,
}

/// Compares the averages of pairs `(first, second)` by the paired t test of their differences.
///
/// `None` for fewer than two pairs, a value that is not finite, or a first average that is not positive.
pub fn paired(pairs: &[(f64, f64)]) -> Option<AveragesCompared> {
    let first: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let differences: Vec<f64> = pairs.iter().map(|(first, second)| second - first).collect();
    let half_width = t_half_width(&differences)?;
    let (average, difference) = (mean(&first), mean(&differences));
    if average <= 0.0 || !(average.is_finite() && difference.is_finite()) {
        return None;
    }
    let [estimate, lo, hi] = [difference, difference - half_width, difference + half_width]
        .map(|difference| 1.0 + difference / average);
    let error = standard_deviation(&differences)? / (pairs.len() as f64).sqrt();
    let p = p_of(difference, error, pairs.len() - 1);
    Some(AveragesCompared { ratio: Interval { estimate, lo, hi, n: pairs.len() }, p })
}

/// The two-sided p-value of a mean that is this far from the expected one. Values without any spread are taken at their word.
pub(crate) fn p_of(difference: f64, error: f64, degrees_of_freedom: usize) -> f64 {
    match difference {
        0.0 => 1.0,
        _ if error == 0.0 => 0.0,
        _ => (2.0 * student_t(degrees_of_freedom as f64).sf((difference / error).abs())).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
    }

    /// The sleep data of Student, with a constant added: `t.test(extra ~ group, paired = TRUE)` of R prints a mean difference of
    /// 1.58, p = 0.002833 and 0.7001142 to 2.4598858.
    #[test]
    fn the_sleep_data_have_the_values_of_the_textbooks() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0].map(|hours| hours + 9.25);
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4].map(|hours| hours + 9.25);
        let pairs: Vec<(f64, f64)> = first.into_iter().zip(second).collect();
        let compared = paired(&pairs).expect("ten pairs");
        assert_close(compared.ratio.estimate, 1.158);
        assert!(
            (compared.ratio.lo - 1.070_011_42).abs() < 1e-8
                && (compared.ratio.hi - 1.245_988_58).abs() < 1e-8
        );
        assert!((compared.p - 0.002_833).abs() < 1e-6, "{}", compared.p);
    }

    #[test]
    fn many_gains_do_not_hide_a_few_large_losses() {
        let pairs: Vec<(f64, f64)> =
            (0..20).map(|n| if n < 15 { (10.0, 5.0) } else { (100.0, 200.0 + f64::from(n)) }).collect();
        let compared = paired(&pairs).expect("twenty pairs");
        let by_job = crate::launches::ratio_paired(&pairs).expect("twenty pairs");
        assert!(by_job.hi < 1.0 && compared.ratio.estimate > 1.5, "{by_job:?} {compared:?}");
    }

    #[test]
    fn differences_without_spread_are_certain() {
        assert_eq!(paired(&[(1.0, 1.0), (2.0, 2.0)]).map(|of| (of.ratio.estimate, of.p)), Some((1.0, 1.0)));
        assert_eq!(paired(&[(1.0, 2.0), (2.0, 3.0)]).map(|of| of.p), Some(0.0));
        assert_eq!(paired(&[(1.0, 2.0)]), None);
        assert_eq!(paired(&[(0.0, 2.0), (0.0, 3.0)]), None);
        assert_eq!(paired(&[(1.0, f64::NAN), (1.0, 3.0)]), None);
    }
}
