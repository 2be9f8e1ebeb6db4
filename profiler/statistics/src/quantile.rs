//! The distribution of step times in four numbers.

use hdrhistogram::Histogram;

/// Significant digits that HdrHistogram keeps: a quantile is at most 0.1 % above the exact one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Quantiles of step times in ns; the quantile at `q` is the smallest step time that at least
/// `q` of the steps do not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// The middle, to 0.1 %. The published median, [`crate::median`], is exact.
    pub p50: u64,
    /// Nine steps in ten are no slower, to 0.1 %.
    pub p90: u64,
    /// All but one in a hundred are no slower, to 0.1 %.
    pub p99: u64,
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
        Some(Self { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_exact() {
        let steps: Vec<u64> = (1..=1_000).collect();
        let tail = Tail::of(&steps).expect("there are steps");
        assert_eq!(tail, Tail { p50: 500, p90: 900, p99: 990, max: 1_000 });
    }

    #[test]
    fn one_step_is_every_quantile() {
        for step in [0, 7, 123_456_789_012, u64::MAX / 2] {
            let tail = Tail::of(&[step]).expect("there is a step");
            assert_eq!(tail, Tail { p50: step, p90: step, p99: step, max: step });
        }
    }

    #[test]
    fn no_steps_have_no_quantiles() {
        assert_eq!(Tail::of(&[]), None);
    }
}
