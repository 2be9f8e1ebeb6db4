//! Totals over all jobs of a run of the scheduler: what `sched sim --json` prints, one row per policy.

use serde::{Deserialize, Serialize};

use super::{draw::DrawnTotals, fairness::FinishTimeFairness};

/// Times are over jobs that ended well; absent without such jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    pub policy: String,
    pub jobs: u32,
    /// The numbers of jobs that ended well, that were never admitted, and that failed or had not ended.
    pub ok: u32,
    pub unsupported: u32,
    pub failed: u32,
    #[serde(default)]
    pub ended_by_policy: u32,
    pub jct_ns_mean: Option<u64>,
    pub jct_ns_median: Option<u64>,
    /// The 99th percentile over jobs.
    pub jct_ns_p99: Option<u64>,
    pub queued_ns_mean: Option<u64>,
    pub switching_ns_mean: Option<u64>,
    /// Time from the first arrival to the last end of a job that ended well or was ended by the policy.
    pub makespan_ns: Option<u64>,
    /// Utilisation: the time in which devices were busy, over the makespan of all devices. A device is busy
    /// while at least one job runs on it. Absent if a row of a packed job has no `busy_share_ns`.
    pub util_percent: Option<f64>,
    /// Absent if no job has a `fair_ns`.
    #[serde(default)]
    pub fairness: Option<FinishTimeFairness>,
    pub starts: u64,
    pub pauses: u64,
    pub steps_lost: u64,
    /// Present if the trace was simulated with draws.
    pub drawn: Option<DrawnTotals>,
}
