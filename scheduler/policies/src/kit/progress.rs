//! The progress of jobs as of now, between their reports.
//!
//! A job that runs is predicted from its last report: it is assumed to have gone on since then at the rate that the model of the view
//! gives for its devices, its share of the time and the jobs beside it now. If the model does not know the rate, the rate between the
//! last two reports counts. A job that does not run stays where it is.

use engine::{cluster::JobId, job::Phase, view::View};
use schema::units::Nanos;

use super::belief;

/// How a job goes on from its last report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    steps: u64,
    at: Nanos,
    total: Option<u64>,
    runs: bool,
    step_ns: Option<f64>,
}

impl Progress {
    pub fn new(view: &View<'_>, job: JobId) -> Progress {
        let state = view.job(job);
        let running = state.placed().filter(|placed| placed.phase == Phase::Running);
        let step_ns = running.and_then(|placed| {
            let predicted =
                belief::step_placed(view, job, placed).map(|step| step.step_ns / placed.share.get());
            predicted.or_else(|| Some(state.measured?.step_ns)).filter(|step_ns| *step_ns > 0.0)
        });
        let (runs, total) = (running.is_some(), view.request(job).steps);
        Progress { steps: state.steps, at: state.steps_at, total, runs, step_ns }
    }

    /// The whole steps that are done by now, at most all of them.
    pub fn steps(&self, now: Nanos) -> u64 {
        let since = self.step_ns.map_or(0.0, |step_ns| now.saturating_sub(self.at).0 as f64 / step_ns);
        let steps = self.steps.saturating_add(since as u64);
        self.total.map_or(steps, |total| steps.min(total.max(self.steps)))
    }

    /// When the last step is done if the job goes on as it is, and no earlier than now. `None` if that is not known.
    pub fn ends_at(&self, now: Nanos) -> Option<Nanos> {
        let left = self.left_at_report()? as f64;
        Some((self.at + Nanos((left * self.step_ns?).round() as u64)).max(now))
    }

    /// The steps that are left by the last report. `None` for a job that runs until it ends.
    pub fn left_at_report(&self) -> Option<u64> {
        Some(self.total?.saturating_sub(self.steps))
    }

    pub fn runs(&self) -> bool {
        self.runs
    }

    /// The time of a step of a job that runs, if it is known.
    pub fn step_ns(&self) -> Option<f64> {
        self.step_ns
    }
}
