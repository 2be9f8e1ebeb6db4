//! T5 1.0 (Raffel et al., JMLR 2020): an encoder and a decoder, trained to fill in missing spans.
//!
//! Names are those of Hugging Face's `T5ForConditionalGeneration`: a norm before each part and beside its shortcut, no
//! biases, one matrix for both embeddings and the output. Scores of attention are not divided by the root of a head's
//! width; the initial weights of the queries are instead.

use schema::catalog::{self, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        attention::{Mask, Weighting},
        dense::{Bias, Embedding, Linear},
        dropout::Dropout,
        init::Init,
        loss::of_vocabulary,
        multi_head::MultiHeadAttention,
        norm::RmsNorm,
        parameters::{Parameters, Scope},
        relative_bias::RelativeBias,
        relu_in_place,
        split::Split,
        tensor_parallel::TensorParallel,
    },
    workload::{Block, Supervised},
};

/// Embeddings and layers of the encoder, then of the decoder, then the head. Takes the source and, behind it, the target's
/// tokens before each that is to be predicted, `[samples, source + target]`, and gives logits
/// `[samples, target, vocabulary]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &catalog::T5,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &catalog::T5 { vocabulary, source, target, layers, width, heads, .. } = model;
    let [vocabulary, width, source, target] = [vocabulary, width, source, target].map(i64::from);
    let (bridge, last) = (1 + layers as usize, 2 + 2 * layers as usize);
    let mut root = parameters.root();
    let ranks = root.tensor_parallel().clone();
    let dropout = Dropout(model.dropout);
    let embedding = Embedding::of_vocabulary(root.part("shared"), vocabulary, width, Init::normal(1.0))?;
    root.begin_link(bridge);
    let of_target = embedding.also(&mut root);
    root.begin_link(last);
    let output = Linear::tied_to(&mut root, &embedding);

    let norm = |scope: Scope<'_>| RmsNorm::new(scope, width, EPSILON);
    // Of a stack's positions, which its first layer holds and all of them use.
    let bias = |mut stack: Scope<'_>, tokens, causal| {
        let mut layer = stack.part("block.0.layer.0.SelfAttention");
        let init = inverse_root(width);
        RelativeBias::new(layer.part("relative_attention_bias"), heads.into(), init, tokens, causal)
    };
    root.begin_link(0);
    let source_bias = bias(root.part("encoder"), source, false)?;
    let mut links: Vec<Box<dyn Link>> =
        vec![Box::new(Start { embedding, bias: source_bias, dropout, source, target })];
    let mut scope = root.part("encoder");
    for layer in 0..layers {
        scope.begin_link(links.len());
        let mut scope = scope.part(format_args!("block.{layer}.layer"));
        links.push(Box::new(Encoder {
            attention: Attention::new(scope.part(0), "SelfAttention", model)?,
            feed_forward: FeedForward::new(scope.part(1), model)?,
        }));
    }
    scope.begin_link(bridge);
    let source_norm = norm(scope.part("final_layer_norm"))?;
    let target_bias = bias(root.part("decoder"), target, true)?;
    links.push(Box::new(Bridge { norm: source_norm, embedding: of_target, bias: target_bias, dropout }));
    let mut scope = root.part("decoder");
    for layer in 0..layers {
        scope.begin_link(links.len());
        let mut scope = scope.part(format_args!("block.{layer}.layer"));
        links.push(Box::new(Decoder {
            self_attention: Attention::new(scope.part(0), "SelfAttention", model)?,
            cross_attention: Attention::new(scope.part(1), "EncDecAttention", model)?,
            feed_forward: FeedForward::new(scope.part(2), model)?,
        }));
    }
    scope.begin_link(last);
    let norm = norm(scope.part("final_layer_norm"))?;
    links.push(Box::new(Head { norm, output, dropout, ranks: ranks.clone() }));
    Ok(Supervised::with_criterion(parameters, links, of_vocabulary(vocabulary, 0.0, ranks), optimizer))
}

/// Gives the embedded source, the bias of its positions, and the tokens of the target for the bridge.
struct Start {
    embedding: Embedding,
    bias: RelativeBias,
    dropout: Dropout,
    source: i64,
    target: i64,
}

impl Link for Start {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [tokens] = carry else { unreachable!("the inputs are one tensor") };
        let source = self.embedding.forward(&tokens.f_narrow(1, 0, self.source)?)?;
        let target = tokens.f_narrow(1, self.source, self.target)?;
        Ok(vec![self.dropout.forward(&source)?, self.bias.forward()?, target])
    }
}

struct Encoder {
    attention: Attention,
    feed_forward: FeedForward,
}

impl Link for Encoder {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [source, bias, target] = carry else { unreachable!("as `Start` gives it") };
        let source = self.feed_forward.forward(&self.attention.forward(source, None, Mask::Bias(bias))?)?;
        Ok(vec![source, bias.shallow_clone(), target.shallow_clone()])
    }
}

/// Ends the encoder and begins the decoder: gives the embedded target, the bias of its positions, and the encoded source.
struct Bridge {
    norm: RmsNorm,
    embedding: Embedding,
    bias: RelativeBias,
    dropout: Dropout,
}

impl Link for Bridge {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [source, _, target] = carry else { unreachable!("as `Encoder` gives it") };
        let source = self.dropout.forward(&self.norm.forward(source)?)?;
        let target = self.dropout.forward(&self.embedding.forward(target)?)?;
        Ok(vec![target, self.bias.forward()?, source])
    }
}

struct Decoder {
    self_attention: Attention,
    cross_attention: Attention,
    feed_forward: FeedForward,
}

impl Link for Decoder {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [target, bias, source] = carry else { unreachable!("as `Bridge` gives it") };
        let target = self.self_attention.forward(target, None, Mask::Bias(bias))?;
        let target = self.cross_attention.forward(&target, Some(source), Mask::None)?;
        let target = self.feed_forward.forward(&target)?;
        Ok(vec![target, bias.shallow_clone(), source.shallow_clone()])
    }
}

/// The last norm and the output layer, which shares its weight with both embeddings.
struct Head {
    norm: RmsNorm,
    output: Linear,
    dropout: Dropout,
    ranks: TensorParallel,
}

impl Link for Head {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [target, ..] = carry else { unreachable!("as `Decoder` gives it") };
        let target = self.dropout.forward(&self.norm.forward(target)?)?;
        let width = target.size()[2] as f64;
        let scaled = self.ranks.enter(&target.f_mul_scalar(width.powf(-0.5))?)?;
        Ok(vec![self.output.forward(&scaled)?])
    }
}

/// Of the norms.
const EPSILON: f64 = 1e-6;

/// Normal with a variance of one over `size`.
fn inverse_root(size: i64) -> Init {
    Init::normal((size as f64).powf(-0.5))
}

/// Attention behind a norm, with a shortcut around both.
struct Attention {
    norm: RmsNorm,
    attention: MultiHeadAttention,
    dropout: Dropout,
}

impl Attention {
    fn new(mut scope: Scope<'_>, name: &str, model: &catalog::T5) -> Result<Self, TchError> {
        let [width, head_width, heads] = [model.width, model.head_width, model.heads].map(i64::from);
        let (inner, ranks) = (heads * head_width, scope.tensor_parallel().clone());
        let mut projections = scope.part(name);
        let mut column = |name, fan_in| {
            let (scope, split) = (projections.part(name), Split::outputs(heads));
            Linear::column_parallel(scope, [width, inner], inverse_root(fan_in), Bias::None, split)
        };
        let (query, key, value) =
            (column("q", width * head_width)?, column("k", width)?, column("v", width)?);
        let output = {
            let (scope, init) = (projections.part("o"), inverse_root(inner));
            Linear::row_parallel(scope, [inner, width], init, Bias::None, heads)?
        };
        Ok(Self {
            attention: MultiHeadAttention {
                query,
                key,
                value,
                output,
                heads: ranks.local(heads),
                weighting: Weighting { scale: Some(1.0), dropout: model.dropout },
                ranks,
            },
            norm: RmsNorm::new(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
        })
    }

    /// Looks at `memory`, or at its own input.
    fn forward(&self, input: &Tensor, memory: Option<&Tensor>, mask: Mask<'_>) -> Result<Tensor, TchError> {
        let normed = self.norm.forward(input)?;
        let attended = self.attention.forward(&normed, memory, mask)?;
        input.f_add(&self.dropout.forward(&attended)?)
    }
}

/// Two layers on each token alone, behind a norm, with a shortcut around them.
struct FeedForward {
    norm: RmsNorm,
    inner: Linear,
    outer: Linear,
    dropout: Dropout,
    ranks: TensorParallel,
}

impl FeedForward {
    fn new(mut scope: Scope<'_>, model: &catalog::T5) -> Result<Self, TchError> {
        let (width, inner) = (i64::from(model.width), i64::from(model.feed_forward));
        let mut layers = scope.part("DenseReluDense");
        Ok(Self {
            inner: {
                let (scope, split) = (layers.part("wi"), Split::outputs(inner));
                Linear::column_parallel(scope, [width, inner], inverse_root(width), Bias::None, split)?
            },
            outer: {
                let scope = layers.part("wo");
                Linear::row_parallel(scope, [inner, width], inverse_root(inner), Bias::None, inner)?
            },
            norm: RmsNorm::new(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
            ranks: scope.tensor_parallel().clone(),
        })
    }
}

impl Block for FeedForward {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let normed = self.ranks.enter(&self.norm.forward(input)?)?;
        let inner = relu_in_place(self.inner.forward(&normed)?)?;
        let inner = self.dropout.forward_divided(&inner, &self.ranks)?;
        input.f_add(&self.dropout.forward(&self.outer.forward(&inner)?)?)
    }
}
