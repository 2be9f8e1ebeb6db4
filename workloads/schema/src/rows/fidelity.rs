//! Prediction errors: a simulated run against a measured one, or two runs against each other.

use serde::{Deserialize, Serialize};

/// Differences between two runs of one trace, over the jobs that ended well in both. An error is positive
/// if the predicted value is the larger one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    pub jobs: u32,
    /// Names of jobs that failed to end well on one side or both.
    pub left_out: Vec<String>,
    /// The number of jobs that the policy ended on both sides. They are not compared.
    #[serde(default)]
    pub ended_by_policy: u32,
    pub average_jct: Times,
    /// The 99th percentile over jobs.
    pub p99_jct: Times,
    /// Time from the first arrival to the last end.
    pub makespan: Times,
    /// As in [`Totals`](super::Totals), over all jobs of a side. Absent if one of the two is not known.
    pub utilisation: Option<Utilisation>,
    /// Absolute errors of single jobs.
    pub job_jct: JobErrors,
    /// Means over jobs, which add up to the error of the average JCT.
    pub arose: Arose,
    pub per_job: Vec<JobFidelity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub predicted_ns: u64,
    pub measured_ns: u64,
    pub error_percent: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    pub predicted_percent: f64,
    pub measured_percent: f64,
    /// In percent of the measured utilisation.
    pub error_percent: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobErrors {
    pub median_percent: f64,
    /// The 90th percentile over jobs.
    pub p90_percent: f64,
    pub max_percent: f64,
}

/// The origin of an error of JCT, in parts that add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arose {
    /// Running time of jobs that were alone on their devices on both sides.
    pub step_time_ns: i64,
    /// Running time of jobs that were packed on one side or both.
    pub interference_ns: i64,
    /// Cost of the switches that both sides had.
    pub switch_cost_ns: i64,
    /// Waiting, queued or paused, and switches that only one side had, because other jobs came first or
    /// came earlier.
    pub order_ns: i64,
}

/// One job on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFidelity {
    pub name: String,
    pub jct: Times,
    pub arose: Arose,
}
