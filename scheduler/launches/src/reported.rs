//! The steps of a job that the engine knows of.

/// The number of steps of a job that were last reported to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedSteps(pub(super) u64);

impl ReportedSteps {
    /// Whether progress is to be reported before an event after which the job has `kept` of its steps: not if the engine knows of all
    /// the steps that the event loses.
    pub(super) fn is_due_before_loss(&mut self, steps: u64, kept: u64) -> bool {
        let is_due = steps > self.0.max(kept);
        if is_due {
            self.0 = steps;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_reported_before_they_are_lost_and_once() {
        for (reported, kept, progress) in [(5, 0, true), (0, 5, true), (9, 0, false), (0, 9, false)] {
            let mut reported = ReportedSteps(reported);
            assert_eq!(reported.is_due_before_loss(9, kept), progress, "{reported:?} {kept}");
            assert!(!reported.is_due_before_loss(9, kept));
        }
    }
}
