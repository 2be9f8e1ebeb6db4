//! The memory of a job, measured in a few steps at two small micro-batches. `torch-worker --footprint`
//! prints it as one line of JSON, and a run keeps it in the raw file `footprints.json`.
//!
//! `jobs::plans::memory` predicts the memory of any plan and batch from it.

use serde::{Deserialize, Serialize};

use crate::{device::Device, plan::Plan, wire::FailureKind};

/// The tensor memory of one rank under a plan, in bytes of its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Footprint {
    /// Samples of the two micro-batches that were measured, ascending.
    pub micro_batches: [u32; 2],
    /// Number of trainable parameters of the whole model.
    pub parameters: u64,
    /// Size of the parameters and buffers of this rank.
    pub model_bytes: u64,
    /// Memory of the stream of samples.
    pub data_bytes: u64,
    /// Memory held at the boundary of a step.
    pub persistent_bytes: u64,
    /// Peak of memory until the job was ready.
    pub building_bytes: u64,
    /// Memory after the first forward pass of a step in addition to the persistent memory, at either
    /// micro-batch: the micro-batch, and the activations for its backward pass.
    pub forward_bytes: [u64; 2],
    /// Memory after the first backward pass of a step in addition to the persistent memory: the gradients that
    /// this rank keeps.
    pub gradient_bytes: u64,
    /// Peak of a step.
    pub peak: Envelope,
}

/// A peak as a function of the micro-batch: the maximum of straight lines, each given by its bytes at the
/// two measured micro-batches.
///
/// The memory at one moment of a step is linear in the samples, but the batch decides which moment is the
/// highest. At a small batch it may be a moment with all gradients, at a large one the end of the forward
/// pass.
pub type Envelope = Vec<[u64; 2]>;

impl Footprint {
    /// The peak of the rank over the whole job, if each micro-batch has `samples` samples.
    pub fn peak_bytes(&self, samples: u32) -> u64 {
        let [small, large, samples] = [self.micro_batches[0], self.micro_batches[1], samples].map(i128::from);
        let at = |[low, high]: &[u64; 2]| {
            let (low, high) = (i128::from(*low), i128::from(*high));
            low + (high - low) * (samples - small) / (large - small).max(1)
        };
        let highest = self.peak.iter().map(at).max().unwrap_or(0);
        u64::try_from(highest).unwrap_or(0).max(self.building_bytes)
    }

    /// Activations that a forward pass leaves behind, per additional sample; `None` if they do not grow.
    pub fn activation_bytes_per_sample(&self) -> Option<u64> {
        let [small, large] = self.micro_batches.map(u64::from);
        let samples = large.checked_sub(small).filter(|samples| *samples > 0)?;
        let [small, large] = self.forward_bytes;
        large.checked_sub(small).map(|bytes| bytes / samples)
    }
}

/// The format of `footprints.json`. Format 1 was of ranks that hold the whole model.
pub const FOOTPRINTS_FORMAT: u32 = 2;

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

/// A footprint and the rank that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredFootprint {
    pub workload: String,
    /// The plan, as far as it affects memory ([`Plan::of_footprint`]).
    pub plan: Plan,
    /// The pipeline stage. Its data-parallel and tensor-parallel ranks hold as much as their first one, or less.
    pub stage: u32,
    pub device: Device,
    pub threads: u32,
    pub footprint: Footprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_round_trip() {
        let measured = Answer::Measured(footprint());
        let failed = Answer::Failed { kind: FailureKind::OutOfMemory, error: "a\nb".into() };
        for answer in [measured, failed] {
            let line = answer.to_line();
            assert!(!line.contains('\n'));
            assert_eq!(Answer::from_line(&line).unwrap(), answer);
        }
    }

    fn footprint() -> Footprint {
        Footprint {
            micro_batches: [2, 4],
            parameters: 2,
            model_bytes: 12,
            data_bytes: 1 << 40,
            persistent_bytes: 10,
            building_bytes: 15,
            forward_bytes: [3, 7],
            gradient_bytes: 4,
            peak: vec![[20, 20], [18, 24]],
        }
    }

    #[test]
    fn the_peak_is_the_highest_line_and_at_least_that_of_building() {
        let peaks: Vec<u64> = [1, 2, 3, 4, 10].map(|samples| footprint().peak_bytes(samples)).into();
        assert_eq!(peaks, [20, 20, 21, 24, 42]);
        let large = Footprint { building_bytes: 30, ..footprint() };
        assert_eq!((large.peak_bytes(2), large.peak_bytes(10)), (30, 42));
        assert_eq!(footprint().activation_bytes_per_sample(), Some(2));
    }
}
