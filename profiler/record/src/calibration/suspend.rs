//! What it costs to suspend a job in each of the ways that there are.

use schema::device::Device;
use serde::{Deserialize, Serialize};

use super::Measured;
use crate::suspension::Suspension;

/// What it costs a job to be suspended once in one way, beside the time that it is suspended for. Each repeat is a sum of parts of one
/// visit, as the harness sees them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuspendRow {
    /// The job in full spelling.
    pub job: String,
    pub devices: Vec<Device>,
    pub suspension: Suspension,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<SuspendCost>,
    /// The reason why there is no cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// The times of one suspension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuspendCost {
    /// From the end of a step until the device is free for others, as far as this way frees it.
    pub suspend_ns: Measured<u64>,
    /// From the order to go on to the beginning of the next step; after a start also the time by which the first step is longer than
    /// others.
    pub resume_ns: Measured<u64>,
    /// The sum of both.
    pub both_ns: Measured<u64>,
    /// Bytes that leave the device or are written, over all ranks; absent if nothing is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(deserialize_with = "super::at_least_one")]
    pub repeats: u32,
}
