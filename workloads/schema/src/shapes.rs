//! What `torch-worker --shapes` prints, as one line of JSON. `profile verify` reads it for a model that
//! does not fit in memory.

use serde::{Deserialize, Serialize};

/// The sizes of a workload that follow from the shapes of its tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shapes {
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Number of values that are stored and not trained.
    pub buffers: u64,
    /// Size of both in bytes.
    pub model_bytes: u64,
    /// As in the catalog, operations of one training step per sample.
    pub flops_per_sample: u64,
}

impl Shapes {
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("its fields are numbers")
    }

    pub fn from_line(line: &str) -> serde_json::Result<Shapes> {
        serde_json::from_str(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_round_trip() {
        let shapes = Shapes { parameters: 7, buffers: 1, model_bytes: 32, flops_per_sample: u64::MAX };
        let line = shapes.to_line();
        assert!(!line.contains('\n'));
        assert_eq!(Shapes::from_line(&line).unwrap(), shapes);
    }
}
