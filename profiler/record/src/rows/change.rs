//! What `report compare --json` prints: what changed from one run to another.

use schema::sharing::Sharing;
use schema::words;
use serde::{Deserialize, Serialize};

use super::{
    comparison::Quantity,
    labels::{ErrorKind, Warnings},
};

/// The changes from a run A to a run B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    pub a: String,
    pub b: String,
    /// What differs between the manifests, such as the version or a setting.
    pub differences: Vec<String>,
    /// Everything that has a number in A, and in B either a number or a failure.
    pub rows: Vec<Change>,
    /// Names of jobs alone and of seats that have a number in one run only. Failures in B are in `rows`.
    pub only_in_a: Vec<String>,
    pub only_in_b: Vec<String>,
    /// Number of jobs and seats without a number in both runs: those that failed twice, and members of groups
    /// under `sequential`.
    pub without_number: u32,
    /// One for each quantity that was compared.
    pub shifts: Vec<Shift>,
}

/// One job alone, or one seat of a group. A ratio above 1 means that B is slower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub quantity: Quantity,
    pub job: String,
    pub device: String,
    pub sharing: Sharing,
    pub group: Option<String>,
    pub seat: Option<u32>,
    pub a: f64,
    /// Absent if it failed in B.
    pub b: Option<f64>,
    /// B over A, with its 95 % interval.
    pub ratio: Option<f64>,
    pub ratio_ci_lo: Option<f64>,
    pub ratio_ci_hi: Option<f64>,
    /// Of Welch's test on the log scale over launches, or over blocks for a slowdown.
    pub p: Option<f64>,
    /// The same, corrected by Holm's method for all rows that have one.
    pub p_holm: Option<f64>,
    pub verdict: Verdict,
    /// Why it failed in B.
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
    /// Warnings of either run.
    pub warnings: Warnings,
}

words! {
    /// Whether B differs from A at the level of 0.05 after the correction.
    Verdict {
        Slower = "slower",
        Faster = "faster",
        NoDifference = "no-difference",
        /// A side has no interval, or neither varies.
        CannotTell = "cannot-tell",
        /// It has a number in A, and failed in B.
        Failed = "failed",
    }
}

/// What all rows of a quantity have in common.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    pub quantity: Quantity,
    pub rows: u32,
    /// The geometric mean of their ratios.
    pub ratio: f64,
}
