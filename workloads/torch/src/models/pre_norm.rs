//! The layer of GPT-2 and of vision transformers: a norm before each part, inside its shortcut.

use tch::{TchError, Tensor};

use crate::{
    nn::{attention::SelfAttention, dense::Linear, norm::LayerNorm, tensor_parallel::TensorParallel},
    workload::Block,
};

/// Attention and a feed-forward network, each behind a layer norm and beside a shortcut.
pub(super) struct PreNorm {
    pub(super) norm_1: LayerNorm,
    pub(super) attention: SelfAttention,
    pub(super) norm_2: LayerNorm,
    pub(super) feed_forward_in: Linear,
    pub(super) feed_forward_out: Linear,
    /// What GELU is approximated by, in PyTorch's words: `tanh` or `none`.
    pub(super) gelu: &'static str,
    /// The ranks that share the layer.
    pub(super) ranks: TensorParallel,
}

impl Block for PreNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let attended = input.f_add(&self.attention.forward(&self.norm_1.forward(input)?)?)?;
        let normed = self.ranks.enter(&self.norm_2.forward(&attended)?)?;
        let inner = self.feed_forward_in.forward(&normed)?.f_gelu(self.gelu)?;
        attended.f_add(&self.feed_forward_out.forward(&inner)?)
    }
}
