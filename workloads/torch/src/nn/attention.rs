//! Attention, and a layer of it in which tokens attend to each other.

use tch::{TchError, Tensor};

use super::{dense::Linear, flops, tensor_parallel::TensorParallel};
use crate::workload::Block;

/// Multi-head self-attention (Vaswani et al., 2017), all three projections in one.
///
/// Takes and gives `[samples, tokens, width]`.
pub struct SelfAttention {
    /// Query, key and value of this rank's heads side by side.
    pub project_in: Linear,
    pub project_out: Linear,
    /// Number of heads of this rank.
    pub heads: i64,
    /// Whether a token may look at itself and those before it alone.
    pub is_causal: bool,
    /// The ranks that divide the heads.
    pub ranks: TensorParallel,
}

impl Block for SelfAttention {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (samples, tokens, _) = input.size3()?;
        let head = self.project_in.outputs() / (3 * self.heads);
        let projected = self.project_in.forward(&self.ranks.enter(input)?)?;
        let heads = projected.f_reshape([samples, tokens, 3, self.heads, head])?;
        // Three views of `[samples, heads, tokens, head]`.
        let qkv = heads.f_permute([2, 0, 3, 1, 4])?.f_unbind(0)?;
        let [query, key, value] = qkv.as_slice() else { unreachable!("the dimension has three elements") };
        let mask = if self.is_causal { Mask::Causal } else { Mask::None };
        self.project_out.forward(&attend([query, key, value], mask, Weighting::default())?)
    }
}

/// Which tokens a token may look at, and how much it prefers them.
#[derive(Clone, Copy)]
pub enum Mask<'a> {
    /// All of them alike.
    None,
    /// Itself and those before it.
    Causal,
    /// Added to the scores: `[1, heads, queries, keys]`.
    Bias(&'a Tensor),
}

/// Changes of scores besides the mask.
#[derive(Clone, Copy, Default)]
pub struct Weighting {
    /// What scores are multiplied by; `None` for the inverse root of a head's width.
    pub scale: Option<f64>,
    /// Of the weights that scores become.
    pub dropout: f64,
}

/// The values of the tokens that each may look at, weighted by how well its query goes with their keys, the heads side by
/// side again.
///
/// libtorch's fused kernels never hold the whole matrix of scores, but for dropout on the CPU, where it does as PyTorch
/// does; on CUDA its kernels draw that themselves.
///
/// Takes `[samples, heads, queries, width / heads]` and twice `[samples, heads, keys, width / heads]`, and gives
/// `[samples, queries, width]`.
///
/// # Errors
/// Out of memory.
pub fn attend(
    [query, key, value]: [&Tensor; 3],
    mask: Mask<'_>,
    weighting: Weighting,
) -> Result<Tensor, TchError> {
    let (samples, heads, queries, head) = query.size4()?;
    let (keys, width) = (key.size()[2], heads * head);
    // Scores, then the sum of values that they weight: a product of queries by keys by width each.
    flops::add(|| 2 * samples * queries * keys * width);
    let (bias, is_causal) = match mask {
        Mask::None => (None, false),
        Mask::Causal => (None, true),
        Mask::Bias(bias) => (Some(bias), false),
    };
    const GROUPED_QUERIES: bool = false;
    let Weighting { scale, dropout } = weighting;
    let mixed = Tensor::f_scaled_dot_product_attention(
        query,
        key,
        value,
        bias,
        dropout,
        is_causal,
        scale,
        GROUPED_QUERIES,
    )?;
    mixed.f_transpose(1, 2)?.f_reshape([samples, queries, width])
}
