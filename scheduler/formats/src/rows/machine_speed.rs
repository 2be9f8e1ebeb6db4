//! `speed.csv`: the speed of the machine over the time of a run, from the steps of all of its jobs.

use serde::{Deserialize, Serialize};

/// The time of a step over that of the tables, in a window of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineSpeed {
    pub from_ns: u64,
    pub until_ns: u64,
    /// Number of jobs whose steps were compared.
    pub jobs: u32,
    /// Geometric mean over jobs, weighted by the time for which each was compared: 1.1 if steps took a tenth
    /// longer.
    pub step_ratio: f64,
    /// The least and the largest ratio of a job.
    pub step_ratio_min: f64,
    pub step_ratio_max: f64,
}
