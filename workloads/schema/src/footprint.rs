//! What a job takes in memory, found by a few steps at two small micro-batches: what `torch-worker --footprint` prints,
//! one line of JSON, and what the raw file `footprints.json` of a run keeps of it.
//!
//! How the memory of any plan and batch follows from it stands in `jobs::plans::memory`.

use serde::{Deserialize, Serialize};

use crate::{device::Device, plan::Plan, wire::FailureKind};

/// The tensor memory of one rank that trains alone, in bytes of its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footprint {
    /// Samples of the two micro-batches that were tried, ascending.
    pub micro_batches: [u32; 2],
    /// Numbers that are trained.
    pub parameters: u64,
    /// Parameters and buffers.
    pub model_bytes: u64,
    /// What the stream of samples keeps.
    pub data_bytes: u64,
    /// All that is held at the boundary of a step.
    pub persistent_bytes: u64,
    /// The most that was held until the job was ready.
    pub building_bytes: u64,
    /// In the order in which a step makes its updates.
    pub updates: Vec<UpdateFootprint>,
}

/// What one update of a step takes beyond what is persistent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateFootprint {
    /// Its gradients, when all of them are there.
    pub gradient_bytes: u64,
    /// The small ones among them, which ranks that share their gradients keep in buckets from the start. `None` in a run of
    /// the time when all of them were kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket_bytes: Option<u64>,
    /// What is held when the first forward pass is done, beyond what is persistent, at either micro-batch: the micro-batch,
    /// and what the pass leaves behind for its backward pass. Where a step makes several updates, also what another one
    /// uses: in a GAN's first update, the graph of the images that the second one learns through; in its second, the
    /// micro-batches that are still to come.
    pub forward_bytes: [u64; 2],
    /// Peak of a micro-step that begins without gradients, beyond what is persistent.
    pub first: Envelope,
    /// Peak of a micro-step that adds to the gradients that are there, beyond these and what is persistent.
    pub later: Envelope,
    /// Peak of all that comes after the last backward pass, beyond the same.
    pub optimizer: Envelope,
}

/// A peak as a function of the micro-batch: the highest of straight lines, each given by its bytes at the two micro-batches
/// that were tried.
///
/// What is allocated at one moment of a step grows by so many bytes a sample; which moment is the highest depends on the
/// batch. At a small batch it may be one at which all gradients are there, at a large one the end of the forward pass.
pub type Envelope = Vec<[u64; 2]>;

/// What the worker answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    Measured(Footprint),
    /// Out of memory, as a rule: the micro-batches are larger than what the device holds.
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

/// `footprints.json` of a run: what its estimates of memory were made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footprints {
    pub format: u32,
    pub measured: Vec<MeasuredFootprint>,
}

/// A footprint and what it is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFootprint {
    pub workload: String,
    /// What of the plan changes a micro-step: the plan with one rank and one micro-batch.
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
