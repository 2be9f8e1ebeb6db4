//! Multi-head attention with projections of its own for queries, keys and values.

use tch::{TchError, Tensor};

use super::{
    attention::{Mask, Weighting, attend},
    dense::Linear,
    tensor_parallel::TensorParallel,
};
use crate::workload::Block;

/// Multi-head attention (Vaswani et al., 2017) in which everything is projected by itself, as encoders and decoders of
/// text have it.
pub struct MultiHeadAttention {
    pub query: Linear,
    pub key: Linear,
    pub value: Linear,
    pub output: Linear,
    /// Number of heads of this rank.
    pub heads: i64,
    pub weighting: Weighting,
    /// The ranks that divide the heads.
    pub ranks: TensorParallel,
}

impl MultiHeadAttention {
    /// Takes `[samples, tokens, width]`, for the queries and for the memory, which is the same tensor by default. Gives the
    /// shape of the queries.
    ///
    /// # Errors
    /// Out of memory.
    pub fn forward(
        &self,
        queries: &Tensor,
        memory: Option<&Tensor>,
        mask: Mask<'_>,
    ) -> Result<Tensor, TchError> {
        let samples = queries.size()[0];
        let queries = self.ranks.enter(queries)?;
        let memory = memory.map_or(Ok(queries.shallow_clone()), |memory| self.ranks.enter(memory))?;
        let split = |layer: &Linear, input: &Tensor| {
            let head = layer.outputs() / self.heads;
            layer.forward(input)?.f_reshape([samples, -1, self.heads, head])?.f_transpose(1, 2)
        };
        let query = split(&self.query, &queries)?;
        let key = split(&self.key, &memory)?;
        let value = split(&self.value, &memory)?;
        let attend = || attend([&query, &key, &value], mask, self.weighting);
        let attended = if self.weighting.dropout > 0.0 {
            self.ranks.draw_apart(query.device(), attend)?
        } else {
            attend()?
        };
        self.output.forward(&attended)
    }
}
