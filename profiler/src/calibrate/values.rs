//! The values of a calibration: numbers with their intervals, and the reasons for missing ones.

use record::{
    calibration::{Measured, NotMeasured},
    rows::Status,
};
use statistics::launches::between_launches;

use crate::derive::whole;

pub(super) fn failed(what: &str, reason: &str) -> NotMeasured {
    not_measured(what, Status::Failed, reason)
}

pub(super) fn not_measured(what: &str, status: Status, reason: &str) -> NotMeasured {
    NotMeasured { what: what.into(), status, reason: reason.into() }
}

/// A number of bytes or nanoseconds with the ends of its interval, in whole numbers.
pub(super) fn measured(value: f64, ci_lo: f64, ci_hi: f64) -> Measured<u64> {
    let [value, ci_lo, ci_hi] = [value, ci_lo, ci_hi].map(whole);
    Measured { value, ci_lo, ci_hi }
}

/// The mean of independent repeats with its interval; `None` for fewer than two.
pub(super) fn over_repeats(values: &[f64]) -> Option<Measured<u64>> {
    let interval = between_launches(values)?;
    Some(measured(interval.estimate, interval.lo, interval.hi))
}

#[cfg(test)]
mod tests {
    use schema::units::Nanos;

    use super::*;

    #[test]
    fn the_interval_of_repeats_a_thousandfold_apart_ends_at_the_longest_time() {
        let found = over_repeats(&[1e5, 1e8]).expect("two repeats");
        assert_eq!((found.ci_lo, found.ci_hi), (0, Nanos::LONGEST.0));
        assert_eq!(found.value, 3_162_278, "the geometric mean");
        assert_eq!(over_repeats(&[1e5]), None);
    }
}
