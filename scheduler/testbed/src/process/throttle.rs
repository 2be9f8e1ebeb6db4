//! The grants of a throttled launch: a burst of work, and then a rest until the burst is its share of the time.
//!
//! A burst and its rest take about as long as an ordinary grant holds, or as long as one step and its rest if that is more. Bursts
//! follow a schedule, so that a late order or look does not make the next one later.

use formats::decision::Share;
use schema::units::Nanos;

use super::work::{LOOK_EVERY, TESTBED_AHEAD};

#[derive(Debug)]
pub(super) struct Throttle {
    share: Share,
    /// When all work that was granted is the share of the time since the throttle began. `None` before the first burst.
    next_at: Option<Nanos>,
}

impl Throttle {
    /// The throttle of a launch with this share. `None` for no limit.
    pub(super) fn of(share: Share) -> Option<Throttle> {
        (share < Share::FULL).then_some(Throttle { share, next_at: None })
    }

    /// When the next burst is due, if the launch has at most `left` steps to do of what it was granted.
    pub(super) fn next_at(&self, left: u64, step_ns: f64) -> Option<Nanos> {
        self.next_at.filter(|_| left < self.burst(step_ns))
    }

    /// The number of steps to grant now. `left` are the steps that were granted and are not done. Work from before the throttle
    /// uses up the first share.
    pub(super) fn due(&mut self, now: Nanos, left: u64, step_ns: f64) -> Option<u64> {
        let at = *self.next_at.get_or_insert(now + self.time_of(left, step_ns));
        let burst = self.burst(step_ns);
        if at > now || left >= burst {
            return None;
        }
        // A launch that was held or saved meanwhile does not catch up.
        let at = at.max(now.saturating_sub(LOOK_EVERY.into()));
        self.next_at = Some(at + self.time_of(burst, step_ns));
        Some(burst)
    }

    fn burst(&self, step_ns: f64) -> u64 {
        (TESTBED_AHEAD.as_nanos() as f64 * self.share.get() / step_ns).max(1.0) as u64
    }

    /// The time of which these steps are the share.
    fn time_of(&self, steps: u64, step_ns: f64) -> Nanos {
        Nanos((steps as f64 * step_ns / self.share.get()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The steps that a launch is granted within a minute if it is looked at with this interval, with steps of this length, of
    /// which so many were granted before.
    fn granted(share: f64, step_ms: u64, before: u64, look_ms: u64) -> u64 {
        let step_ns = (step_ms * MS) as f64;
        let mut throttle = Throttle::of(Share::new(share).unwrap()).unwrap();
        let (mut granted, mut done, mut since) = (before, 0.0, 0);
        for now in (0..60_000).step_by(look_ms as usize) {
            done = (done + (now - since) as f64 / step_ms as f64).min(granted as f64);
            since = now;
            granted += throttle.due(Nanos(now * MS), granted - done as u64, step_ns).unwrap_or(0);
        }
        granted
    }

    #[test]
    fn a_launch_is_granted_its_share_of_the_time() {
        for (share, step_ms, look_ms) in
            [(0.25, 2, 1), (0.25, 2, 70), (0.5, 30, 9), (0.9, 20, 100), (0.01, 3, 100), (0.25, 1_000, 100)]
        {
            let steps = granted(share, step_ms, 0, look_ms) as f64;
            let expected = 60_000.0 * share / step_ms as f64;
            // The last burst may not have been done.
            let burst = (500.0 * share / step_ms as f64).max(1.0);
            assert!(
                steps >= 0.97 * expected - 1.0 && steps <= expected + burst + 1.0,
                "{share}, {step_ms} ms: {steps} of {expected}"
            );
        }
    }

    #[test]
    fn what_was_granted_before_is_a_part_of_the_share() {
        let (before, after) = (granted(0.25, 2, 300, 10), granted(0.25, 2, 0, 10));
        assert!(before.abs_diff(after) <= 63, "{before} {after}");
    }

    #[test]
    fn a_launch_that_was_held_makes_up_for_nothing() {
        let mut throttle = Throttle::of(Share::new(0.5).unwrap()).unwrap();
        let step_ns = (10 * MS) as f64;
        assert_eq!(
            (throttle.due(Nanos(0), 0, step_ns), throttle.due(Nanos(1), 0, step_ns)),
            (Some(25), None)
        );
        let late = Nanos(10_000 * MS);
        assert_eq!((throttle.due(late, 0, step_ns), throttle.due(late, 25, step_ns)), (Some(25), None));
        assert_eq!(
            (throttle.next_at(0, step_ns), throttle.next_at(25, step_ns)),
            (Some(Nanos(10_400 * MS)), None)
        );
        assert!(Throttle::of(Share::FULL).is_none());
    }
}
