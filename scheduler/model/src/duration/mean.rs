//! The mean of durations.

use super::{Arrival, Durations};

/// The mean of the jobs that were learned, whatever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    sum_s: f64,
    jobs: u32,
}

impl Mean {
    pub(super) fn add(&mut self, duration_s: f64) {
        self.sum_s += duration_s;
        self.jobs += 1;
    }

    /// Of the jobs of both.
    pub(super) fn and(self, other: Mean) -> Mean {
        Mean { sum_s: self.sum_s + other.sum_s, jobs: self.jobs + other.jobs }
    }

    /// The mean in seconds; `None` of no jobs.
    pub(super) fn value(self) -> Option<f64> {
        (self.jobs > 0).then(|| self.sum_s / f64::from(self.jobs))
    }
}

impl Durations for Mean {
    fn estimate(&self, _job: &Arrival<'_>) -> Option<f64> {
        self.value()
    }

    fn learn(&mut self, _job: &Arrival<'_>, duration_s: f64) {
        self.add(duration_s);
    }
}
