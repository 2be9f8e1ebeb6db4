//! The steps of a job that the engine knows of.

use crate::cluster::{Happened, JobId};

/// The number of steps of a job that were last reported to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedSteps(pub u64);

impl ReportedSteps {
    /// The progress to report before an event after which the job has `kept` of its steps. `None` if the engine knows of all the
    /// steps that the event loses.
    pub fn before_loss(&mut self, job: JobId, steps: u64, kept: u64) -> Option<Happened> {
        if steps <= self.0.max(kept) {
            return None;
        }
        self.0 = steps;
        Some(Happened::Progress { job, steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_reported_before_they_are_lost_and_once() {
        let job = JobId(3);
        for (reported, kept, progress) in [(5, 0, true), (0, 5, true), (9, 0, false), (0, 9, false)] {
            let mut reported = ReportedSteps(reported);
            let expected = progress.then_some(Happened::Progress { job, steps: 9 });
            assert_eq!(reported.before_loss(job, 9, kept), expected, "{reported:?} {kept}");
            assert_eq!(reported.before_loss(job, 9, kept), None);
        }
    }
}
