//! Counters in the form that drivers give them: they start at any value, some are 32 bits wide and wrap, and a device that was
//! reset starts again at zero.

use schema::units::Nanos;

const WRAP: u64 = 1 << 32;

/// The interval between two readings beyond which a counter of 32 bits may have wrapped more than once. A link of generation 5
/// with 16 lanes carries 55 GB/s, and 60 GB/s with the headers of its packets, which is a wrap in 72 ms.
pub const WRAPS_BEYOND: Nanos = Nanos(70_000_000);

/// The width of a counter in bits, which is that of the driver's type for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Bits32,
    Bits64,
}

/// Accumulates the growth of a counter since it was first read, or since it fell.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    last: Option<u64>,
    total: u64,
}

/// The error for a counter that is less than at the reading before, as after a reset of its device. What it had counted between
/// that reading and the reset is lost, so its total starts again at zero: a total that falls shows that no difference across
/// the fall is a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the counter fell from {from} to {to}, as when the device is reset, and is added up anew")]
pub(crate) struct Fell {
    from: u64,
    to: u64,
}

impl Counter {
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Takes a reading and returns the growth since the one before.
    ///
    /// A counter of 32 bits that falls has wrapped once, because a link must be read again within [`WRAPS_BEYOND`]. A wider
    /// counter falls only when its device was reset. But a driver may return a narrow counter in a wide type: if a counter has
    /// never exceeded 32 bits, and a link can carry the growth that a wrap implies, it has wrapped.
    pub(crate) fn grow(&mut self, raw: u64, width: Width) -> Result<u64, Fell> {
        let last = self.last.replace(raw).unwrap_or(raw);
        let wrapped = raw.wrapping_sub(last) % WRAP;
        let step = match (raw.checked_sub(last), width) {
            (Some(step), _) => step,
            (None, Width::Bits32) => wrapped,
            (None, Width::Bits64) if last < WRAP && wrapped <= WRAP / 4 * 3 => wrapped,
            (None, Width::Bits64) => {
                self.total = 0;
                return Err(Fell { from: last, to: raw });
            }
        };
        self.total += step;
        Ok(step)
    }

    /// Adds a step measured by other means, for a quantity that the device gives as a rate.
    pub(crate) fn add(&mut self, step: u64) -> u64 {
        self.total += step;
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn totals(readings: &[u64], width: Width) -> Vec<u64> {
        let mut counter = Counter::default();
        let total = |raw: &u64| {
            let _ = counter.grow(*raw, width);
            counter.total()
        };
        readings.iter().map(total).collect()
    }

    #[test]
    fn a_counter_of_32_bits_wraps_and_a_wide_one_starts_anew() {
        let narrow = [4_294_967_290, 4_294_967_295, 3, 3, 10];
        assert_eq!(totals(&narrow, Width::Bits32), [0, 5, 9, 9, 16]);
        // A wide counter may be as small as a narrow one when its device is reset.
        for start in [1 << 40, 4_294_967_290] {
            assert_eq!(totals(&[start, start + 7, 5, 6], Width::Bits64), [0, 7, 0, 1], "{start}");
        }
        let mut counter = Counter::default();
        assert_eq!(
            [9, 12, 4, 6].map(|raw| counter.grow(raw, Width::Bits64).ok()),
            [Some(0), Some(3), None, Some(2)]
        );
    }

    #[test]
    fn a_narrow_counter_in_a_wide_type_wraps_where_narrow_ones_do() {
        let grown = |last, raw| {
            let mut counter = Counter::default();
            counter.grow(last, Width::Bits64).and_then(|_| counter.grow(raw, Width::Bits64)).ok()
        };
        assert_eq!(grown(WRAP - 1_000, 500), Some(1_500));
        // 55 GB/s for 40 ms.
        assert_eq!(grown(2_100_000_000, 5_032_704), Some(2_200_000_000));
        // Small values that fall were reset.
        assert_eq!((grown(900_000, 500), grown(WRAP, 500)), (None, None));
    }

    proptest! {
        #[test]
        fn wrapping_loses_nothing(start in any::<u32>(), steps in prop::collection::vec(any::<u32>(), 1..50)) {
            let mut counter = Counter::default();
            let mut truth = u64::from(start);
            counter.grow(truth, Width::Bits32).unwrap();
            for step in steps {
                truth += u64::from(step);
                prop_assert_eq!(counter.grow(truth % WRAP, Width::Bits32), Ok(u64::from(step)));
            }
            prop_assert_eq!(counter.total(), truth - u64::from(start));
        }
    }
}
