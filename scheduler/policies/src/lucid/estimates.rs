//! How long a job is estimated to run, and its priority: this time times its devices, the least first.
//!
//! An estimate is made when a job arrives, and made again for the jobs that wait when the model is fitted again. It is corrected when it
//! has turned out to be wrong: a job that has run for longer is taken to run for twice as long as it has run.

use std::collections::HashMap;

use engine::{
    cluster::JobId,
    view::{Change, View},
};
use model::duration::{Additive, PAIRS, Rolling};
use schema::units::Nanos;

use super::settings::Estimator;
use crate::kit::{belief::Length, durations::Learned};

/// How many times the time that it has run a job is taken to run, if that exceeds its estimate.
const BEYOND: u64 = 2;

/// The estimates of the jobs that have arrived and not ended.
pub(super) struct Estimates {
    model: Model,
    of_jobs: HashMap<JobId, Length>,
}

enum Model {
    Additive(Learned<Additive>),
    Rolling(Learned<Rolling>),
}

impl Estimates {
    pub(super) fn new(estimator: Estimator) -> Estimates {
        let model = match estimator {
            Estimator::Additive => Model::Additive(Learned::new(Additive::new(PAIRS))),
            Estimator::Rolling => Model::Rolling(Learned::new(Rolling::default())),
        };
        Estimates { model, of_jobs: HashMap::new() }
    }

    /// Learns the jobs that have ended. Returns whether the model was fitted again.
    pub(super) fn refresh(&mut self, view: &View<'_>) -> bool {
        let is_refitted = match &mut self.model {
            Model::Additive(durations) => {
                let before = durations.fitted_jobs();
                durations.refresh(view);
                durations.fitted_jobs() != before
            }
            Model::Rolling(durations) => {
                durations.refresh(view);
                false
            }
        };
        for change in view.changes {
            if let Change::Ended(job) = change {
                self.of_jobs.remove(job);
            }
        }
        is_refitted
    }

    /// Estimates a job, anew if it has an estimate.
    pub(super) fn make(&mut self, view: &View<'_>, job: JobId) {
        let estimate_s = match &self.model {
            Model::Additive(durations) => durations.estimate(view, job),
            Model::Rolling(durations) => durations.estimate(view, job),
        };
        let estimate = estimate_s.map_or(Length::UNKNOWN, |seconds| Length(Nanos::from_secs_f64(seconds)));
        self.of_jobs.insert(job, estimate);
    }

    /// The time for which a job is estimated to run in all.
    pub(super) fn of(&self, view: &View<'_>, job: JobId) -> Length {
        let (estimate, ran) = (self.first_of(job), view.job(job).account_at(view.now).running);
        if Length(ran) > estimate { Length(Nanos(ran.0.saturating_mul(BEYOND))) } else { estimate }
    }

    /// The estimate of a job before its correction.
    pub(super) fn first_of(&self, job: JobId) -> Length {
        self.of_jobs.get(&job).copied().unwrap_or(Length::UNKNOWN)
    }

    /// The priority of a job: the estimated time times its devices.
    pub(super) fn service(&self, view: &View<'_>, job: JobId) -> u64 {
        let Length(time) = self.of(view, job);
        time.0.saturating_mul(u64::from(view.request(job).devices))
    }

    /// The duration of the mean job in seconds, and the terms of the estimate of a job. `None` if the model has no terms.
    pub(super) fn terms(&self, view: &View<'_>, job: JobId) -> Option<(f64, Vec<(String, f64)>)> {
        match &self.model {
            Model::Additive(durations) => Some(durations.terms(view, job)),
            Model::Rolling(_) => None,
        }
    }
}
