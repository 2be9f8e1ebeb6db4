//! The remaining time of jobs as of now, in units of the time of a step alone on what a job asks for.

use engine::{cluster::JobId, view::View};
use schema::units::Nanos;

use super::{
    belief::{self, Length},
    progress::Progress,
};

/// The remaining time of a job as a function of the present time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Remaining {
    /// By its last report, and the time of this report.
    reported: (Length, Nanos),
    /// By how much the remaining time falls in each unit of time: 0 for a job that does not run, 1 for a job that runs as fast as on what
    /// it asks for.
    falls: f64,
}

impl Remaining {
    pub(crate) fn new(view: &View<'_>, job: JobId) -> Remaining {
        let progress = Progress::new(view, job);
        let step = belief::step(view, job);
        let left = progress.left_at_report().zip(step);
        let left = left.map_or(Length::UNKNOWN, |(left, step)| Length::of_steps(left, step));
        let falls = match (progress.step_ns(), step) {
            (Some(now_ns), Some(alone)) => alone.step_ns / now_ns,
            _ => f64::from(u8::from(progress.runs())),
        };
        Remaining { reported: (left, view.job(job).steps_at), falls }
    }

    pub(crate) fn at(&self, now: Nanos) -> Length {
        let (left, at) = self.reported;
        let fallen = (now.saturating_sub(at).0 as f64 * self.falls).round() as u64;
        match left {
            Length::UNKNOWN => Length::UNKNOWN,
            Length(left) => Length(left.saturating_sub(Nanos(fallen))),
        }
    }

    /// Whether the predicted end moves as time passes: the job runs, faster or slower than on what it asks for.
    pub(crate) fn drifts(&self) -> bool {
        self.falls != 0.0 && self.falls != 1.0
    }
}
