//! The distribution of step times in four numbers.

use hdrhistogram::Histogram;

/// Significant digits that HdrHistogram keeps: a quantile is at most 0.1 % above the exact one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Fewer values have no 90th percentile: with twenty, two lie above it.
pub const MIN_P90: usize = 20;

/// Fewer values have no 99th percentile. Of a hundred it is all but the slowest; with two hundred, two lie above it.
pub const MIN_P99: usize = 200;

/// Quantiles of step times in ns; the quantile at `q` is the smallest step time that at least
/// `q` of the steps do not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// The middle, to 0.1 %. The published median, [`crate::median`], is exact.
    pub p50: u64,
    /// Nine steps in ten are no slower, to 0.1 %; absent of fewer than [`MIN_P90`] steps.
    pub p90: Option<u64>,
    /// All but one in a hundred are no slower, to 0.1 %; absent of fewer than [`MIN_P99`] steps.
    pub p99: Option<u64>,
    /// The slowest step, exactly.
    pub max: u64,
}

impl Tail {
    /// The quantiles of at least one step, in any order; `None` of none.
    pub fn of(step_ns: &[u64]) -> Option<Self> {
        let &max = step_ns.iter().max()?;
        let mut histogram =
            Histogram::<u64>::new(SIGNIFICANT_DIGITS).expect("0 to 5 significant digits are allowed");
        for &step in step_ns {
            histogram.record(step).expect("a histogram that resizes itself holds any number");
        }
        // A bucket answers with its upper end, which may lie above the largest value it holds.
        let quantile = |q| histogram.value_at_quantile(q).min(max);
        let of_at_least = |fewest, q| (step_ns.len() >= fewest).then(|| quantile(q));
        let (p90, p99) = (of_at_least(MIN_P90, 0.9), of_at_least(MIN_P99, 0.99));
        Some(Self { p50: quantile(0.5), p90, p99, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_exact() {
        let steps: Vec<u64> = (1..=1_000).collect();
        let tail = Tail::of(&steps).expect("there are steps");
        assert_eq!(tail, Tail { p50: 500, p90: Some(900), p99: Some(990), max: 1_000 });
    }

    #[test]
    fn steps_that_are_all_alike_are_every_quantile() {
        for step in [0, 7, 123_456_789_012, u64::MAX / 2] {
            let tail = Tail::of(&[step; MIN_P99]).expect("there are steps");
            assert_eq!(tail, Tail { p50: step, p90: Some(step), p99: Some(step), max: step });
        }
    }

    /// Else the 99th percentile of a short launch would be its slowest step under another name.
    #[test]
    fn too_few_steps_have_no_tail() {
        for (steps, p90, p99) in [
            (1, None, None),
            (19, None, None),
            (20, Some(18), None),
            (100, Some(90), None),
            (199, Some(180), None),
            (200, Some(180), Some(198)),
        ] {
            let tail = Tail::of(&(1..=steps).collect::<Vec<u64>>()).expect("there are steps");
            assert_eq!((tail.p90, tail.p99, tail.max), (p90, p99, steps), "{steps} steps");
        }
    }

    #[test]
    fn no_steps_have_no_quantiles() {
        assert_eq!(Tail::of(&[]), None);
    }
}
