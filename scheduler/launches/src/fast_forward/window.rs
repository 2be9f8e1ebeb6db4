//! The steps of a launch since something last changed on the machine, and when their time is known.

use record::manifest::FastForward as Rule;
use schema::units::Nanos;
use statistics::{Interval, interval::within_launch_mean, steady};

use super::{Hindrance, TimedStep};

/// A window is judged again when it has grown by this share, because a search for its steady part takes time.
const GROWTH: f64 = 0.1;

/// A window without a steady part is cut to the newest steps when it is this many times as long as asked for, so that a disturbance
/// long ago does not count for ever.
const LONGEST: u64 = 8;

/// A window stands for at most this many times its length. Then the next one is measured, in case the machine drifts.
const STANDS_FOR: u64 = 50;

/// The window of one launch. Times are on the clock of the run, without earlier jumps between them: no job is skipped before all
/// windows are measured.
#[derive(Debug)]
pub(super) struct Window {
    since: Nanos,
    ends: Vec<Nanos>,
    took_ns: Vec<u64>,
    /// The number of steps at the last judgement.
    judged: usize,
    measured: Option<Measured>,
}

/// The time of a step, from the steady part of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// The mean.
    pub(super) step_ns: Interval,
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    /// The time for which it may still stand.
    pub(super) left: Nanos,
}

impl Window {
    pub(super) fn from(since: Nanos) -> Window {
        Window { since, ends: Vec::new(), took_ns: Vec::new(), judged: 0, measured: None }
    }

    pub(super) fn add(&mut self, step: TimedStep, rule: &Rule) {
        let Some(took) = step.took else { return };
        if self.measured.is_some() || step.end.saturating_sub(took) < self.since {
            return;
        }
        self.ends.push(step.end);
        self.took_ns.push(took.0);
        let is_too_long = || {
            self.took_ns.len() as u64 >= LONGEST.saturating_mul(rule.window_steps.into())
                && self.took_ns.iter().sum::<u64>() >= LONGEST.saturating_mul(window(rule).0)
        };
        // The sum takes time, and is made at few lengths.
        if self.took_ns.len().is_power_of_two() && is_too_long() {
            let half = self.took_ns.len() / 2;
            self.ends.drain(..half);
            self.took_ns.drain(..half);
            self.judged = 0;
        }
    }

    /// The time of a step, if it is known.
    pub(super) fn judge(&mut self, rule: &Rule) -> Result<&mut Measured, Hindrance> {
        if self.measured.is_none() {
            self.measured = Some(self.measure(rule)?);
        }
        Ok(self.measured.as_mut().expect("it was measured"))
    }

    fn measure(&mut self, rule: &Rule) -> Result<Measured, Hindrance> {
        let is_enough = |took: &[u64]| {
            took.len() >= rule.window_steps as usize && took.iter().sum::<u64>() >= window(rule).0
        };
        let steps = self.took_ns.len();
        if !is_enough(&self.took_ns) {
            return Err(Hindrance::Measuring);
        }
        if (steps as f64) < (1.0 + GROWTH) * self.judged as f64 {
            return Err(Hindrance::Unsteady);
        }
        self.judged = steps;
        let found = steady::detect(&self.took_ns);
        // A change at the end may last.
        if !found.is_steady() || found.end < steps {
            return Err(Hindrance::Unsteady);
        }
        let used = &self.took_ns[found.start..];
        if !is_enough(used) {
            return Err(Hindrance::Measuring);
        }
        let mean = within_launch_mean(used);
        let mean = mean.filter(|mean| mean.half_width_percent() <= rule.error_percent);
        let step_ns = mean.ok_or(Hindrance::Unsteady)?;
        let (from, until) = (self.ends[found.start].saturating_sub(Nanos(used[0])), self.ends[steps - 1]);
        Ok(Measured { step_ns, from, until, left: Nanos((until - from).0 * STANDS_FOR) })
    }
}

/// The least length of a window.
pub(super) fn window(rule: &Rule) -> Nanos {
    Nanos::from_secs_f64(rule.window_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RULE: Rule = Rule { window_s: 2.0, window_steps: 30, error_percent: 2.0 };

    /// The judgement of steps of these lengths one after another, from the time 0 on.
    fn judged(step_ms: impl IntoIterator<Item = u64>) -> Result<Measured, Hindrance> {
        let (mut window, mut end) = (Window::from(Nanos::ZERO), Nanos::ZERO);
        for ms in step_ms {
            let took = Nanos(ms * MS);
            end += took;
            window.add(TimedStep { end, took: Some(took) }, &RULE);
        }
        window.judge(&RULE).copied()
    }

    fn steps(ms: u64, count: usize) -> Vec<u64> {
        vec![ms; count]
    }

    #[test]
    fn a_window_needs_both_its_time_and_its_steps() {
        assert_eq!(judged(steps(50, 39)).err(), Some(Hindrance::Measuring), "1.95 s");
        assert_eq!(judged(steps(100, 29)).err(), Some(Hindrance::Measuring), "29 steps");
        let measured = judged(steps(50, 40)).expect("2 s and 40 steps");
        assert_eq!((measured.step_ns.estimate, measured.step_ns.n), (50.0 * MS as f64, 40));
        assert_eq!((measured.from, measured.until), (Nanos::ZERO, Nanos(2_000 * MS)));
        assert_eq!(measured.left, Nanos(100_000 * MS));
    }

    /// The first steps take three times as long. They are not a part of the window, which has to be long enough without them.
    #[test]
    fn warm_up_is_no_part_of_a_window() {
        let course = |warm, then| [steps(150, warm), steps(50, then)].concat();
        assert_eq!(judged(course(10, 30)).err(), Some(Hindrance::Measuring), "1.5 s after the warm-up");
        let measured = judged(course(10, 45)).expect("2.25 s after the warm-up");
        assert_eq!((measured.step_ns.estimate, measured.from), (50.0 * MS as f64, Nanos(1_500 * MS)));
    }

    /// The bound of a long window is beyond the range of the numbers.
    #[test]
    fn a_window_may_be_asked_to_be_as_long_as_can_be() {
        for rule in [Rule { window_steps: u32::MAX, ..RULE }, Rule { window_s: 1e12, ..RULE }] {
            let mut window = Window::from(Nanos::ZERO);
            for nth in 1..=256 {
                window.add(TimedStep { end: Nanos(nth * MS), took: Some(Nanos(MS)) }, &rule);
            }
            assert_eq!((window.took_ns.len(), window.judge(&rule).err()), (256, Some(Hindrance::Measuring)));
        }
    }

    #[test]
    fn steps_that_change_are_not_steady() {
        let slower = [steps(50, 60), steps(80, 15)].concat();
        assert_eq!(judged(slower).err(), Some(Hindrance::Unsteady), "they have just become slower");
        let mut one_pause = steps(50, 60);
        one_pause[30] = 900;
        assert_eq!(judged(one_pause).err(), Some(Hindrance::Unsteady), "the mean is uncertain");
        // Every tenth step takes twice as long, so that the mean is 55 ms.
        let regular = (0..200).map(|index| if index % 10 == 9 { 100 } else { 50 });
        let measured = judged(regular).expect("it returns regularly");
        assert_eq!(measured.step_ns.estimate, 55.0 * MS as f64);
    }

    #[test]
    fn steps_from_before_a_change_and_steps_across_a_pause_do_not_count() {
        let mut window = Window::from(Nanos(1_000 * MS));
        let took = |ms| Some(Nanos(ms * MS));
        for (end_ms, took) in
            [(900, took(50)), (1_040, took(50)), (1_090, took(50)), (1_700, None), (1_750, took(50))]
        {
            window.add(TimedStep { end: Nanos(end_ms * MS), took }, &RULE);
        }
        assert_eq!(window.ends, [Nanos(1_090 * MS), Nanos(1_750 * MS)]);
    }

    #[test]
    fn a_disturbance_long_ago_is_forgotten() {
        let mut step_ms = steps(50, 400);
        step_ms[30] = 20_000;
        assert_eq!(judged(step_ms[..200].to_vec()).err(), Some(Hindrance::Unsteady));
        assert_eq!(judged(step_ms).expect("it is among the oldest steps").step_ns.estimate, 50.0 * MS as f64);
    }
}
