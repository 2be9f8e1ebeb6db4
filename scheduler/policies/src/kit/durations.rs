//! Estimates of how long jobs run, from the jobs of an earlier run and from those of this one that have ended.

use std::time::UNIX_EPOCH;

use engine::history;
use engine::{
    cluster::JobId,
    job::JobRequest,
    view::{Change, View},
};
use model::duration::{Additive, Arrival, Durations, Feature, PastArrival, TimeOfWeek};
use schema::units::Nanos;

/// An estimator that learns the history of a run at its first view, and jobs when they end.
pub(crate) struct Learned<E> {
    estimator: E,
    has_history: bool,
}

impl<E: Durations> Learned<E> {
    pub(crate) fn new(estimator: E) -> Learned<E> {
        Learned { estimator, has_history: false }
    }

    /// Learns what has changed.
    pub(crate) fn refresh(&mut self, view: &View<'_>) {
        if !self.has_history {
            self.has_history = true;
            let history: Vec<PastArrival<'_>> = view.known.history.iter().map(history::arrival).collect();
            self.estimator.learn_all(&history);
        }
        for change in view.changes {
            if let Change::Ended(job) = *change
                && view.job(job).account.running > Nanos::ZERO
            {
                let workload = view.request(job).what.workload();
                let ran_s = view.job(job).account.running.as_secs_f64();
                self.estimator.learn(&of_request(view.request(job), &workload), ran_s);
            }
        }
    }

    /// The estimated time for which a job runs, in seconds. `None` if nothing is known of any job.
    pub(crate) fn estimate(&self, view: &View<'_>, job: JobId) -> Option<f64> {
        let asked = view.request(job);
        self.estimator.estimate(&of_request(asked, &asked.what.workload()))
    }
}

impl Learned<Additive> {
    /// The number of jobs to which the model is fitted. It changes when the model is fitted again.
    pub(crate) fn fitted_jobs(&self) -> usize {
        self.estimator.fitted_jobs()
    }

    /// The duration of the mean job in seconds, and the terms of the estimate of a job: their features, and what they multiply it by.
    pub(crate) fn terms(&self, view: &View<'_>, job: JobId) -> (f64, Vec<(String, f64)>) {
        let asked = view.request(job);
        let (mean_s, terms) = self.estimator.terms(&of_request(asked, &asked.what.workload()));
        let named = |(one, other): (Feature, Option<Feature>)| match other {
            Some(other) => format!("{} and {}", one.name(), other.name()),
            None => one.name().to_owned(),
        };
        (mean_s, terms.into_iter().map(|(features, factor)| (named(features), factor)).collect())
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
