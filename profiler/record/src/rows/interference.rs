//! `interference.csv`: the cost of sharing, one row per member of a group. `curves.csv`: sensitivity and
//! aggressiveness of a job along the dial of a stressor.

use schema::words;
use schema::{plan::Plan, sharing::Sharing, wire::Timing};
use serde::{Deserialize, Serialize};

use super::labels::{ErrorKind, Status, Warnings};

/// The cost of a group for one of its members. Ratios are over blocks, paired within each, on the log
/// scale; intervals are 95 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    pub run: String,
    pub job: String,
    pub workload: String,
    /// A user's program with its arguments, quoted for a shell; empty for a workload.
    #[serde(default)]
    pub command: Option<String>,
    pub plan: Option<Plan>,
    pub global_batch: Option<u32>,
    pub device: String,
    pub sharing: Sharing,
    pub group: String,
    pub group_size: u32,
    /// The seat of the member, from 0.
    pub seat: u32,
    /// Number of blocks with numbers of this member and of the job alone.
    pub blocks: u32,
    /// Number of blocks in which the member or the job alone failed. The numbers below leave them out.
    #[serde(default)]
    pub blocks_failed: u32,
    /// How the boundaries of steps were found.
    pub timing: Option<Timing>,
    /// Step time, as length of the window over its steps; the geometric mean over blocks. In a group the
    /// time held counts. Alone, the job is held only before its pace is known, and that time does not
    /// count.
    pub step_ns_alone: Option<u64>,
    /// Empty under `sequential`, like all ratios of one member. A turn ends there when it is long enough to
    /// be measured, so that a member's share of the time is no effect of sharing.
    pub step_ns_together: Option<u64>,
    /// `step_ns_together` over `step_ns_alone`; below 1 if the job is faster in the group.
    pub slowdown: Option<f64>,
    pub slowdown_ci_lo: Option<f64>,
    pub slowdown_ci_hi: Option<f64>,
    /// Ratio of the 99th percentiles of step times. Empty if a block lacks one of them, and under modes
    /// with turns, where the share of held steps decides whether the percentile is that of a step or of a
    /// turn.
    pub slowdown_p99: Option<f64>,
    pub slowdown_p99_ci_lo: Option<f64>,
    pub slowdown_p99_ci_hi: Option<f64>,
    /// Throughput in the group over throughput alone, which is 1 over the slowdown.
    pub norm_throughput: Option<f64>,
    /// Sum of the members' normalised throughput; the geometric mean over blocks in which all members have
    /// numbers, and so not exactly the sum of the rows. Turns without switching cost give 1, for any length
    /// of turns.
    pub group_norm_throughput: Option<f64>,
    #[serde(default)]
    pub group_norm_throughput_ci_lo: Option<f64>,
    #[serde(default)]
    pub group_norm_throughput_ci_hi: Option<f64>,
    /// Sum of the members' peaks, in the group and alone: device memory as the driver reports it on a GPU,
    /// resident memory on a CPU device.
    pub group_memory_bytes: Option<u64>,
    pub alone_memory_sum_bytes: Option<u64>,
    /// Whether all members have numbers without a warning that makes them doubtful.
    pub valid: bool,
    pub warnings: Warnings,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}

words! {
    /// The side that is slowed down.
    Side {
        /// The stressor slows the job: its sensitivity.
        Sensitivity = "sensitivity",
        /// The job slows the stressor: its aggressiveness.
        Aggressiveness = "aggressiveness",
    }
}

/// One point of a curve: a job beside a stressor at one dial setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub run: String,
    pub job: String,
    pub device: String,
    pub sharing: Sharing,
    pub stressor: String,
    pub dial_percent: u32,
    pub side: Side,
    pub blocks: u32,
    #[serde(default)]
    pub blocks_failed: u32,
    pub slowdown: Option<f64>,
    pub slowdown_ci_lo: Option<f64>,
    pub slowdown_ci_hi: Option<f64>,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}
