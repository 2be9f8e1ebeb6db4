//! The amount of work in a period, and its division into steps according to the dial.

use std::{io, time::Duration};

use super::{PERIOD, Stressor};

/// Duration of the calibration of a stressor.
const TRIALS: Duration = Duration::from_millis(200);

/// Minimum duration of a trial, of which reading a clock is a thousandth.
const TRIAL: Duration = Duration::from_micros(500);

/// The work of one thread in a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pace {
    /// Units that it does in a period at full load.
    pub(super) units_per_period: f64,
    /// The remainder of earlier steps, which is less than a unit.
    pub(super) left: f64,
}

impl Pace {
    /// Runs the stressor for a while by its own clock. The median over trials is robust against a few
    /// disturbances.
    pub(super) fn measure(stressor: &mut dyn Stressor) -> io::Result<Pace> {
        let mut units = 1u32;
        let mut spent = Duration::ZERO;
        let mut unit_s = Vec::new();
        while spent < TRIALS {
            let begin = stressor.clock();
            (0..units).try_for_each(|_| stressor.unit())?;
            let took = stressor.clock() - begin;
            if took < TRIAL {
                units = units.saturating_mul(2);
            } else {
                spent += took;
                unit_s.push(took.as_secs_f64() / f64::from(units));
            }
        }
        unit_s.sort_by(f64::total_cmp);
        // No trial takes longer than all of them together, so there is at least one.
        let median_s = unit_s[unit_s.len() / 2];
        Ok(Pace { units_per_period: PERIOD.as_secs_f64() / median_s, left: 0.0 })
    }

    /// Units of the next step. Over many steps they match the dial to the unit, for any size of a unit.
    pub(super) fn units_of_step(&mut self, dial_percent: u32) -> u64 {
        let due = self.left + self.units_per_period * f64::from(dial_percent) / 100.0;
        self.left = due.fract();
        due as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Duration = Duration::from_micros(50);

    /// Its units take no time but by its own clock, and one of 64 as long as if the host had taken the core away meanwhile.
    #[derive(Default)]
    struct Disturbed {
        units: u32,
        spent: Duration,
    }

    impl Stressor for Disturbed {
        fn unit(&mut self) -> io::Result<()> {
            self.units += 1;
            self.spent += if self.units.is_multiple_of(64) { 100 * UNIT } else { UNIT };
            Ok(())
        }

        fn memory_bytes(&self) -> u64 {
            0
        }

        fn clock(&self) -> Duration {
            self.spent
        }
    }

    #[test]
    fn the_busy_share_of_a_period_is_the_dial_whatever_disturbs_the_trials() {
        const STEPS: u32 = 12;
        for dial_percent in [5, 30, 50, 100] {
            let mut pace = Pace::measure(&mut Disturbed::default()).expect("it works");
            let units: u64 = (0..STEPS).map(|_| pace.units_of_step(dial_percent)).sum();
            let (busy, asked) = (UNIT * units as u32, PERIOD * STEPS * dial_percent / 100);
            assert!(busy.abs_diff(asked) <= UNIT, "{dial_percent}: {busy:?} of {asked:?}");
        }
    }

    #[test]
    fn what_a_step_leaves_of_a_unit_comes_with_a_later_one() {
        // A disk on which a write takes 40 ms.
        let mut slow = Pace { units_per_period: 0.25, left: 0.0 };
        let units: Vec<u64> = (0..16).map(|_| slow.units_of_step(50)).collect();
        assert_eq!(units, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        let mut uneven = Pace { units_per_period: 7.3, left: 0.0 };
        let units: u64 = (0..1000).map(|_| uneven.units_of_step(10)).sum();
        assert!((729..=730).contains(&units), "{units}");
    }
}
