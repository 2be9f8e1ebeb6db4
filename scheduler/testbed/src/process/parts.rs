//! The progress of a program without steps of its own, in equal parts of its known duration.

use schema::units::Nanos;

/// The parts of a launch. Their number follows from the time for which the program has run, not from its work. Beside other jobs a program
/// works more slowly, so that its reported progress is too high. The last part counts when the program ends.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    count: u64,
    part: Nanos,
    /// The time for which the program has run, up to the beginning of the present run.
    ran: Nanos,
    /// The beginning of the present run; absent while it does not run.
    since: Option<Nanos>,
}

impl Parts {
    pub(super) fn new(count: u64, part: Nanos) -> Parts {
        Parts { count, part, ran: Nanos::ZERO, since: None }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Notes at `now` whether the program runs.
    pub(super) fn note(&mut self, runs: bool, now: Nanos) {
        match self.since {
            None if runs => self.since = Some(now),
            Some(since) if !runs => {
                self.ran += now.saturating_sub(since);
                self.since = None;
            }
            _ => {}
        }
    }

    /// The parts that are over at `now`, but not the last.
    pub(super) fn done(&self, now: Nanos) -> u64 {
        let ran = self.ran + self.since.map_or(Nanos::ZERO, |since| now.saturating_sub(since));
        (ran.0 / self.part.0.max(1)).min(self.count.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_over_by_the_time_for_which_the_program_ran() {
        let mut parts = Parts::new(4, Nanos(10));
        assert_eq!(parts.done(Nanos(1_000)), 0, "it has not begun");
        parts.note(true, Nanos(100));
        parts.note(true, Nanos(105));
        assert_eq!([109, 110, 129].map(|now| parts.done(Nanos(now))), [0, 1, 2]);
        parts.note(false, Nanos(125));
        assert_eq!(parts.done(Nanos(1_000)), 2, "it stands still");
        parts.note(true, Nanos(2_000));
        assert_eq!([2_004, 2_005, 9_000].map(|now| parts.done(Nanos(now))), [2, 3, 3]);
    }
}
