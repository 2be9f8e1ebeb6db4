//! `operators.csv`: the time of each operator in the steps that PyTorch's profiler recorded, one row per operator of a rank.

use serde::{Deserialize, Serialize};

/// The time of one operator. The launch was made for the recording, so that no other table has a number of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperatorTime {
    pub run: String,
    pub launch: String,
    pub job: String,
    pub device: String,
    pub rank: u32,
    /// Number of recorded steps.
    pub steps: u32,
    /// Time from the beginning of the recording to its end. The recording itself makes steps longer.
    pub window_ns: u64,
    /// The part of the window in which no work of the device was in progress; on the CPU, no operator on any thread.
    pub idle_percent: f64,
    /// As PyTorch names it, such as `aten::addmm`.
    pub operator: String,
    pub calls: u64,
    /// Time on the host in all calls, without operators that it calls.
    pub host_ns: u64,
    /// Time of the kernels and copies on the device that the operator itself started. Empty on the CPU.
    pub device_ns: Option<u64>,
    /// Part of the time of all operators: on the device, or without one on the host. Empty if
    /// no operator has time on the device, as where a CUDA graph started its work.
    pub share_percent: Option<f64>,
}
