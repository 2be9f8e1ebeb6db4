//! Radford et al., 2019.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// A decoder that reads sequences of `context` tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpt2 {
    pub vocabulary: u32,
    pub context: u32,
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
}

impl Family for Gpt2 {
    fn samples(&self) -> Samples {
        Samples::Tokens { vocabulary: self.vocabulary, context: self.context }
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
        let Gpt2 { width, heads, .. } = self;
        (!width.is_multiple_of(*heads)).then(|| format!("width {width} is not a multiple of heads {heads}"))
    }
}
