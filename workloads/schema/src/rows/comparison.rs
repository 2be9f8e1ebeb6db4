//! What `profile compare --json` prints: the same, measured in several runs.

use serde::{Deserialize, Serialize};

use super::labels::words;
use crate::sharing::Sharing;

/// Runs held against each other, over all that every one of them measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Their names, in the order in which they were given. Lists below have one entry for each, or for each after the first.
    pub runs: Vec<String>,
    pub rows: Vec<Compared>,
    /// How many jobs alone and seats of groups have numbers in some of the runs and not in all.
    pub left_out: u32,
    pub repeatability: Vec<Repeatability>,
}

words! {
    /// What is compared.
    Quantity {
        /// Time of a step of a job alone in ns, as `step_ns_median` of `summary.csv`; how long a program without steps runs.
        Alone = "alone",
        /// Of a member of a group, as in `interference.csv`.
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
    /// In each run.
    pub estimates: Vec<f64>,
    /// Of each run after the first over the first.
    pub ratios: Vec<f64>,
}

/// All that is compared of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeatability {
    pub quantity: Quantity,
    pub rows: u32,
    /// Of each run after the first over the first, the geometric mean over rows.
    pub ratios: Vec<RunRatio>,
    /// Of the intervals of these ratios, in which the unit is the run: one less than there are runs.
    pub degrees_of_freedom: u32,
    /// Standard deviation of single rows between runs, shifts of whole runs included.
    pub scatter_percent: f64,
    /// The same as the intervals within the runs promise; absent where none has one.
    pub promised_percent: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRatio {
    pub ratio: f64,
    /// 95 %, of the ratio of two runs that differ as these do.
    pub ci_lo: f64,
    pub ci_hi: f64,
    /// Rows in which the run is above the first.
    pub higher: u32,
}
