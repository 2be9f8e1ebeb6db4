//! The number of steps that a job is granted, at the pace of its last ones.

use std::{collections::VecDeque, time::Duration};

use schema::{
    units::Nanos,
    wire::{Step, Timing},
};

use crate::POLL_TRAINING;

/// The work that a rank is granted ahead where no other amount is asked for: several of the rig's looks, so that a busy host does
/// not hold it. A job goes on for this time after enough of it was seen.
const DEFAULT_AHEAD: Duration = Duration::from_millis(1000);

/// The pace of a job is the mean of its last steps: at least this number of them, and as many as took [`PACE_NS`]. A few very
/// short steps are a poor estimate: after some fast ones a thousand times the work would be granted.
const PACE_STEPS: usize = 8;
const PACE_NS: u64 = 100_000_000;

/// The shortest interval between reads of the events of a job that is about to rest.
pub const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// The share of a job's remaining time that passes before its events are read again.
const SLEPT_SHARE: f64 = 0.9;

/// The steps of a launch so far, and its grant.
pub struct Pace {
    done: u64,
    worked_ns: u64,
    /// The durations of the last steps, without time in which the job was held.
    last_ns: VecDeque<u64>,
    /// The sum of these durations.
    sum_ns: u64,
    /// The number of steps that may be in progress after the last reported one.
    under_way: u64,
    granted: u64,
    ahead: Duration,
}

impl Default for Pace {
    /// The pace of a launch without a grant.
    fn default() -> Pace {
        Pace::ahead_by(DEFAULT_AHEAD)
    }
}

impl Pace {
    /// The pace of a job that is granted `ahead` at a time, because it must come to rest sooner and its events are read more
    /// often.
    pub fn ahead_by(ahead: Duration) -> Pace {
        Pace { done: 0, worked_ns: 0, last_ns: VecDeque::new(), sum_ns: 0, under_way: 1, granted: 0, ahead }
    }

    pub fn count(&mut self, step: &Step) {
        self.rested(step.index.saturating_add(1));
        self.last_ns.push_back(step.dur_ns.0);
        self.sum_ns += step.dur_ns.0;
        self.worked_ns += step.dur_ns.0;
        while let Some(&first_ns) = self.last_ns.front()
            && self.last_ns.len() > PACE_STEPS
            && self.sum_ns - first_ns >= PACE_NS
        {
            self.last_ns.pop_front();
            self.sum_ns -= first_ns;
        }
        // A device has the next step in its queue while it works on this one.
        let device = matches!(step.timing, Timing::DeviceEvent | Timing::HookDeviceEvent);
        self.under_way = if device { 2 } else { 1 };
    }

    /// Records the number of completed steps. A program of the user's does not report every step by an event.
    pub fn rested(&mut self, done: u64) {
        self.done = self.done.max(done);
        // The program took the first of them before it could be held.
        self.granted = self.granted.max(done);
    }

    /// The total number of steps to grant, if it is time to grant more, for a job that must not wait for the harness.
    pub fn due(&mut self) -> Option<u64> {
        let ahead = self.steps_ahead();
        // Each order wakes the supervisor, so there is one when half of the grant is used, and not one per step. The step after
        // those in progress is always granted, because its job must not wait for the harness.
        let due = self.granted < self.done + ahead.div_ceil(2).max(self.under_way + 1);
        due.then(|| {
            self.granted = self.done + ahead;
            self.granted
        })
    }

    /// Grants `steps` more and returns the total, for a job that is to be held after them.
    pub fn grant(&mut self, steps: u64) -> u64 {
        self.granted += steps;
        self.granted
    }

    pub fn done(&self) -> u64 {
        self.done
    }

    /// The duration of all steps, without time in which the job was held.
    pub fn worked_ns(&self) -> u64 {
        self.worked_ns
    }

    /// The time until the next read of events, so that the rest at the end of the grant is noticed soon: a device that waits for the
    /// harness is lost time. The job has worked since `since` on the step after the last reported one. At most [`POLL_TRAINING`].
    pub fn look_after(&self, since: Nanos, now: Nanos) -> Duration {
        let Some(step_ns) = self.step_ns() else { return POLL_TRAINING };
        let steps_left = self.granted.saturating_sub(self.done);
        let rests_at = since.0 as f64 + steps_left as f64 * step_ns;
        let left_ns = (rests_at - now.0 as f64).max(0.0);
        Duration::from_nanos((SLEPT_SHARE * left_ns) as u64).clamp(SHORTEST_LOOK, POLL_TRAINING)
    }

    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// The time of a step without time in which the job was held: the mean of the last steps. `None` before the first.
    pub fn step_ns(&self) -> Option<f64> {
        (!self.last_ns.is_empty()).then(|| self.sum_ns.max(1) as f64 / self.last_ns.len() as f64)
    }

    /// The number of steps that fill the granted time at the current pace, with those that are in progress.
    fn steps_ahead(&self) -> u64 {
        let ahead = self.step_ns().map_or(1.0, |ns| (self.ahead.as_nanos() as f64 / ns).ceil());
        self.under_way + ahead.max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Tells the next step.
    fn count(pace: &mut Pace, ns: u64, timing: Timing) {
        let (index, dur_ns) = (pace.done(), Nanos(ns));
        let (samples, loss, phases, sent_bytes) = (Some(1), None, None, None);
        pace.count(&Step { index, dur_ns, samples, loss, phases, sent_bytes, timing });
    }

    /// Grants steps of this length as they are told; what was granted when each had been told, the
    /// beginning first.
    fn grants(ns: u64, timing: Timing) -> Vec<u64> {
        let mut pace = Pace::default();
        pace.due();
        let mut granted = vec![pace.granted];
        for _ in 0..200 {
            count(&mut pace, ns, timing);
            pace.due();
            granted.push(pace.granted);
        }
        granted
    }

    #[test]
    fn the_grant_runs_ahead_by_a_second() {
        let ms = 1_000_000;
        assert_eq!(grants(10 * ms, Timing::Host)[..2], [2, 1 + 101]);
        assert_eq!(grants(5_000 * ms, Timing::Host)[..3], [2, 3, 4]);
        for timing in [Timing::DeviceEvent, Timing::HookDeviceEvent] {
            assert_eq!(grants(5_000 * ms, timing)[..3], [2, 4, 5], "one more is in its queue");
        }
        let orders: HashSet<u64> = grants(10 * ms, Timing::Host).into_iter().collect();
        assert!(orders.len() < 8, "an order for half a second of steps, not for each: {orders:?}");
    }

    #[test]
    fn a_device_whose_host_runs_ahead_never_waits_for_a_grant() {
        for (step_ms, in_flight) in [(1, 4), (25, 4), (50, 2), (100, 1), (999, 1), (1_000, 1), (60_000, 1)] {
            let granted = grants(step_ms * 1_000_000, Timing::DeviceEvent);
            for done in 2..200 {
                // The worker issues a step as it tells this one, of which we have not heard yet.
                assert!(granted[done - 1] > done as u64 + in_flight, "{step_ms} ms, {done} done");
            }
        }
    }

    #[test]
    fn a_job_that_takes_turns_is_granted_what_it_is_given_and_no_more() {
        let ms = 1_000_000;
        let mut pace = Pace::default();
        assert_eq!((pace.step_ns(), pace.grant(3)), (None, 3));
        for length in [80, 1, 2] {
            count(&mut pace, length * ms, Timing::Host);
        }
        assert_eq!((pace.done(), pace.grant(8)), (3, 11));
        for _ in 0..8 {
            count(&mut pace, 20 * ms, Timing::Host);
        }
        assert_eq!((pace.done(), pace.granted(), pace.step_ns()), (11, 11, Some(2e7)), "of the last eight");
    }

    #[test]
    fn steps_that_are_not_told_count_all_the_same() {
        let mut pace = Pace::default();
        assert_eq!(pace.due(), Some(2));
        pace.rested(40);
        assert_eq!((pace.done(), pace.granted(), pace.due()), (40, 40, Some(42)));
    }

    #[test]
    fn some_lucky_steps_are_no_pace() {
        let mut pace = Pace::default();
        for index in 0..10_000 {
            // As of small all-reduces: most take no time beside those that wait for the kernel.
            count(&mut pace, if index % 10 == 0 { 4_000_000 } else { 40_000 }, Timing::Host);
        }
        let step_ns = pace.step_ns().expect("it has done steps");
        assert!((step_ns / 436_000.0 - 1.0).abs() < 0.05, "{step_ns}");
    }
}
