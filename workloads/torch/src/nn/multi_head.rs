//! Multi-head attention with projections of its own for queries, keys and values.

use tch::{TchError, Tensor};

use super::{
    attention::{Mask, Weighting, attend},
    dense::Linear,
};
use crate::workload::Block;

/// Multi-head attention (Vaswani et al., 2017) in which everything is projected by itself, as encoders and decoders of
/// text have it.
pub struct MultiHeadAttention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub output: Linear,
    pub heads: i64,
    pub weighting: Weighting,
}

impl MultiHeadAttention {
    /// Takes `[samples, tokens, width]` twice, for the queries and for the memory, and returns the first one's
    /// shape.
    ///
    /// # Errors
    /// Out of memory.
    pub fn forward(&self, queries: &Tensor, memory: &Tensor, mask: Mask<'_>) -> Result<Tensor, TchError> {
        let samples = queries.size()[0];
        let width = self.query.outputs();
        let split = |layer: &Linear, input: &Tensor| {
            layer.forward(input)?.f_reshape([samples, -1, self.heads, width / self.heads])?.f_transpose(1, 2)
        };
        let query = split(&self.query, queries)?;
        let key = split(&self.key, memory)?;
        let value = split(&self.value, memory)?;
        self.output.forward(&attend([&query, &key, &value], mask, self.weighting)?)
    }
}
