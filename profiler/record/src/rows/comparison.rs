//! What `profile compare --json` prints: a comparison of several runs.

use schema::sharing::Sharing;
use schema::words;
use serde::{Deserialize, Serialize};

/// A comparison of runs, over everything that all of them measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Names of the runs in the given order. The lists below have one entry for each, or for each after the
    /// first.
    pub runs: Vec<String>,
    pub rows: Vec<Compared>,
    /// Number of jobs alone and seats of groups that have numbers in some of the runs but not in all.
    pub left_out: u32,
    pub repeatability: Vec<Repeatability>,
}

words! {
    /// The compared quantity.
    Quantity {
        /// Step time of a job alone in ns, as `step_ns_median` of `summary.csv`; for a program without
        /// steps, its duration.
        Alone = "alone",
        /// Slowdown of a member of a group, as in `interference.csv`.
        Slowdown = "slowdown",
    }
}

/// One job alone, or one seat of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    pub quantity: Quantity,
    pub job: String,
    pub device: String,
    pub sharing: Sharing,
    pub group: Option<String>,
    pub seat: Option<u32>,
    /// One estimate per run.
    pub estimates: Vec<f64>,
    /// Ratio of each later run to the first.
    pub ratios: Vec<f64>,
}

/// The comparison of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeatability {
    pub quantity: Quantity,
    pub rows: u32,
    /// Ratio of each later run to the first, as the geometric mean over rows.
    pub ratios: Vec<RunRatio>,
    /// Degrees of freedom of the intervals of these ratios, whose unit is the run: the number of runs minus
    /// one.
    pub degrees_of_freedom: u32,
    /// Standard deviation of single rows between runs, including shifts of whole runs.
    pub scatter_percent: f64,
    /// The standard deviation that the intervals within the runs predict; absent if none has an interval.
    pub promised_percent: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRatio {
    pub ratio: f64,
    /// 95 % interval of the ratio of two such runs.
    pub ci_lo: f64,
    pub ci_hi: f64,
    /// Number of rows in which the run is above the first.
    pub higher: u32,
}
