//! Touvron et al., 2023.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// A decoder that reads sequences of `context` tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llama {
    pub vocabulary: u32,
    pub context: u32,
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
    /// Number of heads for keys and values, each shared by a group of query heads.
    pub key_value_heads: u32,
    /// Hidden width of a feed-forward network.
    pub feed_forward: u32,
}

impl Family for Llama {
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
        let Llama { width, heads, key_value_heads, .. } = self;
        // Rotary positions rotate pairs of a head's numbers.
        if !width.is_multiple_of(*heads) || !(width / heads).is_multiple_of(2) {
            return Some(format!("width {width} is not an even multiple of heads {heads}"));
        }
        (!heads.is_multiple_of(*key_value_heads))
            .then(|| format!("heads {heads} is not a multiple of key_value_heads {key_value_heads}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_divide_the_width_into_pairs_and_share_keys_evenly() {
        let problem = |heads, key_value_heads| {
            let sizes = (9, 4, 1, 8, 8);
            let (vocabulary, context, layers, width, feed_forward) = sizes;
            Llama { vocabulary, context, layers, width, heads, key_value_heads, feed_forward }.problem()
        };
        assert_eq!(problem(4, 2), None);
        assert_eq!(problem(3, 3).as_deref(), Some("width 8 is not an even multiple of heads 3"));
        assert_eq!(problem(8, 8).as_deref(), Some("width 8 is not an even multiple of heads 8"));
        assert_eq!(problem(4, 3).as_deref(), Some("heads 4 is not a multiple of key_value_heads 3"));
    }
}
