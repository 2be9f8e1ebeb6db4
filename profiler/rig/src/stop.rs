//! Decides when a launch, or a group, has been measured for long enough.

use statistics::interval::MIN_STEPS;

/// The multiple of the requested amount after which a launch that does not become steady ends, counted from the end of its
/// warm-up.
pub(crate) const PATIENCE: f64 = 3.0;

/// The condition for a launch to be long enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopRule {
    /// This steady time, in seconds, with the number of steps that an interval needs if they come within three times that time.
    Seconds(f64),
    /// This number of steady steps.
    Steps(u64),
    /// This number of steps from the first on, steady or not.
    First(u64),
    /// The number of steps that the job was given, or the end of the program.
    End,
}

/// An amount of a launch, or of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    pub seconds: f64,
    pub steps: usize,
}

/// Decides when there is enough. The search for the steady state costs time, so it is done only when it may succeed.
pub struct StopCheck {
    rule: StopRule,
    /// The amount, in the unit of the rule, at which the next search is worth its cost.
    look_at: f64,
    /// The part of the amount that is the warm-up and does not count against the limit. With a few slow steps, the warm-up is
    /// not subtracted.
    pub(crate) warm_up: Amount,
}

impl StopCheck {
    pub fn new(rule: StopRule) -> StopCheck {
        StopCheck { rule, look_at: 0.0, warm_up: Amount::default() }
    }

    /// Whether the amount is sufficient, or the limit is exceeded. `steady` finds the part of `seen` that counts.
    pub fn is_reached(&mut self, seen: Amount, steady: impl FnOnce() -> Amount) -> bool {
        let (wanted, so_far) = match self.rule {
            StopRule::End => return false,
            StopRule::First(wanted) => return seen.steps as u64 >= wanted,
            StopRule::Seconds(wanted) => (wanted, seen.seconds),
            StopRule::Steps(wanted) => (wanted as f64, seen.steps as f64),
        };
        if self.is_out_of_patience(seen) {
            return true;
        }
        if so_far < self.look_at.max(wanted) {
            return false;
        }
        let steady = steady();
        let (found, suffices) = match self.rule {
            StopRule::Seconds(_) => (steady.seconds, steady.steps >= MIN_STEPS),
            StopRule::Steps(_) | StopRule::First(_) | StopRule::End => (steady.steps as f64, true),
        };
        // The next search comes after at least a twentieth more, so that the searches stay cheap.
        self.look_at = so_far + (wanted - found).max(wanted / 20.0);
        found >= wanted && suffices
    }

    /// Whether `seen` is so large that the requested amount cannot be expected any more.
    pub fn is_out_of_patience(&self, seen: Amount) -> bool {
        match self.rule {
            StopRule::First(_) | StopRule::End => false,
            StopRule::Seconds(wanted) => seen.seconds - self.warm_up.seconds >= PATIENCE * wanted,
            StopRule::Steps(wanted) => {
                let warm = seen.steps - self.warm_up.steps;
                warm as f64 >= PATIENCE * wanted.max(MIN_STEPS as u64) as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_steady_is_looked_for_now_and_then() {
        let mut stop = StopCheck::new(StopRule::Seconds(10.0));
        let mut searches = 0;
        let mut enough_at = |seconds: f64, steady_s: f64| {
            let (seen, steady) = (Amount { seconds, steps: 900 }, Amount { seconds: steady_s, steps: 900 });
            let enough = stop.is_reached(seen, || {
                searches += 1;
                steady
            });
            (enough, searches)
        };
        let cases =
            [(9.9, 9.9), (10.0, 6.0), (13.9, 13.9), (14.0, 9.9), (14.4, 14.4), (14.5, 9.9), (30.0, 0.0)];
        let found = cases.map(|(seen, steady)| enough_at(seen, steady));
        assert_eq!(
            found,
            [(false, 0), (false, 1), (false, 1), (false, 2), (false, 2), (false, 3), (true, 3)]
        );
    }
}
