//! The Transformer (Vaswani et al., NeurIPS 2017) for translation.
//!
//! Names and layout are those of jadore801120/attention-is-all-you-need-pytorch: a norm behind each shortcut, another one
//! behind the embeddings of each stack, no bias in attention, one matrix for both embeddings and the output, whose logits
//! are divided by the root of the width. Without a bias in attention the base model has 44,103,680 parameters beside its
//! embedding; `torch.nn.Transformer`, which has them, counts 36,864 more.

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
        norm::LayerNorm,
        parameters::{Parameters, Scope},
        relu_in_place,
        split::Split,
        tensor_parallel::TensorParallel,
    },
    workload::{Block, Supervised},
};

/// Of the norms.
const EPSILON: f64 = 1e-6;

/// Embeddings and layers of the encoder, then of the decoder, then the head. Takes the source and, behind it, the target's
/// tokens before each that is to be predicted, `[samples, source + target]`, and gives logits
/// `[samples, target, vocabulary]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &catalog::Transformer,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    const LABEL_SMOOTHING: f64 = 0.1;
    let &catalog::Transformer { vocabulary, source, target, layers, width, .. } = model;
    let (vocabulary, width) = (i64::from(vocabulary), i64::from(width));
    let (bridge, last) = (1 + layers as usize, 2 + 2 * layers as usize);
    let norm = |scope: Scope<'_>| LayerNorm::with_epsilon(scope, width, EPSILON);
    let mut root = parameters.root();
    let ranks = root.tensor_parallel().clone();
    let positions = root.table(&positions(source.max(target), width)?)?;
    let mut scope = root.part("encoder");
    let init = glorot(vocabulary, width);
    let embedding = Embedding::of_vocabulary(scope.part("src_word_emb"), vocabulary, width, init)?;
    scope.begin_link(bridge);
    let of_target = embedding.also(&mut scope);
    scope.begin_link(last);
    let output = Linear::tied_to(&mut scope, &embedding);

    let mut encoders = Vec::new();
    for layer in 0..layers {
        scope.begin_link(1 + encoders.len());
        let mut scope = scope.part(format_args!("layer_stack.{layer}"));
        encoders.push(Encoder {
            attention: Attention::new(scope.part("slf_attn"), model)?,
            feed_forward: FeedForward::new(scope.part("pos_ffn"), model)?,
        });
    }
    let dropout = Dropout(model.dropout);
    let begin = |embedding, positions: &Tensor, norm| Begin {
        embedding,
        positions: positions.shallow_clone(),
        norm,
        dropout,
    };
    scope.begin_link(0);
    let source_begin = begin(embedding, &positions, norm(scope.part("layer_norm"))?);
    let (source, target) = (source.into(), target.into());
    let mut links: Vec<Box<dyn Link>> = vec![Box::new(Start { begin: source_begin, source, target })];
    links.extend(encoders.into_iter().map(|encoder| Box::new(encoder) as Box<dyn Link>));

    let mut scope = root.part("decoder");
    let mut decoders = Vec::new();
    for layer in 0..layers {
        scope.begin_link(bridge + 1 + decoders.len());
        let mut scope = scope.part(format_args!("layer_stack.{layer}"));
        decoders.push(Decoder {
            self_attention: Attention::new(scope.part("slf_attn"), model)?,
            cross_attention: Attention::new(scope.part("enc_attn"), model)?,
            feed_forward: FeedForward::new(scope.part("pos_ffn"), model)?,
        });
    }
    scope.begin_link(bridge);
    links.push(Box::new(Bridge(begin(of_target, &positions, norm(scope.part("layer_norm"))?))));
    links.extend(decoders.into_iter().map(|decoder| Box::new(decoder) as Box<dyn Link>));
    links.push(Box::new(Head { output, ranks: ranks.clone() }));
    let criterion = of_vocabulary(vocabulary, LABEL_SMOOTHING, ranks);
    Ok(Supervised::with_criterion(parameters, links, criterion, optimizer))
}

/// The start of a stack: `[samples, tokens]` to `[samples, tokens, width]`.
struct Begin {
    embedding: Embedding,
    /// `[tokens, width]`, as many as the longer of the two sentences has.
    positions: Tensor,
    norm: LayerNorm,
    dropout: Dropout,
}

impl Block for Begin {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor, TchError> {
        let positions = self.positions.f_narrow(0, 0, tokens.size()[1])?;
        let sum = self.embedding.forward(tokens)?.f_add(&positions)?;
        self.norm.forward(&self.dropout.forward(&sum)?)
    }
}

/// Gives the start of the encoder, and the tokens of the target for the bridge.
struct Start {
    begin: Begin,
    source: i64,
    target: i64,
}

impl Link for Start {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [tokens] = carry else { unreachable!("the inputs are one tensor") };
        let source = self.begin.forward(&tokens.f_narrow(1, 0, self.source)?)?;
        Ok(vec![source, tokens.f_narrow(1, self.source, self.target)?])
    }
}

struct Encoder {
    attention: Attention,
    feed_forward: FeedForward,
}

impl Link for Encoder {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [source, target] = carry else { unreachable!("as `Start` gives it") };
        let source = self.feed_forward.forward(&self.attention.forward(source, None, Mask::None)?)?;
        Ok(vec![source, target.shallow_clone()])
    }
}

/// Begins the decoder: gives its start, and the encoded source.
struct Bridge(Begin);

impl Link for Bridge {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [source, target] = carry else { unreachable!("as `Encoder` gives it") };
        Ok(vec![self.0.forward(target)?, source.shallow_clone()])
    }
}

struct Decoder {
    self_attention: Attention,
    cross_attention: Attention,
    feed_forward: FeedForward,
}

impl Link for Decoder {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [target, source] = carry else { unreachable!("as `Bridge` gives it") };
        let target = self.self_attention.forward(target, None, Mask::Causal)?;
        let target = self.cross_attention.forward(&target, Some(source), Mask::None)?;
        Ok(vec![self.feed_forward.forward(&target)?, source.shallow_clone()])
    }
}

/// The output layer, which shares its weight with both embeddings.
struct Head {
    output: Linear,
    ranks: TensorParallel,
}

impl Link for Head {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [target, _] = carry else { unreachable!("as `Decoder` gives it") };
        let width = target.size()[2] as f64;
        let scaled = self.ranks.enter(&target.f_mul_scalar(width.powf(-0.5))?)?;
        Ok(vec![self.output.forward(&scaled)?])
    }
}

/// Attention with a shortcut and a norm behind it.
struct Attention {
    attention: MultiHeadAttention,
    norm: LayerNorm,
    dropout: Dropout,
}

impl Attention {
    fn new(mut scope: Scope<'_>, model: &catalog::Transformer) -> Result<Self, TchError> {
        let (width, heads) = (i64::from(model.width), i64::from(model.heads));
        let (ranks, init) = (scope.tensor_parallel().clone(), glorot(width, width));
        let mut column = |name| {
            let (scope, split) = (scope.part(name), Split::outputs(heads));
            Linear::column_parallel(scope, [width, width], init, Bias::None, split)
        };
        let (query, key, value) = (column("w_qs")?, column("w_ks")?, column("w_vs")?);
        Ok(Self {
            attention: MultiHeadAttention {
                query,
                key,
                value,
                output: Linear::row_parallel(scope.part("fc"), [width, width], init, Bias::None, heads)?,
                heads: ranks.local(heads),
                weighting: Weighting { scale: None, dropout: model.dropout },
                ranks,
            },
            norm: LayerNorm::with_epsilon(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
        })
    }

    /// Looks at `memory`, or at its own input.
    fn forward(&self, queries: &Tensor, memory: Option<&Tensor>, mask: Mask<'_>) -> Result<Tensor, TchError> {
        let attended = self.dropout.forward(&self.attention.forward(queries, memory, mask)?)?;
        self.norm.forward(&attended.f_add(queries)?)
    }
}

/// Two layers on each token alone, with a shortcut and a norm behind them.
struct FeedForward {
    inner: Linear,
    outer: Linear,
    norm: LayerNorm,
    dropout: Dropout,
    ranks: TensorParallel,
}

impl FeedForward {
    fn new(mut scope: Scope<'_>, model: &catalog::Transformer) -> Result<Self, TchError> {
        let (width, inner) = (i64::from(model.width), i64::from(model.feed_forward));
        let init = glorot(width, inner);
        Ok(Self {
            inner: {
                let (scope, split) = (scope.part("w_1"), Split::outputs(inner));
                Linear::column_parallel(scope, [width, inner], init, Bias::Zero, split)?
            },
            outer: {
                let scope = scope.part("w_2");
                Linear::row_parallel(scope, [inner, width], init, Bias::Zero, inner)?
            },
            norm: LayerNorm::with_epsilon(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
            ranks: scope.tensor_parallel().clone(),
        })
    }
}

impl Block for FeedForward {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let inner = relu_in_place(self.inner.forward(&self.ranks.enter(input)?)?)?;
        let outer = self.dropout.forward(&self.outer.forward(&inner)?)?;
        self.norm.forward(&outer.f_add(input)?)
    }
}

/// Glorot and Bengio, AISTATS 2010, equation 16: what the implementation gives every matrix.
fn glorot(inputs: i64, outputs: i64) -> Init {
    Init::Uniform { bound: (6.0 / (inputs + outputs) as f64).sqrt() }
}

/// Section 3.5 of the paper: a sine and a cosine in turns, of wave lengths from 2 pi to 10,000 times that.
fn positions(tokens: u32, width: i64) -> Result<Tensor, TchError> {
    let mut table = Vec::new();
    for position in 0..tokens {
        for pair in 0..width / 2 {
            let angle = f64::from(position) / 10_000_f64.powf(2.0 * pair as f64 / width as f64);
            table.extend([angle.sin(), angle.cos()]);
        }
    }
    Tensor::f_from_slice(&table)?.f_reshape([i64::from(tokens), width])
}
