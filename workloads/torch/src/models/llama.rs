//! LLaMA (Touvron et al., 2023), LLaMA 2 and TinyLlama: a pre-norm decoder with rotary positions, a gated feed-forward
//! network, no biases, and an output layer of its own.
//!
//! Names are those of Hugging Face's `LlamaForCausalLM`, and weights are stored as it stores them. The initial weights
//! are its own, too; the paper gives none.

use schema::catalog::{self, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    nn::{
        attention::{Mask, Weighting, attend},
        dense::{Embedding, Linear},
        init::Init,
        loss::cross_entropy,
        norm::RmsNorm,
        parameters::{Parameters, Scope},
        rotary::Rotary,
    },
    workload::{Block, Sequential, Supervised},
};

const WEIGHTS: Init = Init::Normal { mean: 0.0, deviation: 0.02 };

/// Added to the mean square by the norms of LLaMA 2 and TinyLlama. LLaMA adds 1e-6.
const EPSILON: f64 = 1e-5;

/// Embedding, decoder layers, head. Takes `[samples, context]` and gives logits `[samples, context, vocabulary]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &catalog::Llama,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let (vocabulary, width) = (i64::from(model.vocabulary), i64::from(model.width));
    let mut root = parameters.root();
    // One table serves all layers.
    let rotary = Rotary::new(&mut root, i64::from(model.context), width / i64::from(model.heads))?;
    let embedding = Embedding::new(root.part("model").part("embed_tokens"), vocabulary, width, WEIGHTS)?;
    let mut blocks: Vec<Box<dyn Block>> = vec![Box::new(embedding)];
    for layer in 0..model.layers {
        let (mut trunk, rotary) = (root.part("model"), rotary.shallow_clone());
        blocks.push(Box::new(Decoder::new(trunk.part("layers").part(layer), model, rotary)?));
    }
    blocks.push(Box::new(Head {
        norm: RmsNorm::new(root.part("model").part("norm"), width, EPSILON)?,
        output: Linear::unbiased(root.part("lm_head"), width, vocabulary, WEIGHTS)?,
    }));
    Ok(Supervised::new(parameters, Sequential::new(blocks), cross_entropy, optimizer))
}

/// Attention and a feed-forward network, each behind a norm and beside a shortcut.
struct Decoder {
    norm_1: RmsNorm,
    attention: Attention,
    norm_2: RmsNorm,
    feed_forward: FeedForward,
}

impl Decoder {
    fn new(mut scope: Scope<'_>, model: &catalog::Llama, rotary: Rotary) -> Result<Self, TchError> {
        let width = i64::from(model.width);
        Ok(Self {
            norm_1: RmsNorm::new(scope.part("input_layernorm"), width, EPSILON)?,
            attention: Attention::new(scope.part("self_attn"), model, rotary)?,
            norm_2: RmsNorm::new(scope.part("post_attention_layernorm"), width, EPSILON)?,
            feed_forward: FeedForward::new(scope.part("mlp"), width, i64::from(model.feed_forward))?,
        })
    }
}

impl Block for Decoder {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let attended = input.f_add(&self.attention.forward(&self.norm_1.forward(input)?)?)?;
        attended.f_add(&self.feed_forward.forward(&self.norm_2.forward(&attended)?)?)
    }
}

/// Causal self-attention whose heads share keys and values in groups (Ainslie et al., EMNLP 2023); with as many heads of
/// these as of queries it is the usual one.
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: i64,
    key_value_heads: i64,
    rotary: Rotary,
}

impl Attention {
    fn new(mut scope: Scope<'_>, model: &catalog::Llama, rotary: Rotary) -> Result<Self, TchError> {
        let [width, heads, key_value_heads] =
            [model.width, model.heads, model.key_value_heads].map(i64::from);
        let shared = width / heads * key_value_heads;
        let mut linear = |name, outputs| Linear::unbiased(scope.part(name), width, outputs, WEIGHTS);
        Ok(Self {
            query: linear("q_proj", width)?,
            key: linear("k_proj", shared)?,
            value: linear("v_proj", shared)?,
            output: linear("o_proj", width)?,
            heads,
            key_value_heads,
            rotary,
        })
    }

    /// `[samples, heads, tokens, width / heads]`, each of the shared heads repeated for its group.
    ///
    /// Repeating costs a copy, and every fused kernel takes the result. The grouped form is taken by fewer: on the CPU,
    /// and in fp32 on CUDA, it would fall back to holding the whole matrix of scores.
    fn repeated(&self, shared: &Tensor) -> Result<Tensor, TchError> {
        if self.heads == self.key_value_heads {
            return Ok(shared.shallow_clone());
        }
        let (samples, heads, tokens, head) = shared.size4()?;
        shared
            .f_unsqueeze(2)?
            .f_expand([samples, heads, self.heads / heads, tokens, head], false)?
            .f_reshape([samples, self.heads, tokens, head])
    }
}

impl Block for Attention {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (samples, tokens, width) = input.size3()?;
        let heads = |layer: &Linear, heads| {
            layer.forward(input)?.f_reshape([samples, tokens, heads, width / self.heads])?.f_transpose(1, 2)
        };
        let query = self.rotary.turn(&heads(&self.query, self.heads)?)?;
        let key = self.rotary.turn(&heads(&self.key, self.key_value_heads)?)?;
        let value = heads(&self.value, self.key_value_heads)?;
        let (key, value) = (self.repeated(&key)?, self.repeated(&value)?);
        self.output.forward(&attend([&query, &key, &value], Mask::Causal, Weighting::default())?)
    }
}

/// SwiGLU (Shazeer, 2020).
struct FeedForward {
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl FeedForward {
    fn new(mut scope: Scope<'_>, width: i64, inner: i64) -> Result<Self, TchError> {
        Ok(Self {
            gate: Linear::unbiased(scope.part("gate_proj"), width, inner, WEIGHTS)?,
            up: Linear::unbiased(scope.part("up_proj"), width, inner, WEIGHTS)?,
            down: Linear::unbiased(scope.part("down_proj"), inner, width, WEIGHTS)?,
        })
    }
}

impl Block for FeedForward {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let gate = self.gate.forward(input)?.f_silu()?;
        self.down.forward(&gate.f_mul(&self.up.forward(input)?)?)
    }
}

/// The last norm and the output layer.
struct Head {
    norm: RmsNorm,
    output: Linear,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.output.forward(&self.norm.forward(input)?)
    }
}
