//! He et al., WWW 2017.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples};

/// A generalised matrix factorisation of `factors` beside an MLP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neumf {
    pub users: u32,
    pub items: u32,
    pub factors: u32,
    /// Widths of the layers; the first is that of the user's and the item's embedding together.
    pub mlp: Vec<u32>,
}

impl Family for Neumf {
    fn samples(&self) -> Samples {
        Samples::Ratings { users: self.users, items: self.items }
    }

    fn features(&self) -> Features {
        // The first width is that of the input. It stands here for the output layer, which `mlp` does not
        // list.
        let hidden = self.mlp.iter().skip(1).max().copied();
        Features { layers: Some(self.mlp.len() as u32), hidden, ..Features::default() }
    }

    fn links(&self) -> Option<u32> {
        // The embeddings, the MLP and the prediction.
        Some(3)
    }

    fn problem(&self) -> Option<String> {
        match self.mlp.first() {
            None => Some("mlp is empty; its first number is the width of two embeddings".into()),
            Some(first) => (!first.is_multiple_of(2))
                .then(|| format!("mlp starts with {first}, which two embeddings cannot share")),
        }
    }
}
