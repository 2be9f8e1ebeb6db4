//! Vaswani et al., NeurIPS 2017.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, few, share_problem};

/// An encoder of source sentences and a decoder of target sentences over one vocabulary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transformer {
    pub vocabulary: u32,
    /// Tokens of a source sentence.
    pub source: u32,
    /// Tokens of a target sentence.
    pub target: u32,
    /// Layers of the encoder, and of the decoder.
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
    pub feed_forward: u32,
    pub dropout: f64,
}

impl Family for Transformer {
    fn samples(&self) -> Samples {
        let &Transformer { vocabulary, source, target, .. } = self;
        Samples::Translations { vocabulary, source, target }
    }

    fn features(&self) -> Features {
        Features::of_sequences(2 * self.layers, self.width, self.source + self.target)
    }

    fn links(&self) -> Option<u32> {
        // The source's embedding, the bridge from encoder to decoder, and the head are links of their own.
        Some(2 * self.layers + 3)
    }

    fn heads(&self) -> Option<u32> {
        Some(self.heads)
    }

    fn problem(&self) -> Option<String> {
        let Transformer { width, heads, .. } = self;
        (!width.is_multiple_of(*heads))
            .then(|| format!("width {width} is not a multiple of heads {heads}"))
            // Sine and cosine alternate over the dimensions of a position.
            .or_else(|| (!width.is_multiple_of(2)).then(|| format!("width {width}: use an even number")))
            .or_else(|| few("vocabulary", self.vocabulary, 8))
            // The minimum is a word and the end token.
            .or_else(|| few("source", self.source, 2))
            .or_else(|| share_problem("dropout", self.dropout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Model;

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        let problem = |width, heads, dropout| {
            let (vocabulary, source, target, layers, feed_forward) = (99, 5, 4, 1, 16);
            let sizes =
                Transformer { vocabulary, source, target, layers, width, heads, feed_forward, dropout };
            Model::Transformer(sizes).problem().unwrap_or_default()
        };
        assert_eq!(problem(8, 2, 0.1), "");
        assert_eq!(problem(8, 3, 0.1), "model.transformer: width 8 is not a multiple of heads 3");
        assert_eq!(problem(9, 3, 0.1), "model.transformer: width 9: use an even number");
        assert_eq!(problem(8, 2, -0.1), "model.transformer: dropout -0.1: use a number from 0 to below 1");
    }
}
