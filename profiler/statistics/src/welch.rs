//! Whether two independent sets of launches differ: Welch's t test, on the log scale.
//!
//! The launches of two runs are in no pairs, and their spreads may differ. The test of B. L. Welch ("The
//! generalization of 'Student's' problem when several different population variances are involved",
//! Biometrika 34, 1947) assumes no equal spreads. Its degrees of freedom are those of F. E. Satterthwaite ("An
//! approximate distribution of estimates of variance components", Biometrics Bulletin 2, 1946).

use statrs::distribution::ContinuousCDF;

use crate::{
    averages::p_of,
    interval::{Interval, mean, quantile_of, standard_deviation, student_t},
    launches::{log_deviation, logarithms},
};

/// The launches of one side: their mean and their standard deviation on the log scale, and their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launches {
    pub log_mean: f64,
    pub log_deviation: f64,
    /// At least 2.
    pub count: usize,
}

/// A comparison of two sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// Ratio of the geometric mean of the second side to that of the first.
    pub ratio: Interval,
    /// The standard error of the logarithm of the ratio.
    pub log_error: f64,
    pub degrees_of_freedom: f64,
    /// The probability of a difference of at least this size if the two sides do not differ.
    pub p: f64,
}

/// How far the difference of two means strays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) error: f64,
    /// At least 1.
    pub(crate) degrees_of_freedom: f64,
}

impl Launches {
    /// The launches with these values. Equal values have no deviation.
    ///
    /// `None` for fewer than two values, or a value that is not a positive number.
    pub fn measured(values: &[f64]) -> Option<Launches> {
        let logs = logarithms(values.iter().copied())?;
        let deviation = standard_deviation(&logs)?;
        // The mean of equal logarithms may differ from them by a rounding error.
        let are_equal = logs.iter().all(|log| *log == logs[0]);
        let (log_mean, log_deviation) = if are_equal { (logs[0], 0.0) } else { (mean(&logs), deviation) };
        Some(Launches { log_mean, log_deviation, count: logs.len() })
    }

    /// The launches behind a published estimate, from the interval of
    /// [`between_launches`](crate::launches::between_launches) around it.
    ///
    /// `None` for fewer than two launches, or without an interval of positive numbers.
    pub fn published(estimate: f64, lo: f64, hi: f64, count: usize) -> Option<Launches> {
        let log_mean = estimate.ln();
        let log_deviation = log_deviation(lo, hi, count)?;
        log_mean.is_finite().then_some(Launches { log_mean, log_deviation, count })
    }

    /// The probability of a geometric mean at least as far from `limit` if the true one is `limit`: the t test of one sample. It is
    /// 0.05 if an end of the 95 % interval is at the limit.
    pub fn p_against(&self, limit: f64) -> f64 {
        let error = self.log_deviation / (self.count as f64).sqrt();
        p_of(self.log_mean - limit.ln(), error, self.count - 1)
    }

    /// The variance of the mean, and the part of it that the degrees of freedom are weighted with.
    fn variance_of_mean(&self) -> (f64, f64) {
        let variance = self.log_deviation.powi(2) / self.count as f64;
        (variance, variance.powi(2) / (self.count as f64 - 1.0))
    }
}

impl Spread {
    /// `None` if neither side varies, or a side has fewer than two launches: there is no spread to compare with.
    pub(crate) fn of_difference(first: &Launches, second: &Launches) -> Option<Spread> {
        let ((of_first, first_weight), (of_second, second_weight)) =
            (first.variance_of_mean(), second.variance_of_mean());
        let variance = of_first + of_second;
        let degrees_of_freedom = variance.powi(2) / (first_weight + second_weight);
        let is_spread =
            first.count.min(second.count) > 1 && degrees_of_freedom >= 1.0 && degrees_of_freedom.is_finite();
        is_spread.then(|| Spread { error: variance.sqrt(), degrees_of_freedom })
    }
}

impl Welch {
    /// The probability of a ratio at least as high as this one if the true ratio is `limit`. A small one shows that the true ratio
    /// is above the limit.
    pub fn p_above(&self, limit: f64) -> f64 {
        student_t(self.degrees_of_freedom).sf((self.ratio.estimate.ln() - limit.ln()) / self.log_error)
    }
}

/// The ratio of the second side to the first, with its interval and the p-value of Welch's test.
///
/// `None` if neither side varies, or a side has fewer than two launches: there is no spread to compare with.
pub fn ratio(first: &Launches, second: &Launches) -> Option<Welch> {
    let Spread { error, degrees_of_freedom } = Spread::of_difference(first, second)?;
    let distribution = student_t(degrees_of_freedom);
    let difference = second.log_mean - first.log_mean;
    let half_width = quantile_of(&distribution) * error;
    let [estimate, lo, hi] = [difference, difference - half_width, difference + half_width].map(f64::exp);
    Some(Welch {
        ratio: Interval { estimate, lo, hi, n: first.count + second.count },
        log_error: error,
        degrees_of_freedom,
        p: (2.0 * distribution.sf((difference / error).abs())).min(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{mean, standard_deviation};
    use crate::launches::between_launches;

    fn launches(logs: &[f64]) -> Launches {
        let log_deviation = standard_deviation(logs).expect("at least two values");
        Launches { log_mean: mean(logs), log_deviation, count: logs.len() }
    }

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
    }

    /// The extra sleep of ten patients after two drugs (Student, "The probable error of a mean", Biometrika 6,
    /// 1908). `t.test(extra ~ group)` of R prints t = -1.8608, df = 17.776, p = 0.07939 and -3.3654832 to
    /// 0.2054832; the further digits are from an incomplete beta function of thirty digits.
    #[test]
    fn the_sleep_data_have_the_values_of_the_textbooks() {
        let first = launches(&[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]);
        let second = launches(&[1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]);
        let welch = ratio(&first, &second).expect("both vary");
        assert_close(welch.degrees_of_freedom, 17.776_473_516_178_5);
        assert_close(welch.p, 0.079_394_140_187_358_1);
        assert_close(welch.ratio.estimate.ln(), 1.58);
        assert_close(welch.ratio.lo.ln(), -0.205_483_230_711_711);
        assert_close(welch.ratio.hi.ln(), 3.365_483_230_711_71);
        assert_eq!(welch.ratio.n, 20);
    }

    /// The one-sided test of a ratio of 1 has half of the p-value of the two-sided one, and an end of the 95 % interval has a
    /// one-sided p-value of 0.025.
    #[test]
    fn the_test_against_a_limit_agrees_with_the_interval() {
        let welch = ratio(&launches(&[0.1, 0.2, 0.4]), &launches(&[0.3, 0.5, 0.4, 0.9])).expect("both vary");
        assert_close(welch.p_above(1.0), welch.p / 2.0);
        assert_close(welch.p_above(welch.ratio.lo), 0.025);
        assert_close(welch.p_above(welch.ratio.hi), 0.975);
        assert_close(welch.p_above(welch.ratio.estimate), 0.5);
    }

    #[test]
    fn equal_values_have_no_deviation_at_all() {
        let peaks = [39_526_400.0; 7];
        let fixed = Launches::measured(&peaks).expect("seven values");
        assert_eq!(fixed, Launches { log_mean: peaks[0].ln(), log_deviation: 0.0, count: 7 });
        let two = Launches::measured(&[1.0, std::f64::consts::E]).expect("two values");
        assert_close(two.log_mean, 0.5);
        assert_close(two.log_deviation, 0.5_f64.sqrt());
        assert_eq!(Launches::measured(&[1.0]), None);
        assert_eq!(Launches::measured(&[1.0, 0.0]), None);
    }

    /// A side without spread leaves the degrees of freedom of the other: here the one-sample test of 0 and 1
    /// against 0, whose t is 1 with one degree of freedom, that is p = 1/2.
    #[test]
    fn one_side_without_spread_is_a_known_value() {
        let (fixed, other) = (launches(&[0.0, 0.0, 0.0]), launches(&[0.0, 1.0]));
        let welch = ratio(&fixed, &other).expect("one varies");
        assert_close(welch.degrees_of_freedom, 1.0);
        assert_close(welch.p, 0.5);
    }

    #[test]
    fn sides_in_the_other_order_have_the_inverse_ratio() {
        let (a, b) = (launches(&[0.1, 0.2, 0.4]), launches(&[0.3, 0.5, 0.4, 0.9]));
        let (there, back) = (ratio(&a, &b).expect("both vary"), ratio(&b, &a).expect("both vary"));
        assert_close(there.ratio.lo * back.ratio.hi, 1.0);
        assert_close(there.p, back.p);
        assert_close(ratio(&a, &a).expect("it varies").p, 1.0);
    }

    #[test]
    fn a_published_interval_gives_its_launches_back() {
        let times = [10.0_f64, 11.0, 12.5];
        let published = between_launches(&times).expect("three times");
        let recovered =
            Launches::published(published.estimate, published.lo, published.hi, 3).expect("an interval");
        let expected = launches(&times.map(f64::ln));
        assert_close(recovered.log_mean, expected.log_mean);
        assert_close(recovered.log_deviation, expected.log_deviation);
        assert_eq!(Launches::published(10.0, 9.0, 11.0, 1), None);
        assert_eq!(Launches::published(0.0, 9.0, 11.0, 3), None);
    }

    #[test]
    fn the_test_of_one_sample_agrees_with_its_interval() {
        let times = [10.0_f64, 11.0, 12.5];
        let published = between_launches(&times).expect("three times");
        let launches =
            Launches::published(published.estimate, published.lo, published.hi, 3).expect("an interval");
        assert_close(launches.p_against(published.lo), 0.05);
        assert_close(launches.p_against(published.hi), 0.05);
        assert_close(launches.p_against(published.estimate), 1.0);
        // Two degrees of freedom have a distribution in closed form.
        let t = launches.log_mean / (launches.log_deviation / 3_f64.sqrt());
        assert_close(launches.p_against(1.0), 1.0 - t / (2.0 + t * t).sqrt());
    }

    #[test]
    fn sides_without_spread_cannot_be_compared() {
        let (a, b) = (launches(&[1.0, 1.0]), launches(&[2.0, 2.0]));
        assert_eq!(ratio(&a, &b), None);
        assert_eq!(ratio(&a, &Launches { count: 1, ..launches(&[1.0, 2.0]) }), None);
    }
}
