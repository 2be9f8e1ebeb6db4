//! Estimates of how long jobs run, from the jobs of an earlier run and from those of this one that have ended.

use std::time::UNIX_EPOCH;

use model::duration::{Arrival, Durations, PastArrival, TimeOfWeek};
use schema::units::Nanos;

use crate::{
    cluster::JobId,
    history,
    job::JobRequest,
    view::{Change, View},
};

/// An estimator that learns the history of a run at its first view, and jobs when they end.
pub(super) struct Learned<E> {
    estimator: E,
    has_history: bool,
}

impl<E: Durations> Learned<E> {
    pub(super) fn new(estimator: E) -> Learned<E> {
        Learned { estimator, has_history: false }
    }

    /// Learns what has changed.
    pub(super) fn refresh(&mut self, view: &View<'_>) {
        if !self.has_history {
            self.has_history = true;
            for past in view.known.history {
                let PastArrival { job, duration_s, .. } = history::arrival(past);
                self.estimator.learn(&job, duration_s);
            }
        }
        for change in view.changes {
            if let Change::Ended(job) = *change
                && view.job(job).account.running > Nanos::ZERO
            {
                let workload = view.asked_by(job).what.workload();
                let ran_s = view.job(job).account.running.as_secs_f64();
                self.estimator.learn(&of_request(view.asked_by(job), &workload), ran_s);
            }
        }
    }

    /// The estimated time for which a job runs, in seconds. `None` if nothing is known of any job.
    pub(super) fn estimate(&self, view: &View<'_>, job: JobId) -> Option<f64> {
        let asked = view.asked_by(job);
        self.estimator.estimate(&of_request(asked, &asked.what.workload()))
    }
}

fn of_request<'a>(asked: &'a JobRequest, workload: &'a str) -> Arrival<'a> {
    let since = |at: std::time::SystemTime| at.duration_since(UNIX_EPOCH).ok();
    let time = asked.submitted_at.and_then(since).map(|since| TimeOfWeek::of_unix_time(since.as_secs()));
    Arrival {
        name: asked.recurring_job.as_deref().unwrap_or(&asked.name),
        user: &asked.user,
        virtual_cluster: &asked.virtual_cluster,
        workload,
        plan: asked.plan,
        devices: asked.devices,
        time,
    }
}
