//! What `report compare --json` prints: what changed from one run to another.

use schema::sharing::Sharing;
use schema::words;
use serde::{Deserialize, Serialize};

use super::labels::{ErrorKind, Warnings};

/// The changes from a run A to a run B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    pub a: String,
    pub b: String,
    /// What differs between the manifests, such as the version or a setting.
    pub differences: Vec<String>,
    /// The bound of `--fail-above` as a part, such as 0.05.
    pub fail_above: Option<f64>,
    /// Everything that has a number in A.
    pub rows: Vec<Change>,
    /// Names of jobs alone and of seats that have a number in one run only, without failures in B. Those of A are in `rows`,
    /// too; those of B count for nothing.
    pub only_in_a: Vec<String>,
    pub only_in_b: Vec<String>,
    /// Number of jobs and seats without a number in both runs: those that failed twice, and members of groups
    /// under `sequential`.
    pub without_number: u32,
    /// One for each quantity that was compared.
    pub shifts: Vec<Shift>,
}

/// One quantity of one job alone, or one seat of a group. A ratio above 1 means that B is slower, or takes more memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub quantity: ChangeQuantity,
    pub job: String,
    pub device: String,
    pub sharing: Sharing,
    pub group: Option<String>,
    pub seat: Option<u32>,
    pub a: f64,
    /// Absent if B has no number.
    pub b: Option<f64>,
    /// B over A, with its 95 % interval.
    pub ratio: Option<f64>,
    pub ratio_ci_lo: Option<f64>,
    pub ratio_ci_hi: Option<f64>,
    /// Of Welch's test on the log scale over launches, or over blocks for a slowdown. For two jobs of one run, of the paired t test over
    /// blocks.
    pub p: Option<f64>,
    /// The same, corrected by Holm's method for all rows that have one.
    pub p_holm: Option<f64>,
    pub verdict: Verdict,
    /// The smallest ratio above 1 that would have been found with a probability of 80 %, if no other row changed and the
    /// measured deviations are the true ones. Absent also above a million.
    pub detectable_ratio: Option<f64>,
    /// The number of launches, or blocks, of each run with which this row would be told with a probability of 80 %. With
    /// `fail_above`, to tell that a row without a change is within the bound; otherwise, to find a change of 5 %. Absent
    /// also if that takes more than a thousand.
    pub launches_needed: Option<u32>,
    /// The verdict on the bound of `--fail-above`.
    pub bound_verdict: Option<BoundVerdict>,
    /// The p-value of the one-sided test that the ratio is above the bound, corrected by Holm's method.
    pub p_worse_holm: Option<f64>,
    /// Why it failed in B.
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
    /// Warnings of either run.
    pub warnings: Warnings,
}

words! {
    /// What is compared.
    ChangeQuantity {
        /// Step time of a job alone in ns, as `step_ns_median` of `summary.csv`; for a program without
        /// steps, its duration.
        Alone = "alone",
        /// Peak of tensor memory of a job alone in bytes: the geometric mean of `peak_memory_bytes` over its launches in
        /// `measurements.csv`.
        PeakMemory = "peak-memory",
        /// The same of `host_rss_peak_bytes`, for a job that reports no tensor memory.
        HostMemory = "host-memory",
        /// Slowdown of a member of a group, as in `interference.csv`.
        Slowdown = "slowdown",
    }
}

impl ChangeQuantity {
    pub fn is_memory(self) -> bool {
        matches!(self, ChangeQuantity::PeakMemory | ChangeQuantity::HostMemory)
    }
}

words! {
    /// Whether B differs from A at the level of 0.05 after the correction.
    Verdict {
        Slower = "slower",
        Faster = "faster",
        /// B takes more memory, or less.
        More = "more",
        Less = "less",
        /// All launches of both runs take the same memory.
        Equal = "equal",
        /// No difference is shown. The interval says which ratios are possible; without it, a run has too few launches, or no
        /// time varies.
        CannotTell = "cannot-tell",
        /// It has a number in A, and failed in B.
        Failed = "failed",
        /// It has a number in A, and B was to measure it and has none, for example because B was interrupted.
        Missing = "missing",
        /// It has a number in A, and the manifest of B does not name it.
        NotRequested = "not-requested",
    }
}

words! {
    /// Whether a row is worse than `--fail-above` allows.
    BoundVerdict {
        /// The whole 95 % interval of the ratio is below 1 plus the bound; memory that does not vary is at most there.
        Within = "within",
        /// The ratio is above 1 plus the bound at the one-sided level of 0.025 after the correction, or memory that does not
        /// vary is above it, or the row is `failed`, or a time or slowdown is `missing`.
        Worse = "worse",
        /// Neither is shown, or the row is `not-requested`, or memory is `missing`.
        CannotTell = "cannot-tell",
    }
}

/// What all rows of a quantity have in common.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    pub quantity: ChangeQuantity,
    pub rows: u32,
    /// The geometric mean of their ratios.
    pub ratio: f64,
}
