//! The values of a calibration: numbers with their intervals, and the reasons for missing ones.

use record::{
    calibration::{Measured, NotMeasured},
    rows::Status,
};
use statistics::{Interval, launches::between_launches};

use crate::derive::whole;

pub(super) fn failed(what: &str, reason: &str) -> NotMeasured {
    not_measured(what, Status::Failed, reason)
}

pub(super) fn not_measured(what: &str, status: Status, reason: &str) -> NotMeasured {
    NotMeasured { what: what.into(), status, reason: reason.into() }
}

/// A number of bytes or nanoseconds with the ends of its interval, in whole numbers.
pub(super) fn measured(interval: &Interval) -> Measured<u64> {
    Measured { value: whole(interval.estimate), interval: interval.ends().map(|ends| ends.map(whole)) }
}

/// The mean of independent repeats with its interval; `None` for fewer than two.
pub(super) fn over_repeats(values: &[f64]) -> Option<Measured<u64>> {
    between_launches(values).as_ref().map(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_repeats_that_differ_have_no_interval() {
        let far_apart = over_repeats(&[1e5, 1e8]).expect("two repeats");
        assert_eq!(far_apart, Measured { value: 3_162_278, interval: None }, "the geometric mean");
        assert_eq!(over_repeats(&[1e5]), None);
        // t of one degree of freedom is 12.706; half of the difference of the logarithms times it is 0.6055.
        let near = over_repeats(&[1e6, 1.1e6]).expect("two repeats");
        assert_eq!(near, Measured { value: 1_048_809, interval: Some([572_433, 1_921_624]) });
    }
}
