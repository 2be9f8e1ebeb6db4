//! Counters as drivers give them: they start anywhere, some are 32 bits wide and wrap, and a device
//! that was reset starts again at zero.

const WRAP: u64 = 1 << 32;

/// How many bits a counter has, as the driver's own type for it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Bits32,
    Bits64,
}

/// Adds up what a counter has counted since it was first read.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    last: Option<u64>,
    total: u64,
}

impl Counter {
    /// Takes a reading and returns the total since the first one, which never falls.
    pub(crate) fn read(&mut self, raw: u64, width: Width) -> u64 {
        self.grow(raw, width);
        self.total
    }

    /// Takes a reading and returns what was counted since the one before.
    ///
    /// A counter of 32 bits that falls has wrapped, once: whoever reads a link of 55 GB/s must come
    /// back within 78 ms. A wider one only falls when its device was reset; it counts on from there. But
    /// a driver may hand out a narrow counter in a wide type: one that was never wider, and for which a
    /// wrap is a step that a link can carry between two readings, has wrapped.
    pub(crate) fn grow(&mut self, raw: u64, width: Width) -> u64 {
        let last = self.last.replace(raw).unwrap_or(raw);
        let wrapped = raw.wrapping_sub(last) % WRAP;
        let step = match (raw.checked_sub(last), width) {
            (Some(step), _) => step,
            (None, Width::Bits32) => wrapped,
            (None, Width::Bits64) if last < WRAP && wrapped <= WRAP / 4 * 3 => wrapped,
            (None, Width::Bits64) => raw,
        };
        self.total += step;
        step
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

    #[test]
    fn a_counter_of_32_bits_wraps_and_a_wide_one_restarts() {
        let mut narrow = Counter::default();
        let readings = [4_294_967_290, 4_294_967_295, 3, 3, 10];
        assert_eq!(readings.map(|raw| narrow.read(raw, Width::Bits32)), [0, 5, 9, 9, 16]);

        // A wide counter may be as small as a narrow one when its device is reset.
        for start in [1 << 40, 4_294_967_290] {
            let mut wide = Counter::default();
            let readings = [start, start + 7, 5, 6];
            assert_eq!(readings.map(|raw| wide.read(raw, Width::Bits64)), [0, 7, 12, 13], "{start}");
        }
    }

    #[test]
    fn a_narrow_counter_in_a_wide_type_wraps_where_narrow_ones_do() {
        let grown = |last, raw| {
            let mut wide = Counter::default();
            [last, raw].map(|raw| wide.read(raw, Width::Bits64))[1]
        };
        assert_eq!(grown(WRAP - 1_000, 500), 1_500);
        // 55 GB/s for 40 ms.
        assert_eq!(grown(2_100_000_000, 5_032_704), 2_200_000_000);
        // Small values that fall were reset.
        assert_eq!((grown(900_000, 500), grown(WRAP, 500)), (500, 500));
    }

    proptest! {
        #[test]
        fn wrapping_loses_nothing(start in any::<u32>(), steps in prop::collection::vec(any::<u32>(), 1..50)) {
            let mut counter = Counter::default();
            let mut truth = u64::from(start);
            counter.read(truth, Width::Bits32);
            for step in steps {
                truth += u64::from(step);
                prop_assert_eq!(counter.read(truth % WRAP, Width::Bits32), truth - u64::from(start));
            }
        }
    }
}
