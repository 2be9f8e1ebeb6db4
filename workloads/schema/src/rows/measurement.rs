//! `measurements.csv`: one row per job per launch. Its interval is within the launch.

use serde::{Deserialize, Serialize};

use super::labels::{Arithmetic, ErrorKind, Status, Warnings};
use crate::{
    plan::Plan,
    sharing::Sharing,
    wire::{Statistics, Timing},
};

/// What one launch showed in its steady window. Intervals are 95 %. What a device, a worker or a
/// plan cannot give is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub run: String,
    pub launch: String,
    /// The block this launch belongs to, from 0.
    pub repeat: u32,
    /// Which part of the run it was measured in: 0 as the run began, and one more each time it was gone on with.
    #[serde(default)]
    pub part: u32,
    pub job: String,
    pub workload: String,
    /// A program of the user's with its arguments, as a shell would take it; empty for a workload.
    #[serde(default)]
    pub command: Option<String>,
    pub plan: Option<Plan>,
    pub device: String,
    pub threads: u32,
    pub sharing: Sharing,
    /// The name of the group ([`crate::group::Group`]); empty for a job alone.
    pub group: Option<String>,
    /// Which of its members this is, from 0: a job may be in it twice.
    pub seat: Option<u32>,
    pub global_batch: Option<u32>,
    pub micro_batch: Option<u32>,
    pub steps_total: u64,
    /// Steps in the steady window.
    pub steps_used: u64,
    /// Steps before it.
    pub warmup_steps: Option<u64>,
    /// Whether a steady state was found.
    pub steady: Option<bool>,
    pub timing: Option<Timing>,
    pub statistics: Option<Statistics>,
    /// Of single steps: in a group with the time in which the job was held, alone without it.
    pub step_ns_median: Option<u64>,
    pub step_ns_median_ci_lo: Option<u64>,
    pub step_ns_median_ci_hi: Option<u64>,
    /// Length of the window over the steps in it: what a step costs, one with another.
    pub step_ns_mean: Option<u64>,
    /// Of single steps, where there are 20 of them, and 200; absent in a group that takes turns.
    pub step_ns_p90: Option<u64>,
    pub step_ns_p99: Option<u64>,
    /// Samples of the window over its length, all ranks together.
    pub samples_per_s: Option<f64>,
    pub data_ns_median: Option<u64>,
    pub forward_ns_median: Option<u64>,
    pub backward_ns_median: Option<u64>,
    pub sync_total_ns_median: Option<u64>,
    pub sync_exposed_ns_median: Option<u64>,
    pub optimizer_ns_median: Option<u64>,
    pub offload_ns_median: Option<u64>,
    /// From the start of the job's first process to the end of its last rank.
    pub wall_ns: Option<u64>,
    /// Length of the window: what the counters below grew in.
    pub window_ns: Option<u64>,
    /// From the start of the slowest rank's process to its `ready`.
    pub startup_ns: Option<u64>,
    pub parameters: Option<u64>,
    pub flops_per_step: Option<u64>,
    /// Model FLOPs utilisation: achieved in the window over the peak that the vendor states for this arithmetic, the fastest of
    /// those that the model is computed in.
    pub mfu_percent: Option<f64>,
    pub mfu_arithmetic: Option<Arithmetic>,
    /// Peak of tensor memory: of the largest rank, and of all ranks.
    pub peak_memory_bytes: Option<u64>,
    pub peak_memory_sum_bytes: Option<u64>,
    /// What the peak of the largest rank was estimated to be before the run began, where plans were named.
    pub memory_estimate_bytes: Option<u64>,
    /// Highest device memory of the job's processes as the driver sees it.
    pub device_memory_bytes: Option<u64>,
    /// Largest sum of the resident sets of all processes of the job at one time, those included that its programs started. Read
    /// ten times a second, and processes looked for once; at least that of the largest process. Shared pages count in each.
    pub host_rss_peak_bytes: Option<u64>,
    /// CPU time of the job's processes in the window.
    pub cpu_ns: Option<u64>,
    /// Time ready to run without a core, in the window.
    pub run_queue_wait_ns: Option<u64>,
    pub device_util_percent_mean: Option<f64>,
    /// The part of it that the driver attributes to the job's processes.
    pub job_util_percent_mean: Option<f64>,
    pub sm_util_percent: Option<f64>,
    pub sm_occupancy_percent: Option<f64>,
    pub tensor_util_percent: Option<f64>,
    pub dram_util_percent: Option<f64>,
    /// Whole device, in the window.
    pub pcie_rx_bytes: Option<u64>,
    pub pcie_tx_bytes: Option<u64>,
    pub nvlink_rx_bytes: Option<u64>,
    pub nvlink_tx_bytes: Option<u64>,
    /// Bytes handed to collectives in the window, all ranks together.
    pub sent_bytes: Option<u64>,
    pub energy_mj: Option<u64>,
    pub warnings: Warnings,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}
