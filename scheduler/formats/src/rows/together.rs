//! The columns of `measurements.csv` and of `profile export` from which interference is learned.

use record::rows::Status;
use schema::{plan::Plan, sharing::Sharing};
use serde::{Deserialize, Serialize};

/// A launch of a job, alone or in a group. The meaning of a column is that of [`record::rows::ExportRow`]; a table may have others, and
/// may lack those that are optional here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TogetherRow {
    pub run: String,
    pub repeat: u32,
    #[serde(default)]
    pub part: u32,
    pub job: String,
    pub workload: String,
    #[serde(default)]
    pub vary: Option<String>,
    pub plan: Option<Plan>,
    pub global_batch: Option<u32>,
    pub device: String,
    /// The name of the device; absent in tables of a run, whose manifest has it.
    #[serde(default)]
    pub device_name: Option<String>,
    pub sharing: Sharing,
    /// Empty for a job alone.
    pub group: Option<String>,
    pub seat: Option<u32>,
    pub step_ns_mean: Option<u64>,
    #[serde(default)]
    pub window_ns: Option<u64>,
    #[serde(default)]
    pub cpu_ns: Option<u64>,
    #[serde(default)]
    pub peak_memory_bytes: Option<u64>,
    pub device_util_percent_mean: Option<f64>,
    #[serde(default)]
    pub dram_util_percent: Option<f64>,
    pub status: Status,
}
