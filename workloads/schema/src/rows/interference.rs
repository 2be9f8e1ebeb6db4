//! `interference.csv`: what jobs cost each other, one row per member of a group. `curves.csv`: what a job bears, and does to
//! others, along the dial of a stressor.

use serde::{Deserialize, Serialize};

use super::labels::{ErrorKind, Status, Warnings, words};
use crate::{plan::Plan, sharing::Sharing, wire::Timing};

/// What being in a group costs one of its members. Ratios are over blocks, paired within each, on the log scale; intervals
/// are 95 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    pub run: String,
    pub job: String,
    pub workload: String,
    /// A program of the user's with its arguments, as a shell would take it; empty for a workload.
    #[serde(default)]
    pub command: Option<String>,
    pub plan: Option<Plan>,
    pub global_batch: Option<u32>,
    pub device: String,
    pub sharing: Sharing,
    pub group: String,
    pub group_size: u32,
    /// Which of its members this is, from 0.
    pub seat: u32,
    /// Blocks that have numbers of this member, and of the job alone.
    pub blocks: u32,
    /// Blocks in which the member, or the job alone, failed: no number below is of them.
    #[serde(default)]
    pub blocks_failed: u32,
    /// How steps were found: whose times these are.
    pub timing: Option<Timing>,
    /// Time of a step: length of the window over the steps in it. The geometric mean over blocks. In a group the time in
    /// which the job was held counts; alone it is held before its pace is known, and that does not.
    pub step_ns_alone: Option<u64>,
    /// Empty under `sequential`, as all ratios of one member are: a turn ends there when it was long enough to be measured, so
    /// that a member's share of the time follows from the lengths of turns and says nothing about what sharing costs it.
    pub step_ns_together: Option<u64>,
    /// The second over the first; below 1 where the job is faster in the group.
    pub slowdown: Option<f64>,
    pub slowdown_ci_lo: Option<f64>,
    pub slowdown_ci_hi: Option<f64>,
    /// The same ratio of the 99th percentiles of step lengths. Empty where a block has none of either, and under turns, where
    /// it would be that of a step or of a turn, as more or fewer than one step in a hundred is held.
    pub slowdown_p99: Option<f64>,
    pub slowdown_p99_ci_lo: Option<f64>,
    pub slowdown_p99_ci_hi: Option<f64>,
    /// Throughput in the group over throughput alone: 1 over the slowdown.
    pub norm_throughput: Option<f64>,
    /// Sum of that over the members, of the blocks in which all of them have numbers; the geometric mean over these blocks, so
    /// that it is not quite the sum of the rows' own. 1 is what taking turns without loss gives, however long they are.
    pub group_norm_throughput: Option<f64>,
    #[serde(default)]
    pub group_norm_throughput_ci_lo: Option<f64>,
    #[serde(default)]
    pub group_norm_throughput_ci_hi: Option<f64>,
    /// The members' peaks, added up, in the group and alone: what the driver says of a GPU, resident memory on a CPU device.
    pub group_memory_bytes: Option<u64>,
    pub alone_memory_sum_bytes: Option<u64>,
    /// Whether all members have numbers that nothing makes doubtful.
    pub valid: bool,
    pub warnings: Warnings,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}

words! {
    /// Who is slowed down.
    Side {
        /// The job, by the stressor: how sensitive it is.
        Sensitivity = "sensitivity",
        /// The stressor, by the job: how aggressive the job is.
        Aggressiveness = "aggressiveness",
    }
}

/// One point of a curve: a job beside a stressor at one place of its dial.
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
