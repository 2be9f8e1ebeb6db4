//! Jobs that load one resource of a machine, at an adjustable intensity.

use serde::{Deserialize, Serialize};

use super::{Family, Samples};
use crate::{device::Device, plan::Axis};

/// A stressor. Its dial is the global batch: the percentage of each step in which it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stress {
    pub resource: Resource,
}

/// The resources that jobs on neighbouring cores may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// A core, including its floating-point units.
    Compute,
    /// The last-level cache.
    Cache,
    /// The memory bandwidth.
    Memory,
    /// The disk of the run.
    Io,
}

const FULL_DIAL_PERCENT: u32 = 100;

impl Family for Stress {
    fn samples(&self) -> Samples {
        Samples::Nothing
    }

    fn lacks(&self, _axis: Axis) -> Option<&'static str> {
        Some("it trains no network")
    }

    fn refuses_batch(&self, global_batch: u32) -> Option<String> {
        (global_batch > FULL_DIAL_PERCENT).then(|| {
            format!(
                "the batch of a stressor is its dial in percent, and {global_batch} is more than 100; write b1 to b100"
            )
        })
    }

    fn refuses_device(&self, device: &Device) -> Option<String> {
        matches!(device, Device::Cuda(_)).then(|| {
            format!("a stressor presses on what cores share, and {device} is a GPU; name a CPU device with @on=cpu:N")
        })
    }
}
