//! The warm-up of a member before the barrier: it runs alone, and is then held.

use rig::pace::Pace;
use statistics::warm_up;

use super::{Group, Stop, seat::Seat};

impl Group<'_> {
    /// Returns when the member of a seat has warmed up and rests.
    pub(super) fn warm_up(&mut self, seat: usize) -> Result<(), Stop> {
        loop {
            self.until_ready(seat)?;
            self.until_rest(seat)?;
            if !self.seats[seat].rests() {
                // The member has ended and was started again.
                continue;
            }
            let Some(steps) = left_to(&self.seats[seat]) else { return Ok(()) };
            self.grant(seat, steps);
        }
    }

    fn until_ready(&mut self, seat: usize) -> Result<(), Stop> {
        while !self.seats[seat].is_ready() {
            self.next(None)?;
            // In its launch alone the program took steps and obeyed. The reason that it does not now is not known.
            if let Some(late) = self.seats[seat].alive().filter(|launched| launched.keeps_us_waiting()) {
                return Err(Stop::Failed { launch: late.name.clone() });
            }
        }
        Ok(())
    }
}

/// The number of steps to grant next; `None` if the member is warm. A member that ended before and was started again is not
/// warmed up further.
fn left_to(seat: &Seat) -> Option<u64> {
    let [launched] = &seat.launches[..] else { return None };
    steps_left(&launched.pace)
}

/// The number of steps left in a warm-up, at the pace so far.
fn steps_left(pace: &Pace) -> Option<u64> {
    let (done, worked_ns) = (pace.done() as usize, pace.worked_ns());
    if warm_up::is_over(done, worked_ns) {
        return None;
    }
    let left_ns = warm_up::NS.saturating_sub(worked_ns);
    match pace.step_ns() {
        Some(step_ns) if done >= warm_up::STEPS => Some((left_ns as f64 / step_ns).ceil().max(1.0) as u64),
        _ => Some((warm_up::STEPS - done) as u64),
    }
}

#[cfg(test)]
mod tests {
    use schema::{
        units::Nanos,
        wire::{Step, Timing},
    };
    use statistics::steady::{self, Class};

    use super::*;

    /// A job of 2 s a step, whose first steps take longer. What it does before it shares is what a launch alone leaves out.
    #[test]
    fn a_slow_job_counts_the_same_kind_of_steps_alone_and_in_a_group() {
        let second = 1_000_000_000;
        let of_step = |index| if index < 3 { 9 - 2 * index } else { 2 } * second;
        let mut pace = Pace::default();
        while let Some(steps) = steps_left(&pace) {
            for _ in 0..steps {
                let (index, ns) = (pace.done(), of_step(pace.done()));
                let (samples, loss, phases, sent_bytes) = (None, None, None, None);
                let dur_ns = Nanos(ns);
                pace.count(&Step { index, dur_ns, samples, loss, phases, sent_bytes, timing: Timing::Host });
            }
        }
        let step_ns: Vec<u64> = (0..12).map(of_step).collect();
        let alone = steady::of_launch(&step_ns);
        assert_eq!((alone.class, alone.start, alone.end), (Class::TooShort, pace.done() as usize, 12));
        // What is counted from the barrier on is warm, and none of it is left out once more.
        assert_eq!(steady::detect(&step_ns[alone.start..]).start, 0);
        assert!(step_ns[alone.start..].iter().all(|ns| *ns == 2 * second), "{step_ns:?}");
    }
}
