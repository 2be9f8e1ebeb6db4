//! Zaremba et al., 2014.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, share_problem};

/// Recurrent layers of equal width between an embedding and an output layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LstmLm {
    pub vocabulary: u32,
    pub context: u32,
    pub layers: u32,
    pub width: u32,
    /// Dropout between layers; recurrent connections have none.
    pub dropout: f64,
}

impl Family for LstmLm {
    fn samples(&self) -> Samples {
        Samples::Tokens { vocabulary: self.vocabulary, context: self.context }
    }

    fn features(&self) -> Features {
        Features::of_sequences(self.layers, self.width, self.context)
    }

    fn links(&self) -> Option<u32> {
        // The embedding, all recurrent layers and the output layer.
        Some(3)
    }

    fn convolves_or_recurs(&self) -> bool {
        true
    }

    fn problem(&self) -> Option<String> {
        share_problem("dropout", self.dropout)
    }
}
