//! Self-attention.

use tch::{TchError, Tensor};

use super::{dense::Linear, flops};
use crate::workload::Block;

/// Multi-head self-attention (Vaswani et al., 2017) through libtorch's fused kernel, which never holds the whole
/// matrix of scores.
///
/// Takes and gives `[samples, tokens, width]`.
pub struct SelfAttention {
    /// Query, key and value side by side: `[3 * width, width]`.
    pub project_in: Linear,
    pub project_out: Linear,
    /// Divides `width`.
    pub heads: i64,
    /// Whether a token sees only those before it and itself.
    pub causal: bool,
}

impl Block for SelfAttention {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (samples, tokens, width) = input.size3()?;
        let shape = [samples, tokens, 3, self.heads, width / self.heads];
        let heads = self.project_in.forward(input)?.f_reshape(shape)?;
        // Three views of `[samples, heads, tokens, width / heads]`.
        let qkv = heads.f_permute([2, 0, 3, 1, 4])?.f_unbind(0)?;
        let [query, key, value] = qkv.as_slice() else { unreachable!("the dimension has three elements") };
        self.project_out.forward(&attend(query, key, value, self.causal)?)
    }
}

/// The values of all tokens, or where `causal` of each token and those before it, weighted by how well its query goes with
/// their keys, the heads side by side again.
///
/// Takes three times `[samples, heads, tokens, width / heads]` and gives `[samples, tokens, width]`.
///
/// # Errors
/// Out of memory.
pub fn attend(query: &Tensor, key: &Tensor, value: &Tensor, causal: bool) -> Result<Tensor, TchError> {
    let (samples, heads, tokens, head) = query.size4()?;
    let width = heads * head;
    // Scores, then the sum of values that they weight: a product of tokens by tokens by width each.
    flops::add(|| 2 * samples * tokens * tokens * width);
    const NO_DROPOUT: f64 = 0.0;
    const GROUPED_QUERIES: bool = false;
    let mixed = Tensor::f_scaled_dot_product_attention(
        query,
        key,
        value,
        None::<&Tensor>,
        NO_DROPOUT,
        causal,
        None,
        GROUPED_QUERIES,
    )?;
    mixed.f_transpose(1, 2)?.f_reshape([samples, tokens, width])
}
