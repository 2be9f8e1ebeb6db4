//! Time below the requested clock, from one counter per cause.

use std::collections::BTreeMap;

use schema::units::Nanos;

use super::super::counter::{Counter, Width};

/// Accumulates the counters of the causes, in nanoseconds.
///
/// Causes overlap: a chip at its power limit may be too hot as well, and then two counters run. The overlap is not known, so
/// their sum is an upper bound, and so is the elapsed time.
#[derive(Default)]
pub(super) struct Throttle {
    causes: BTreeMap<&'static str, Counter>,
    read_at: Option<Nanos>,
    /// The time of earlier rows in which a cause could not be read, because its next reading covers that time, too.
    unheard_ns: u64,
    total_ns: u64,
}

impl Throttle {
    /// Takes the counters that could be read at `now`, and returns the total since the first row, or since one of them fell;
    /// `None` if there are none. `missing` means that a cause which usually answers did not.
    pub(super) fn read(
        &mut self,
        now: Nanos,
        causes: &[(&'static str, u64, Width)],
        missing: bool,
    ) -> Option<u64> {
        if causes.is_empty() {
            return None;
        }
        // All counters are read before an error of one that fell ends the sum.
        let steps: Vec<Option<u64>> = causes
            .iter()
            .map(|&(cause, raw, width)| self.causes.entry(cause).or_default().grow(raw, width).ok())
            .collect();
        let passed = self.read_at.replace(now).map_or(0, |then| now.saturating_sub(then).0);
        let most = passed + self.unheard_ns;
        let grown = steps.into_iter().sum::<Option<u64>>().map(|grown| grown.min(most));
        self.unheard_ns = if missing { most - grown.unwrap_or(0) } else { 0 };
        self.total_ns = grown.map_or(0, |grown| self.total_ns + grown);
        Some(self.total_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "throttle_power_cap_ns";
    const B: &str = "throttle_software_thermal_ns";

    #[test]
    fn causes_add_up_to_at_most_the_time_that_passed() {
        let mut throttle = Throttle::default();
        let mut read = |now, a, b| {
            throttle.read(Nanos(now), &[(A, a, Width::Bits64), (B, b, Width::Bits64)], false).unwrap()
        };
        assert_eq!(read(1_000, 70, 5), 0, "what was counted before the first row is not ours");
        assert_eq!(read(1_100, 90, 15), 30);
        assert_eq!(read(1_200, 180, 105), 130, "both causes ran, and a hundred passed");
        assert_eq!(read(1_300, 180, 105), 130);
        // After a rest of the counters there is no debt: the next row counts in full.
        assert_eq!(read(1_400, 220, 105), 170);
    }

    #[test]
    fn a_cause_that_fell_makes_the_total_start_anew() {
        let mut throttle = Throttle::default();
        let mut read =
            |now, a, b| throttle.read(Nanos(now), &[(A, a, Width::Bits64), (B, b, Width::Bits64)], false);
        assert_eq!([read(0, 70, 5), read(100, 90, 5), read(200, 0, 3)], [Some(0), Some(20), Some(0)]);
        assert_eq!(read(300, 30, 4), Some(31), "both go on from where they are");
    }

    #[test]
    fn a_cause_that_is_silent_once_is_neither_lost_nor_counted_twice() {
        let mut throttle = Throttle::default();
        let wide = Width::Bits64;
        throttle.read(Nanos(0), &[(A, 1_000, wide), (B, 50, wide)], false);
        assert_eq!(throttle.read(Nanos(100), &[(A, 1_010, wide), (B, 90, wide)], false), Some(50));
        assert_eq!(throttle.read(Nanos(200), &[(A, 1_020, wide)], true), Some(60));
        // Its 140 belong to two rows: more than one row holds, and no more than both do.
        assert_eq!(throttle.read(Nanos(300), &[(A, 1_030, wide), (B, 230, wide)], false), Some(210));
        assert_eq!(throttle.read(Nanos(400), &[(A, 1_030, wide), (B, 230, wide)], false), Some(210));
        assert_eq!(throttle.read(Nanos(500), &[], true), None);
        // Rows without any answer add their time to the next.
        assert_eq!(throttle.read(Nanos(600), &[(A, 1_180, wide), (B, 230, wide)], false), Some(360));
    }
}
