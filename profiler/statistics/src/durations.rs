//! Durations that go on for hours, counted in memory that does not grow with them.

use hdrhistogram::Histogram;

use crate::quantile::Tail;

/// Significant digits that HdrHistogram keeps: a quantile is at most 0.1 % above the exact one.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Durations in ns, of which the quantiles are known to 0.1 %, and the longest exactly.
///
/// Where all values are in memory, [`Tail::of`] is exact.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    histogram: Histogram<u32>,
    max: u64,
}

impl Default for Durations {
    fn default() -> Self {
        let histogram = Histogram::new(SIGNIFICANT_DIGITS).expect("0 to 5 significant digits are allowed");
        Self { histogram, max: 0 }
    }
}

impl Durations {
    pub fn record(&mut self, ns: u64) {
        self.histogram.record(ns).expect("a histogram that resizes itself holds any number");
        self.max = self.max.max(ns);
    }

    /// The number of recorded durations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The quantiles of all that was recorded; `None` if nothing was.
    pub fn tail(&self) -> Option<Tail> {
        // A bucket answers with its upper end, which may lie above the largest value it holds.
        let quantile = |part| self.histogram.value_at_quantile(part).min(self.max);
        Tail::from_quantiles(self.histogram.len() as usize, self.max, quantile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::MIN_P99;

    fn durations(ns: impl IntoIterator<Item = u64>) -> Durations {
        let mut durations = Durations::default();
        ns.into_iter().for_each(|ns| durations.record(ns));
        durations
    }

    #[test]
    fn small_numbers_are_exact() {
        let tail = durations(1..=1_000).tail();
        assert_eq!(tail, Some(Tail { p50: 500, p90: Some(900), p99: Some(990), max: 1_000 }));
    }

    #[test]
    fn durations_that_are_all_alike_are_every_quantile() {
        for ns in [0, 7, 123_456_789_012, u64::MAX / 2] {
            let tail = durations([ns; MIN_P99]).tail();
            assert_eq!(tail, Some(Tail { p50: ns, p90: Some(ns), p99: Some(ns), max: ns }));
        }
    }

    #[test]
    fn nothing_recorded_has_no_quantiles() {
        assert_eq!((durations([]).count(), durations([]).tail()), (0, None));
    }
}
