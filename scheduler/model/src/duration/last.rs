//! The duration of the last job of a series: the jobs of the same user, virtual cluster and number of devices. Users submit a job again, changed
//! or as it was, so that it is a strong estimate of the next.

use std::collections::HashMap;

use super::{Arrival, Durations};

/// The estimate is the duration of the last job of the same series that has ended, or else of the same user, or else of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Last {
    series: HashMap<(String, String, u32), f64>,
    users: HashMap<String, f64>,
    all: Option<f64>,
}

impl Durations for Last {
    fn estimate(&self, job: &Arrival<'_>) -> Option<f64> {
        let of_user = || self.users.get(job.user);
        self.series.get(&series(job)).or_else(of_user).copied().or(self.all)
    }

    /// Jobs are to be learned in the order in which they end.
    fn learn(&mut self, job: &Arrival<'_>, duration_s: f64) {
        self.series.insert(series(job), duration_s);
        self.users.insert(job.user.to_owned(), duration_s);
        self.all = Some(duration_s);
    }
}

/// The jobs of which the last one counts.
pub(super) fn series(job: &Arrival<'_>) -> (String, String, u32) {
    (job.user.to_owned(), job.virtual_cluster.to_owned(), job.devices)
}
