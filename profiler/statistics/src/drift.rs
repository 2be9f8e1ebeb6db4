//! Whether the launches of a cell measure the same thing: their trend over time and their spread.

use statrs::distribution::ContinuousCDF;

use crate::interval::{standard_deviation, student_t};
use crate::launches::logarithms;
use crate::line::Line;

/// Launches of one cell usually differ by 1 to 2 % (standard deviation). From here on something
/// other than chance is at work, such as another program or two power states.
pub const EXCESSIVE_SPREAD_PERCENT: f64 = 5.0;

/// The probability of reporting a drift where there is none.
const SIGNIFICANCE: f64 = 0.05;

/// A drift below this is not reported even if it is certain.
const NEGLIGIBLE_PERCENT: f64 = 1.0;

/// The linear trend of the logarithm of launches' medians over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The change of step time from the first launch to the last, along the line.
    pub percent_over_span: f64,
    /// The probability that launches without a trend show one as strong (two-sided t test).
    pub p_value: f64,
}

impl Drift {
    /// Whether the drift is both unlikely to be chance and large enough to matter.
    pub fn deserves_warning(&self) -> bool {
        self.p_value < SIGNIFICANCE && self.percent_over_span.abs() >= NEGLIGIBLE_PERCENT
    }
}

/// Fits a line through the launches' medians over the time each launch began, by least squares.
///
/// `None` for fewer than three launches, for launches that all began at once, for slices of different
/// lengths, or for a median that is not a positive number. Three launches have one degree of
/// freedom, so only a drift without any scatter is found among them.
pub fn drift_between_launches(began_ns: &[u64], launch_medians: &[f64]) -> Option<Drift> {
    let count = launch_medians.len();
    if count < 3 || began_ns.len() != count {
        return None;
    }
    let logs = logarithms(launch_medians.iter().copied())?;
    let (&first, &last) = (began_ns.iter().min()?, began_ns.iter().max()?);
    if first == last {
        return None;
    }
    // Time as a share of the span, so that the slope is the change over the span.
    let span = (last - first) as f64;
    let of_time = |(&began, log): (&u64, f64)| ((began - first) as f64 / span, log);
    let line = Line::through(&began_ns.iter().zip(logs).map(of_time).collect::<Vec<_>>())?;
    // Without a slope there is nothing to test, and without scatter the statistic would be 0 / 0.
    let p_value = if line.slope == 0.0 {
        1.0
    } else {
        2.0 * student_t((count - 2) as f64).sf((line.slope / line.slope_error?).abs())
    };
    Some(Drift { percent_over_span: 100.0 * line.slope.exp_m1(), p_value })
}

/// The standard deviation of the logarithms of launches' medians, in percent.
///
/// `None` for fewer than two launches or a median that is not a positive number.
pub fn spread_percent(launch_medians: &[f64]) -> Option<f64> {
    let logs = logarithms(launch_medians.iter().copied())?;
    standard_deviation(&logs).map(|deviation| 100.0 * deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs 0, 2, 1, 3 at times 0 to 3: slope 0.8, unexplained 1.8, so t = 0.8 / sqrt(0.9 / 5),
    /// and with two degrees of freedom the p value is 1 - t / sqrt(2 + t^2).
    #[test]
    fn a_line_through_four_points_is_that_of_the_textbook() {
        let medians: Vec<f64> = [0.0_f64, 2.0, 1.0, 3.0].map(f64::exp).to_vec();
        let drift = drift_between_launches(&[5, 6, 7, 8], &medians).expect("four launches");
        let t = 0.8 / (0.9_f64 / 5.0).sqrt();
        assert!((drift.percent_over_span - 100.0 * 2.4_f64.exp_m1()).abs() < 1e-9);
        assert!((drift.p_value - (1.0 - t / (2.0 + t * t).sqrt())).abs() < 1e-9);
    }

    #[test]
    fn a_pure_trend_is_found_and_a_level_is_not() {
        let began_ns = [0, 10, 20, 30, 40];
        let rising: Vec<f64> = (0..5).map(|launch| 1e6 * 1.01_f64.powi(launch)).collect();
        let drift = drift_between_launches(&began_ns, &rising).expect("five launches");
        assert!((drift.percent_over_span - 100.0 * (1.01_f64.powi(4) - 1.0)).abs() < 1e-6);
        assert!(drift.p_value < 1e-6);
        assert!(drift.deserves_warning());

        let level = drift_between_launches(&began_ns, &[1e6; 5]).expect("five launches");
        assert_eq!(level, Drift { percent_over_span: 0.0, p_value: 1.0 });
        assert!(!level.deserves_warning());
    }

    #[test]
    fn a_certain_drift_that_is_tiny_is_not_worth_a_warning() {
        let medians: Vec<f64> = (0..6).map(|launch| 1e6 * 1.000_1_f64.powi(launch)).collect();
        let drift = drift_between_launches(&[0, 1, 2, 3, 4, 5], &medians).expect("six launches");
        assert!(drift.p_value < 0.001);
        assert!(!drift.deserves_warning());
    }

    #[test]
    fn what_has_no_trend_has_none() {
        assert_eq!(drift_between_launches(&[1, 2], &[1.0, 2.0]), None);
        assert_eq!(drift_between_launches(&[1, 1, 1], &[1.0, 2.0, 3.0]), None);
        assert_eq!(drift_between_launches(&[1, 2, 3], &[1.0, 2.0]), None);
        assert_eq!(drift_between_launches(&[1, 2, 3], &[1.0, 0.0, 3.0]), None);
    }

    #[test]
    fn spread_is_the_deviation_of_the_logarithm() {
        let spread = spread_percent(&[0.98_f64.exp(), 1.0_f64.exp(), 1.02_f64.exp()]);
        assert!((spread.expect("three launches") - 2.0).abs() < 1e-9);
        assert_eq!(spread_percent(&[1.0]), None);
    }
}
