//! The distribution of step times in four numbers.

use crate::order::quantile_of_sorted;

/// Fewer values have no 90th percentile. With twenty, two are above it.
pub const MIN_P90: usize = 20;

/// Fewer values have no 99th percentile. With a hundred it would be all but the slowest; with two hundred,
/// two are above it.
pub const MIN_P99: usize = 200;

/// Quantiles of step times in ns; the quantile at `q` is the smallest step time that at least
/// `q` of the steps do not exceed, so that it is the time of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// The middle. Of an even number of steps it is the lower of the middle two; the published median, [`crate::median`], is
    /// their mean.
    pub p50: u64,
    /// The 90th percentile; absent below [`MIN_P90`] steps.
    pub p90: Option<u64>,
    /// The 99th percentile; absent below [`MIN_P99`] steps.
    pub p99: Option<u64>,
    /// The slowest step.
    pub max: u64,
}

impl Tail {
    /// The quantiles of at least one step, in any order; `None` without steps.
    pub fn of(step_ns: &[u64]) -> Option<Self> {
        let mut sorted = step_ns.to_vec();
        sorted.sort_unstable();
        Self::from_quantiles(sorted.len(), *sorted.last()?, |part| quantile_of_sorted(&sorted, part))
    }

    /// Takes those quantiles that this number of values has; `None` without values.
    pub(crate) fn from_quantiles(count: usize, max: u64, quantile: impl Fn(f64) -> u64) -> Option<Self> {
        let of_at_least = |fewest, part| (count >= fewest).then(|| quantile(part));
        let (p90, p99) = (of_at_least(MIN_P90, 0.9), of_at_least(MIN_P99, 0.99));
        (count > 0).then(|| Self { p50: quantile(0.5), p90, p99, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_steps_that_were_taken() {
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

    /// Otherwise the 99th percentile of a short launch would be its slowest step under another name.
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
