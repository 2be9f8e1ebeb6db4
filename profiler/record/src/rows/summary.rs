//! `summary.csv`: one row per job, device, sharing and group. Its interval is between launches.

use schema::{plan::Plan, sharing::Sharing, wire::Statistics};
use serde::{Deserialize, Serialize};

use super::labels::{Arithmetic, ErrorKind, Status, Warnings};

/// The results of all launches of one job under the same conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub run: String,
    pub job: String,
    pub workload: String,
    /// A user's program with its arguments, quoted for a shell; empty for a workload.
    #[serde(default)]
    pub command: Option<String>,
    /// The values of `--vary` in the command, as `lr=0.1 width=64`; empty without `--vary`.
    #[serde(default)]
    pub vary: Option<String>,
    pub plan: Option<Plan>,
    pub device: String,
    pub threads: u32,
    pub sharing: Sharing,
    pub group: Option<String>,
    pub seat: Option<u32>,
    pub global_batch: Option<u32>,
    /// Number of launches with numbers, and without.
    pub repeats: u32,
    pub repeats_failed: u32,
    pub statistics: Option<Statistics>,
    /// The centre of the launches' medians, with its 95 % interval over launches.
    pub step_ns_median: Option<u64>,
    pub step_ns_median_ci_lo: Option<u64>,
    pub step_ns_median_ci_hi: Option<u64>,
    /// Half of the interval over the estimate.
    pub half_width_percent: Option<f64>,
    /// The geometric mean of the launches' means, which are window over steps.
    pub step_ns_mean: Option<u64>,
    /// The median over the launches with enough steps for a percentile.
    pub step_ns_p90: Option<u64>,
    pub step_ns_p99: Option<u64>,
    /// The mean of the launches' rates.
    pub samples_per_s: Option<f64>,
    /// Duration of a program without steps, with its 95 % interval over launches. In that case
    /// `half_width_percent` belongs to it.
    pub wall_ns: Option<u64>,
    pub wall_ns_ci_lo: Option<u64>,
    pub wall_ns_ci_hi: Option<u64>,
    pub startup_ns: Option<u64>,
    #[serde(default)]
    pub exit_ns: Option<u64>,
    pub parameters: Option<u64>,
    #[serde(default)]
    pub optimizer_bytes: Option<u64>,
    pub flops_per_step: Option<u64>,
    pub mfu_percent: Option<f64>,
    pub mfu_arithmetic: Option<Arithmetic>,
    pub peak_memory_bytes: Option<u64>,
    /// The estimate of the peak from before the run.
    pub memory_estimate_bytes: Option<u64>,
    pub device_memory_bytes: Option<u64>,
    pub host_rss_peak_bytes: Option<u64>,
    pub device_util_percent_mean: Option<f64>,
    pub job_util_percent_mean: Option<f64>,
    pub warnings: Warnings,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}
