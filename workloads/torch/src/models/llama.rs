//! LLaMA (Touvron et al., 2023), LLaMA 2 and TinyLlama: a pre-norm decoder with rotary positions, a gated feed-forward
//! network, no biases, and an output layer of its own.
//!
//! Names are those of Hugging Face's `LlamaForCausalLM`, and weights are stored as it stores them. The initial weights
//! are its own, too; the paper gives none.

use std::ops::Range;

use schema::catalog::{self, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        attention::{Mask, Weighting, attend},
        dense::{Bias, Embedding, Linear},
        init::Init,
        loss::of_vocabulary,
        norm::RmsNorm,
        parameters::{Parameters, Scope},
        rotary::Rotary,
        split::Split,
        tensor_parallel::TensorParallel,
    },
    workload::{Block, Supervised},
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
    let ranks = root.tensor_parallel().clone();
    // One table serves all layers.
    let rotary = Rotary::new(&mut root, i64::from(model.context), width / i64::from(model.heads))?;
    let scope = root.part("model.embed_tokens");
    let mut links: Vec<Box<dyn Link>> =
        vec![Box::new(Embedding::of_vocabulary(scope, vocabulary, width, WEIGHTS)?)];
    for layer in 0..model.layers {
        root.begin_link(links.len());
        let (mut trunk, rotary) = (root.part("model"), rotary.shallow_clone());
        links.push(Box::new(Decoder::new(trunk.part("layers").part(layer), model, rotary)?));
    }
    root.begin_link(links.len());
    links.push(Box::new(Head {
        norm: RmsNorm::new(root.part("model").part("norm"), width, EPSILON)?,
        output: {
            let (scope, split) = (root.part("lm_head"), Split::outputs(vocabulary));
            Linear::column_parallel(scope, [width, vocabulary], WEIGHTS, Bias::None, split)?
        },
        ranks: ranks.clone(),
    }));
    Ok(Supervised::with_criterion(parameters, links, of_vocabulary(vocabulary, 0.0, ranks), optimizer))
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
///
/// Tensor-parallel ranks divide the groups. If there are fewer groups than ranks, each rank has the keys and values of all
/// groups, and the ranks divide the heads of queries.
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    /// The heads of queries of this rank among those of the groups that it has.
    heads: Range<i64>,
    /// Number of groups that this rank has, and of heads of queries that share one.
    groups: i64,
    of_group: i64,
    rotary: Rotary,
    ranks: TensorParallel,
}

impl Attention {
    fn new(mut scope: Scope<'_>, model: &catalog::Llama, rotary: Rotary) -> Result<Self, TchError> {
        let [width, heads, groups] = [model.width, model.heads, model.key_value_heads].map(i64::from);
        let ranks = scope.tensor_parallel().clone();
        let divides_groups = ranks.can_divide(groups);
        let units = if divides_groups { groups } else { heads };
        let column = |scope: Scope<'_>, outputs, units| {
            Linear::column_parallel(scope, [width, outputs], WEIGHTS, Bias::None, Split::outputs(units))
        };
        let query = column(scope.part("q_proj"), width, units)?;
        let mut shared = |name| {
            let (scope, outputs) = (scope.part(name), width / heads * groups);
            if divides_groups {
                column(scope, outputs, groups)
            } else {
                Linear::replicated(scope, width, outputs, WEIGHTS)
            }
        };
        let (key, value) = (shared("k_proj")?, shared("v_proj")?);
        let of_group = heads / groups;
        let (heads, groups) = if divides_groups {
            (0..ranks.local(groups) * of_group, ranks.local(groups))
        } else {
            (ranks.share(heads), groups)
        };
        let output = Linear::row_parallel(scope.part("o_proj"), [width, width], WEIGHTS, Bias::None, units)?;
        Ok(Self { query, key, value, output, heads, groups, of_group, rotary, ranks })
    }

    /// `[samples, heads, tokens, width / heads]`, each group's head repeated for its heads of queries.
    ///
    /// Repeating costs a copy, and every fused kernel takes the result. The grouped form is taken by fewer: on the CPU,
    /// and in fp32 on CUDA, it would fall back to holding the whole matrix of scores.
    fn repeated(&self, shared: &Tensor) -> Result<Tensor, TchError> {
        let (samples, groups, tokens, head) = shared.size4()?;
        let (Range { start, end }, of_group) = (self.heads.clone(), self.of_group);
        let repeated =
            if of_group == 1 {
                shared.shallow_clone()
            } else {
                shared
                    .f_unsqueeze(2)?
                    .f_expand([samples, groups, of_group, tokens, head], false)?
                    .f_reshape([samples, groups * of_group, tokens, head])?
            };
        if end - start == groups * of_group { Ok(repeated) } else { repeated.f_narrow(1, start, end - start) }
    }
}

impl Block for Attention {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (samples, tokens, _) = input.size3()?;
        let head = self.key.outputs() / self.groups;
        let input = self.ranks.enter(input)?;
        let heads = |layer: &Linear| {
            let shape = [samples, tokens, layer.outputs() / head, head];
            layer.forward(&input)?.f_reshape(shape)?.f_transpose(1, 2)
        };
        let query = self.rotary.turn(&heads(&self.query)?)?;
        let key = self.rotary.turn(&heads(&self.key)?)?;
        let value = heads(&self.value)?;
        let (key, value) = (self.repeated(&key)?, self.repeated(&value)?);
        self.output.forward(&attend([&query, &key, &value], Mask::Causal, Weighting::default())?)
    }
}

/// SwiGLU (Shazeer, 2020).
struct FeedForward {
    gate: Linear,
    up: Linear,
    down: Linear,
    ranks: TensorParallel,
}

impl FeedForward {
    fn new(mut scope: Scope<'_>, width: i64, inner: i64) -> Result<Self, TchError> {
        let split = Split::outputs(inner);
        let column =
            |scope: Scope<'_>| Linear::column_parallel(scope, [width, inner], WEIGHTS, Bias::None, split);
        Ok(Self {
            gate: column(scope.part("gate_proj"))?,
            up: column(scope.part("up_proj"))?,
            down: {
                let scope = scope.part("down_proj");
                Linear::row_parallel(scope, [inner, width], WEIGHTS, Bias::None, inner)?
            },
            ranks: scope.tensor_parallel().clone(),
        })
    }
}

impl Block for FeedForward {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let input = self.ranks.enter(input)?;
        let gate = self.gate.forward(&input)?.f_silu()?;
        self.down.forward(&gate.f_mul(&self.up.forward(&input)?)?)
    }
}

/// The last norm and the output layer.
struct Head {
    norm: RmsNorm,
    output: Linear,
    ranks: TensorParallel,
}

impl Block for Head {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.output.forward(&self.ranks.enter(&self.norm.forward(input)?)?)
    }
}
