//! Totals over all jobs of a run of the scheduler: what `sched sim --json` prints, one row per policy.

use std::fmt;

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
    /// Time from arrival until a job had done 100 steps, over all jobs that did as many, however they ended.
    #[serde(default)]
    pub first_100_ns_mean: Option<u64>,
    #[serde(default)]
    pub first_100_ns_median: Option<u64>,
    pub starts: u64,
    pub pauses: u64,
    /// The number of times that the policy took a job off its devices: stops and pauses. Absent if a row has no
    /// number of stops.
    #[serde(default)]
    pub preemptions: Option<u64>,
    /// The number of starts after a stop on other devices than before. Absent if a row has none.
    #[serde(default)]
    pub migrations: Option<u64>,
    pub steps_lost: u64,
    /// What the run lacks for the policy, a sentence each. Empty for runs from before this was said.
    #[serde(default)]
    pub lacking: Vec<String>,
    /// Present if the policy was asked just now. No file has it, because it differs from run to run.
    #[serde(default)]
    pub decision_times: Option<DecisionTimes>,
    /// Present if the trace was simulated with draws.
    pub drawn: Option<DrawnTotals>,
    /// Compared with the other policies, draw by draw. Empty without draws or other policies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lower_than: Vec<LowerThan>,
}

/// In how many draws the average JCT is lower than under another policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerThan {
    /// The other policy.
    pub policy: String,
    pub draws: u32,
    /// Draws in which as many jobs ended well under both.
    pub of_draws: u32,
}

/// How long a policy took to decide, in microseconds of the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionTimes {
    /// The number of decisions.
    pub decisions: u64,
    pub mean_us: f64,
    /// The 99th percentile over decisions.
    pub p99_us: f64,
    pub max_us: f64,
}

impl fmt::Display for DecisionTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecisionTimes { decisions, mean_us, p99_us, max_us } = self;
        write!(
            f,
            "{decisions} decisions took {mean_us:.0} us on average, p99 {p99_us:.0} us, most {max_us:.0} us"
        )
    }
}
