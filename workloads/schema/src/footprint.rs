//! The memory of a job, measured in a few steps at two small micro-batches. `torch-worker --footprint`
//! prints it as one line of JSON, and a run keeps it in the raw file `footprints.json`.
//!
//! `jobs::plans::memory` predicts the memory of any plan and batch from it.

use serde::{Deserialize, Serialize};

use crate::{device::Device, plan::Plan, wire::FailureKind};

/// The tensor memory of a single training rank, in bytes of its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footprint {
    /// Samples of the two micro-batches that were measured, ascending.
    pub micro_batches: [u32; 2],
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Size of parameters and buffers.
    pub model_bytes: u64,
    /// Memory of the stream of samples.
    pub data_bytes: u64,
    /// Memory held at the boundary of a step.
    pub persistent_bytes: u64,
    /// Peak of memory until the job was ready.
    pub building_bytes: u64,
    /// Updates in the order of a step.
    pub updates: Vec<UpdateFootprint>,
}

/// Memory of one update of a step in addition to the persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateFootprint {
    /// Size of all gradients.
    pub gradient_bytes: u64,
    /// Size of the small gradients, which data-parallel ranks keep in buckets from the start. `None` in a
    /// run of a version that kept all of them there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket_bytes: Option<u64>,
    /// Memory after the first forward pass in addition to the persistent memory, at either micro-batch: the
    /// micro-batch, and the activations for its backward pass. If a step makes several updates, this
    /// includes what another update uses: in a GAN's first update, the graph of the images that the second
    /// one learns through; in its second, the remaining micro-batches.
    pub forward_bytes: [u64; 2],
    /// Peak of a micro-step that starts without gradients, in addition to the persistent memory.
    pub first: Envelope,
    /// Peak of a micro-step that accumulates into existing gradients, in addition to these and to the
    /// persistent memory.
    pub later: Envelope,
    /// Peak of everything after the last backward pass, in addition to the same.
    pub optimizer: Envelope,
}

/// A peak as a function of the micro-batch: the maximum of straight lines, each given by its bytes at the
/// two measured micro-batches.
///
/// The memory at one moment of a step is linear in the samples, but the batch decides which moment is the
/// highest. At a small batch it may be a moment with all gradients, at a large one the end of the forward
/// pass.
pub type Envelope = Vec<[u64; 2]>;

/// The answer of the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    Measured(Footprint),
    /// As a rule the worker ran out of memory, because the micro-batches exceed the device's memory.
    Failed {
        kind: FailureKind,
        error: String,
    },
}

impl Answer {
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("its fields are strings and numbers")
    }

    pub fn from_line(line: &str) -> serde_json::Result<Answer> {
        serde_json::from_str(line)
    }
}

/// `footprints.json` of a run: the data behind its estimates of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footprints {
    pub format: u32,
    pub measured: Vec<MeasuredFootprint>,
}

/// A footprint and the job that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFootprint {
    pub workload: String,
    /// The part of the plan that affects a micro-step: the plan with one rank and one micro-batch.
    pub plan: Plan,
    pub device: Device,
    pub threads: u32,
    pub footprint: Footprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_round_trip() {
        let update = UpdateFootprint {
            gradient_bytes: 8,
            bucket_bytes: Some(4),
            forward_bytes: [3, 6],
            first: vec![[9, 18], [12, 12]],
            ..UpdateFootprint::default()
        };
        let measured = Answer::Measured(Footprint {
            micro_batches: [2, 4],
            parameters: 2,
            model_bytes: 12,
            data_bytes: 1 << 40,
            persistent_bytes: u64::MAX,
            building_bytes: 0,
            updates: vec![update, UpdateFootprint::default()],
        });
        let failed = Answer::Failed { kind: FailureKind::OutOfMemory, error: "a\nb".into() };
        for answer in [measured, failed] {
            let line = answer.to_line();
            assert!(!line.contains('\n'));
            assert_eq!(Answer::from_line(&line).unwrap(), answer);
        }
    }
}
