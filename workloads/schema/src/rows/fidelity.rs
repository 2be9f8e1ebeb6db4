//! What a prediction was worth: a simulated run held against one that was measured, or two runs against each other.

use serde::{Deserialize, Serialize};

/// How far two runs of one trace are apart, over the jobs that ended well in both. Errors are those of the predicted side: positive
/// where it is the larger one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    pub jobs: u32,
    /// Names of jobs that did not end well on one side or on both.
    pub left_out: Vec<String>,
    pub average_jct: Times,
    /// The smallest that 99 of 100 jobs do not exceed.
    pub p99_jct: Times,
    /// From the first arrival to the last end.
    pub makespan: Times,
    /// How many devices ran a job, on average over the makespan: utilisation, times the devices there are.
    pub busy_devices: BusyDevices,
    /// Of single jobs, whatever the sign.
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
pub struct BusyDevices {
    pub predicted: f64,
    pub measured: f64,
    /// The same of utilisation.
    pub error_percent: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobErrors {
    pub median_percent: f64,
    /// The smallest that 9 of 10 jobs do not exceed.
    pub p90_percent: f64,
    pub max_percent: f64,
}

/// Where an error of JCT arose. The parts add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arose {
    /// In the running time of jobs that were alone on their devices on both sides.
    pub step_time_ns: i64,
    /// In the running time of jobs that were packed on one side or on both.
    pub interference_ns: i64,
    /// In what as many switches took.
    pub switch_cost_ns: i64,
    /// In waiting, queued or paused, and in switches that one side alone had: others came first, or came earlier.
    pub order_ns: i64,
}

/// One job on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFidelity {
    pub name: String,
    pub jct: Times,
    pub arose: Arose,
}
