//! Intervals around a median or mean of values that were measured one after another.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{launches::logarithms, order::median_in_place};

/// Fewer steps have no interval within a launch.
pub const MIN_STEPS: usize = 30;

/// The probability with which an interval should contain the truth.
const CONFIDENCE: f64 = 0.95;

/// The number of batches of independent steps. More batches hardly narrow the interval, because the t
/// quantile is already close to its limit.
const MAX_BATCHES: usize = 20;

/// Fewer batches do not reveal their own spread.
const MIN_BATCHES: usize = 5;

/// A batch of fewer steps has a median that is biased where step times are skewed.
const MIN_BATCH_STEPS: usize = 5;

/// Batches are this many autocorrelation times long, so that they are nearly independent.
const BATCH_CORRELATION_TIMES: f64 = 4.0;

/// An estimate and its 95 % interval, in the unit of the measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The best single value.
    pub estimate: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// Number of values behind the estimate: steps, launches or pairs.
    pub n: usize,
}

/// The largest ratio of the ends of an interval that tells anything. Two repeats have one degree of freedom, whose quantile of 12.7
/// makes a factor of 10^12 of a difference by a factor of nine.
pub const WIDEST_RATIO: f64 = 1000.0;

impl Interval {
    /// The lower and the upper end. `None` if they are so far apart that the interval tells nothing.
    pub fn ends(&self) -> Option<[f64; 2]> {
        (self.hi <= WIDEST_RATIO * self.lo).then_some([self.lo, self.hi])
    }

    /// Half of the interval's width in percent of the estimate.
    pub fn half_width_percent(&self) -> f64 {
        100.0 * (self.hi - self.lo) / (2.0 * self.estimate)
    }

    /// Whether `value` lies inside, the ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.lo..=self.hi).contains(&value)
    }
}

/// The median step time of one launch's steady steps, in ns, given in order of execution.
///
/// Consecutive steps resemble each other, so intervals that take them as independent are far too
/// narrow (a bootstrap of AR(1) steps with coefficient 0.9 contains the truth 4 times in 10).
/// This one divides the steps into batches and takes the spread of the batches' medians (method
/// of batch means: A. M. Law, "Simulation Modeling and Analysis", chapter 9), which holds
/// whatever the correlation within a batch. It is taken on the logarithm, as between launches, so that
/// no end of it is below zero. Simulated with AR(1) steps of 2 % noise, 400 to a launch,
/// it contains the launch's own median in 95 % (coefficient 0), 94 % (0.6) and 93 % (0.9) of cases.
/// Short launches of strongly correlated steps have too few independent steps to tell: with a
/// coefficient of 0.9 it is 92 % for 200 steps, 89 % for 100 and 71 % for 30.
///
/// `None` for fewer than [`MIN_STEPS`] steps, and where the median of a batch is 0: such steps are below the clock's resolution.
pub fn within_launch_median(step_ns: &[u64]) -> Option<Interval> {
    within_launch(step_ns, median_in_place)
}

/// The mean step time of one launch's steady steps, in ns, given in order of execution: the time that many more steps would take,
/// over their number.
///
/// The interval is that of [`within_launch_median`] with means of batches in place of medians. A slow step that returns regularly
/// is a part of the mean and leaves the interval narrow; a single slow step makes one batch differ from the others, and the
/// interval wide.
///
/// `None` as for the median.
pub fn within_launch_mean(step_ns: &[u64]) -> Option<Interval> {
    within_launch(step_ns, |steps| mean(steps))
}

/// An estimate over steps, with the interval from the spread of the same estimate over batches of them.
fn within_launch(step_ns: &[u64], estimate: impl Fn(&mut [f64]) -> f64) -> Option<Interval> {
    let n = step_ns.len();
    if n < MIN_STEPS {
        return None;
    }
    let mut steps: Vec<f64> = step_ns.iter().map(|&step| step as f64).collect();
    let count = batch_count(&steps);
    let mut scratch = steps.clone();
    let batches = (0..count).map(|batch| estimate(&mut scratch[batch * n / count..(batch + 1) * n / count]));
    let half_width = t_half_width(&logarithms(batches)?)?;
    let estimate = estimate(&mut steps);
    Some(Interval { estimate, lo: estimate * (-half_width).exp(), hi: estimate * half_width.exp(), n })
}

/// The number of batches that are long enough to be nearly independent.
fn batch_count(steps: &[f64]) -> usize {
    let independent = steps.len() as f64 / autocorrelation_time(steps) / BATCH_CORRELATION_TIMES;
    let most = MAX_BATCHES.min(steps.len() / MIN_BATCH_STEPS);
    (independent as usize).clamp(MIN_BATCHES, most)
}

/// The number of consecutive steps with the information of one independent step; at least 1.
///
/// One plus twice the sum of the autocorrelations, cut off where they are mostly noise: at the first
/// lag of three times the sum so far (A. Sokal, "Monte Carlo Methods in Statistical Mechanics:
/// Foundations and New Algorithms", 1997, section 3, whose time is half of this one). It is taken
/// on the signs of the steps' distances from their median, which is what the median depends on,
/// and which is blind to how slow the slow steps are.
fn autocorrelation_time(steps: &[f64]) -> f64 {
    const WINDOW_TIMES: f64 = 3.0;
    let n = steps.len();
    let middle = median_in_place(&mut steps.to_vec());
    let signs: Vec<f64> = steps.iter().map(|step| f64::from(step.total_cmp(&middle) as i8)).collect();
    let at_lag = |lag: usize| signs.iter().zip(&signs[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let variance = at_lag(0);
    if variance == 0.0 {
        return 1.0;
    }
    // With larger values there are so few batches that it makes no difference.
    let longest = n as f64 / MIN_BATCHES as f64 / BATCH_CORRELATION_TIMES;
    let mut time = 1.0;
    for lag in 1..n / 2 {
        time += 2.0 * at_lag(lag) / variance;
        if lag as f64 >= WINDOW_TIMES * time || time > longest {
            break;
        }
    }
    time.max(1.0)
}

/// Half the width of the t interval around the mean of independent values; `None` for fewer than 2.
pub(crate) fn t_half_width(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let standard_error = standard_deviation(values)? / count.sqrt();
    Some(t_quantile(values.len() - 1) * standard_error)
}

/// The two-sided 95 % quantile of Student's t with this number of degrees of freedom, at least 1.
pub(crate) fn t_quantile(degrees_of_freedom: usize) -> f64 {
    quantile_of(&student_t(degrees_of_freedom as f64))
}

/// The two-sided 95 % quantile of a distribution.
pub(crate) fn quantile_of(distribution: &StudentsT) -> f64 {
    distribution.inverse_cdf(f64::midpoint(CONFIDENCE, 1.0))
}

/// Degrees of freedom from which on quantiles differ from those of the normal distribution by less than 3e-6. The inverse of the
/// distribution takes minutes for many more.
const NEARLY_NORMAL: f64 = 1e6;

/// Student's t distribution with this number of degrees of freedom, at least 1 and perhaps not whole.
pub(crate) fn student_t(degrees_of_freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, degrees_of_freedom.min(NEARLY_NORMAL))
        .expect("scale and degrees of freedom are positive")
}

/// The arithmetic mean of at least one value.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample standard deviation; `None` for fewer than 2 values.
pub(crate) fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 1e-6, "{actual} is not {expected}");
    }

    /// Two-sided 5 % points from the printed tables.
    #[test]
    fn t_quantiles_are_those_of_the_tables() {
        let table = [(1, 12.706_204_7), (2, 4.302_652_7), (4, 2.776_445_1), (9, 2.262_157_2)];
        for (degrees_of_freedom, quantile) in table {
            assert_close(t_quantile(degrees_of_freedom), quantile);
        }
        assert_close(t_quantile(19), 2.093_024_1);
        assert_close(t_quantile(1_000), 1.962_339_1);
    }

    #[test]
    fn mean_and_deviation_of_one_to_five_are_those_of_the_textbook() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_close(mean(&values), 3.0);
        assert_close(standard_deviation(&values).expect("five values"), 2.5_f64.sqrt());
        assert_close(t_half_width(&values).expect("five values"), 2.776_445_1 * 0.5_f64.sqrt());
        assert_eq!(t_half_width(&[1.0]), None);
    }

    /// Twenty batches of five steps; the logarithms of their medians are d above and d below their mean in turn, so their
    /// sample variance is d * d * 20 / 19 and the half-width t(19) * d / sqrt(19).
    #[test]
    fn the_interval_is_that_of_the_batch_medians() {
        let steps: Vec<u64> = (0..20)
            .map(|batch| if batch % 2 == 0 { 999 } else { 1_001 })
            .flat_map(|middle| [middle - 10, middle + 10, middle, middle - 10, middle + 10])
            .collect();
        let interval = within_launch_median(&steps).expect("a hundred steps");
        let half_width = 2.093_024_1 * (1_001.0_f64 / 999.0).ln() / 2.0 / 19.0_f64.sqrt();
        assert_eq!((interval.estimate, interval.n), (1_000.0, 100));
        assert_close((interval.lo / interval.estimate).ln(), -half_width);
        assert_close((interval.hi / interval.estimate).ln(), half_width);
        assert_close(interval.half_width_percent(), 100.0 * half_width.sinh());
    }

    #[test]
    fn a_slow_step_in_ten_does_not_move_the_median() {
        let steps: Vec<u64> = (0..200).map(|index| if index % 10 == 9 { 2_000 } else { 1_000 }).collect();
        let median = within_launch_median(&steps).expect("two hundred steps");
        // Twenty batches of ten contain one slow step each, so that nothing is uncertain.
        assert_eq!((median.lo, median.estimate, median.hi), (1_000.0, 1_000.0, 1_000.0));
    }

    /// Twenty batches of five: with a slow step in each, all means are 1,200 ns; with one in all, the batch of the slow step has a
    /// mean of 1,200 ns beside 19 of 1,000 ns, whose logarithms deviate by ln 1.2 / sqrt(20).
    #[test]
    fn a_mean_counts_slow_steps_and_is_uncertain_if_they_are_rare() {
        let steps = |slow: fn(usize) -> bool| -> Vec<u64> {
            (0..100).map(|index| if slow(index) { 2_000 } else { 1_000 }).collect()
        };
        let regular = within_launch_mean(&steps(|index| index % 5 == 4)).expect("a hundred steps");
        // The logarithms of equal means may differ by a rounding error from their mean.
        for end in [regular.lo, regular.estimate, regular.hi] {
            assert_close(end, 1_200.0);
        }
        let once = within_launch_mean(&steps(|index| index == 42)).expect("a hundred steps");
        let half_width = 2.093_024_1 * 1.2_f64.ln() / 20.0;
        assert_close(once.estimate, 1_010.0);
        assert_close((once.hi / once.estimate).ln(), half_width);
        assert_eq!(within_launch_mean(&[7; MIN_STEPS - 1]), None);
    }

    /// Steps that are held now and then: the batches' medians differ a thousandfold.
    #[test]
    fn no_end_is_below_zero_however_wide_the_interval() {
        let steps: Vec<u64> = (0..40).map(|index| if index / 8 == 2 { 1_000_000 } else { 1_000 }).collect();
        let interval = within_launch_median(&steps).expect("forty steps");
        assert!(interval.lo > 0.0 && interval.lo < interval.estimate, "{interval:?}");
        let ends = (interval.estimate / interval.lo) / (interval.hi / interval.estimate);
        assert_close(ends, 1.0);
        assert_eq!(within_launch_median(&[0; MIN_STEPS]), None, "0 ns have no logarithm");
    }

    #[test]
    fn too_few_steps_have_no_interval() {
        assert_eq!(within_launch_median(&[7; MIN_STEPS - 1]), None);
        assert!(within_launch_median(&[7; MIN_STEPS]).is_some());
    }

    #[test]
    fn resemblance_lengthens_the_batches() {
        let alternating: Vec<f64> = (0..400).map(|index| f64::from(index % 2)).collect();
        let slow: Vec<f64> = (0..400).map(|index| f64::from(index / 100 % 2)).collect();
        assert_eq!(autocorrelation_time(&alternating), 1.0);
        assert_eq!(batch_count(&alternating), MAX_BATCHES);
        assert!(autocorrelation_time(&slow) > 10.0);
        assert_eq!(batch_count(&slow), MIN_BATCHES);
        assert_eq!(autocorrelation_time(&[3.0; 50]), 1.0);
    }
}
