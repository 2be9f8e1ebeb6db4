//! What `torch-worker --shapes` prints, one line of JSON, and `profile verify` reads where a model does not fit.

use serde::{Deserialize, Serialize};

/// What a workload takes, as far as the shapes of its tensors say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shapes {
    /// Numbers that are trained.
    pub parameters: u64,
    /// Numbers that are kept and not trained.
    pub buffers: u64,
    /// Bytes of both.
    pub model_bytes: u64,
    /// As in the catalog: of one training step per sample.
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
