//! Raffel et al., JMLR 2020.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, few, share_problem};

/// An encoder of texts with gaps and a decoder of the missing spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct T5 {
    pub vocabulary: u32,
    /// Tokens of a text with each span replaced by a sentinel.
    pub source: u32,
    /// Tokens of the spans, each after its sentinel. A quarter of them are sentinels, at most 100.
    pub target: u32,
    /// Layers of the encoder, and of the decoder.
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
    /// Width of a head. The heads together may differ from the model's width.
    pub head_width: u32,
    pub feed_forward: u32,
    pub dropout: f64,
}

impl Family for T5 {
    fn samples(&self) -> Samples {
        let &T5 { vocabulary, source, target, .. } = self;
        Samples::Spans { vocabulary, source, target }
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
        let &T5 { vocabulary, source, target, dropout, .. } = self;
        let short = || format!("source {source} is shorter than target {target}; a text is longer than its gaps");
        few("vocabulary", vocabulary, 128)
            .or_else(|| few("target", target, 5))
            .or_else(|| (source < target).then(short))
            .or_else(|| share_problem("dropout", dropout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Model;

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        let problem = |vocabulary, source, target| {
            let (layers, width, heads, head_width, feed_forward, dropout) = (1, 8, 2, 3, 16, 0.0);
            let sizes =
                T5 { vocabulary, source, target, layers, width, heads, head_width, feed_forward, dropout };
            Model::T5(sizes).problem().unwrap_or_default()
        };
        assert_eq!(problem(128, 9, 9), "");
        assert_eq!(problem(127, 9, 9), "model.t5: vocabulary 127: use 128 or more");
        assert_eq!(problem(128, 9, 4), "model.t5: target 4: use 5 or more");
        assert!(problem(128, 8, 9).starts_with("model.t5: source 8 is shorter than target 9"));
    }
}
