//! The bound of a wait: jobs by the time at which they will have waited for it.

use std::collections::{BTreeSet, HashMap};

use engine::{cluster::JobId, job::State, view::View};
use schema::units::Nanos;

/// The jobs that wait and have not waited for the bound.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    in_order: BTreeSet<(Nanos, JobId)>,
    of_jobs: HashMap<JobId, Nanos>,
}

impl Bounds {
    /// The time at which a waiting job has waited for the bound in all. `None` without a bound.
    pub(super) fn of(view: &View<'_>, bound: Option<Nanos>, job: JobId) -> Option<Nanos> {
        let State::Waiting { since } = view.job(job).state else { return None };
        Some(since + bound?.saturating_sub(view.job(job).account.queued))
    }

    pub(super) fn put(&mut self, job: JobId, at: Nanos) {
        self.remove(job);
        self.in_order.insert((at, job));
        self.of_jobs.insert(job, at);
    }

    pub(super) fn remove(&mut self, job: JobId) {
        if let Some(at) = self.of_jobs.remove(&job) {
            self.in_order.remove(&(at, job));
        }
    }

    /// Removes the jobs that have waited for the bound, each with the time since which.
    pub(super) fn take_over(&mut self, now: Nanos) -> Vec<(Nanos, JobId)> {
        let mut over = Vec::new();
        while let Some((at, job)) = self.in_order.first().copied().filter(|(at, _)| *at <= now) {
            self.remove(job);
            over.push((at, job));
        }
        over
    }
}
