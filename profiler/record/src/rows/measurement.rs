//! `measurements.csv`: one row per job per launch. Its interval is within the launch.

use schema::{
    plan::Plan,
    sharing::Sharing,
    wire::{Statistics, Timing},
};
use serde::{Deserialize, Serialize};

use super::{
    by_stage::ByStage,
    labels::{Arithmetic, ErrorKind, Status, Warnings},
};

/// The results of one launch in its steady window. Intervals are 95 %. A value that the device, the worker
/// or the plan does not provide is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub run: String,
    pub launch: String,
    /// The block this launch belongs to, from 0.
    pub repeat: u32,
    /// The part of the run that it was measured in: 0 at first, and one more after each `--resume`.
    #[serde(default)]
    pub part: u32,
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
    /// The name of the group ([`crate::group::Group`]); empty for a job alone.
    pub group: Option<String>,
    /// The seat in the group, from 0. A job may have several seats.
    pub seat: Option<u32>,
    pub global_batch: Option<u32>,
    pub micro_batch: Option<u32>,
    pub steps_total: u64,
    /// Steps in the steady window.
    pub steps_used: u64,
    /// Steps before the window.
    pub warmup_steps: Option<u64>,
    /// Whether a steady state was found.
    pub steady: Option<bool>,
    pub timing: Option<Timing>,
    pub statistics: Option<Statistics>,
    /// Median of single steps. In a group it includes the time held, alone it does not.
    pub step_ns_median: Option<u64>,
    pub step_ns_median_ci_lo: Option<u64>,
    pub step_ns_median_ci_hi: Option<u64>,
    /// Length of the window over its steps: the average cost of a step.
    pub step_ns_mean: Option<u64>,
    /// Percentiles of single steps, from 20 and from 200 steps on; absent in a group that takes turns.
    pub step_ns_p90: Option<u64>,
    pub step_ns_p99: Option<u64>,
    /// Samples of the window over its length, over all ranks.
    pub samples_per_s: Option<f64>,
    /// Medians of the phases of a step, of the rank that took longest. Empty under pipeline parallelism.
    pub data_ns_median: Option<u64>,
    pub forward_ns_median: Option<u64>,
    pub backward_ns_median: Option<u64>,
    pub sync_total_ns_median: Option<u64>,
    pub sync_exposed_ns_median: Option<u64>,
    pub optimizer_ns_median: Option<u64>,
    pub offload_ns_median: Option<u64>,
    pub tensor_ns_median: Option<u64>,
    pub gather_ns_median: Option<u64>,
    /// Medians of the phases of a step under pipeline parallelism: of each stage, those of its rank that took
    /// longest. Empty without it.
    pub data_ns_median_by_stage: Option<ByStage>,
    pub forward_ns_median_by_stage: Option<ByStage>,
    pub backward_ns_median_by_stage: Option<ByStage>,
    pub sync_total_ns_median_by_stage: Option<ByStage>,
    pub sync_exposed_ns_median_by_stage: Option<ByStage>,
    pub optimizer_ns_median_by_stage: Option<ByStage>,
    pub offload_ns_median_by_stage: Option<ByStage>,
    pub tensor_ns_median_by_stage: Option<ByStage>,
    pub pipeline_ns_median_by_stage: Option<ByStage>,
    /// Time from the start of the job's first process to the end of its last rank.
    pub wall_ns: Option<u64>,
    /// Length of the window in which the counters below grew.
    pub window_ns: Option<u64>,
    /// The part of `window_ns` in which the job did no step, because it was held between two of them. Empty for a job alone, whose
    /// window leaves out such time, and for a member that was started again.
    #[serde(default)]
    pub held_ns: Option<u64>,
    /// Time from the start of the slowest rank's process to its `ready`. For a command, the time from the start of its first process
    /// until the last of its ranks is ready, or until the first line of output that shows a step.
    pub startup_ns: Option<u64>,
    /// Time from the last step of the job, or from the order to stop if that came later, to the end of its last process. Empty if no
    /// step was seen.
    #[serde(default)]
    pub exit_ns: Option<u64>,
    pub parameters: Option<u64>,
    /// State that the optimizers of the rank with most of it hold.
    #[serde(default)]
    pub optimizer_bytes: Option<u64>,
    pub flops_per_step: Option<u64>,
    /// Model FLOPs utilisation: FLOP/s in the window over the vendor's peak for this arithmetic, which is
    /// the fastest one that the model uses.
    pub mfu_percent: Option<f64>,
    pub mfu_arithmetic: Option<Arithmetic>,
    /// Peak of tensor memory, of the largest rank and summed over all ranks.
    pub peak_memory_bytes: Option<u64>,
    pub peak_memory_sum_bytes: Option<u64>,
    /// The estimate of the largest rank's peak from before the run, if plans were named.
    pub memory_estimate_bytes: Option<u64>,
    /// Highest device memory of the job's processes, as the driver reports it.
    pub device_memory_bytes: Option<u64>,
    /// Largest resident memory of all processes of the job at one time, including the children of its
    /// programs. Memory is read ten times a second, and processes are listed once a second; at least that of
    /// the largest process. A page that processes of one rank share counts once.
    pub host_rss_peak_bytes: Option<u64>,
    /// CPU time of the job's processes in the window.
    pub cpu_ns: Option<u64>,
    /// Time ready to run without a core, in the window.
    pub run_queue_wait_ns: Option<u64>,
    pub device_util_percent_mean: Option<f64>,
    /// The part of the utilisation that the driver attributes to the job's processes; on cores, the CPU time of the job over the time of
    /// the cores.
    pub job_util_percent_mean: Option<f64>,
    pub sm_util_percent: Option<f64>,
    pub sm_occupancy_percent: Option<f64>,
    pub tensor_util_percent: Option<f64>,
    pub dram_util_percent: Option<f64>,
    /// Bytes of the whole device in the window.
    pub pcie_rx_bytes: Option<u64>,
    pub pcie_tx_bytes: Option<u64>,
    pub nvlink_rx_bytes: Option<u64>,
    pub nvlink_tx_bytes: Option<u64>,
    /// Bytes that ranks sent to each other in the window, over all ranks; see [`schema::wire::Step`].
    pub sent_bytes: Option<u64>,
    pub energy_mj: Option<u64>,
    pub warnings: Warnings,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}
