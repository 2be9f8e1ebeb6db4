//! Liu et al., 2019.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, encoder_problem};

/// BERT's encoder, trained on masked tokens alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roberta {
    pub vocabulary: u32,
    /// Number of positions that a token can have. Two more have embeddings for padding and are never
    /// trained.
    pub positions: u32,
    pub context: u32,
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
    pub dropout: f64,
}

impl Family for Roberta {
    fn samples(&self) -> Samples {
        Samples::MaskedTokens { vocabulary: self.vocabulary, context: self.context }
    }

    fn features(&self) -> Features {
        Features::of_sequences(self.layers, self.width, self.context)
    }

    fn links(&self) -> Option<u32> {
        // The embeddings come first and the head last.
        Some(self.layers + 2)
    }

    fn heads(&self) -> Option<u32> {
        Some(self.heads)
    }

    fn problem(&self) -> Option<String> {
        encoder_problem(self.vocabulary, self.positions, self.context, self.width, self.heads, self.dropout)
    }
}
