//! When a device last ran below its clock, from its readings.

use record::rows::DeviceSample;
use schema::units::Nanos;

/// The share of the time below the clock from which on the steps of that time are doubtful.
pub const THROTTLED_PERCENT: f64 = 0.5;

/// The readings of one device.
#[derive(Debug, Default)]
pub(super) struct Throttled {
    /// The time of the last reading that had the counter, and the counter.
    before: Option<(Nanos, u64)>,
    last: Option<Nanos>,
}

impl Throttled {
    pub(super) fn read(&mut self, row: &DeviceSample) {
        let Some(throttled_ns) = row.throttle_ns else { return };
        let before = self.before.replace((row.mono_ns, throttled_ns));
        // The counter begins anew if one of its causes fell.
        let Some((at, before_ns)) = before.filter(|(_, before_ns)| *before_ns <= throttled_ns) else {
            return;
        };
        let passed_ns = row.mono_ns.saturating_sub(at).0 as f64;
        if (throttled_ns - before_ns) as f64 * 100.0 > THROTTLED_PERCENT * passed_ns {
            self.last = Some(row.mono_ns);
        }
    }

    /// The time of the last reading before which it was throttled.
    pub(super) fn last(&self) -> Option<Nanos> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use record::rows::Tier;
    use schema::device::Device;

    use super::*;
    use crate::device::empty_sample;

    #[test]
    fn a_device_is_throttled_if_its_counter_grows_by_more_than_its_share_of_the_time() {
        let mut throttled = Throttled::default();
        let mut read = |at_ms: u64, throttle_ns| {
            let at = Nanos(at_ms * 1_000_000);
            let row = DeviceSample { throttle_ns, ..empty_sample(&Device::Cuda(0), Tier::Fast, at) };
            throttled.read(&row);
            throttled.last().map(|at| at.0 / 1_000_000)
        };
        assert_eq!(read(0, Some(7_000_000)), None, "it says nothing of the time before");
        assert_eq!(read(100, Some(7_400_000)), None, "0.4 % of the time");
        assert_eq!(read(150, None), None);
        assert_eq!(read(200, Some(8_000_000)), Some(200), "0.6 % of the time");
        assert_eq!(read(300, Some(8_000_000)), Some(200));
        assert_eq!(read(400, Some(1_000_000)), Some(200), "the counter began anew");
        assert_eq!(read(500, Some(2_000_000)), Some(500));
    }
}
