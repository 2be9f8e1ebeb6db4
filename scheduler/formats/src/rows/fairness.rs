//! Finish-time fairness over the jobs of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Statistics of rho, the completion time of a job over the time that it would take alone on its fair share of the
/// devices. They are over the jobs that ended well and whose `fair_ns` is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinishTimeFairness {
    pub jobs: u32,
    pub rho_mean: f64,
    pub rho_median: f64,
    /// The 99th percentile over jobs.
    pub rho_p99: f64,
    pub rho_max: f64,
    /// The part of these jobs with a rho above 1, to five digits.
    pub unfair_percent: f64,
}

impl fmt::Display for FinishTimeFairness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FinishTimeFairness { jobs, rho_mean, rho_median, rho_p99, rho_max, unfair_percent } = self;
        write!(
            f,
            "finish-time fairness of {jobs} jobs: mean {rho_mean:.2}, median {rho_median:.2}, p99 {rho_p99:.2}, most {rho_max:.2}; \
             {unfair_percent:.1} % unfair"
        )
    }
}
