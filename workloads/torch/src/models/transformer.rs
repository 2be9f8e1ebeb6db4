//! The Transformer (Vaswani et al., NeurIPS 2017) for translation.
//!
//! Names and layout are those of jadore801120/attention-is-all-you-need-pytorch: a norm behind each shortcut, another one
//! behind the embeddings of each stack, no bias in attention, one matrix for both embeddings and the output, whose logits
//! are divided by the root of the width. Without a bias in attention the base model has 44,103,680 parameters beside its
//! embedding; `torch.nn.Transformer`, which has them, counts 36,864 more.

use schema::catalog::{self, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    nn::{
        attention::{Mask, Weighting},
        dense::{Embedding, Linear},
        dropout::Dropout,
        init::Init,
        loss::smoothed_cross_entropy,
        multi_head::MultiHeadAttention,
        norm::LayerNorm,
        parameters::{Parameters, Scope},
        relu_in_place,
    },
    recompute::Segment,
    workload::{Batch, Block, Update, Workload},
};

/// Of the norms.
const EPSILON: f64 = 1e-6;

pub(super) struct Transformer {
    parameters: Parameters,
    embedding: Embedding,
    /// `[tokens, width]`, as many as the longer of the two sentences has.
    positions: Tensor,
    encoder_norm: LayerNorm,
    encoder: Vec<Segment<(Attention, FeedForward)>>,
    decoder_norm: LayerNorm,
    decoder: Vec<Segment<(Attention, Attention, FeedForward)>>,
    output: Linear,
    dropout: Dropout,
    source: i64,
    target: i64,
    update: [Update; 1],
}

impl Transformer {
    /// # Errors
    /// Out of memory.
    pub(super) fn new(
        model: &catalog::Transformer,
        mut parameters: Parameters,
        optimizer: Optimizer,
    ) -> Result<Self, TchError> {
        let &catalog::Transformer { vocabulary, source, target, layers, width, .. } = model;
        let (vocabulary, width) = (i64::from(vocabulary), i64::from(width));
        let norm = |scope: Scope<'_>| LayerNorm::with_epsilon(scope, width, EPSILON);
        let mut root = parameters.root();
        let positions = root.table(&positions(source.max(target), width)?)?;
        let mut scope = root.part("encoder");
        let init = glorot(vocabulary, width);
        let embedding = Embedding::new(scope.part("src_word_emb"), vocabulary, width, init)?;
        let output = Linear::tied_to(&embedding);
        let mut encoder = Vec::new();
        for layer in 0..layers {
            let mut scope = scope.part(format_args!("layer_stack.{layer}"));
            encoder.push(Segment::new((
                Attention::new(scope.part("slf_attn"), model)?,
                FeedForward::new(scope.part("pos_ffn"), model)?,
            )));
        }
        let encoder_norm = norm(scope.part("layer_norm"))?;
        let mut scope = root.part("decoder");
        let mut decoder = Vec::new();
        for layer in 0..layers {
            let mut scope = scope.part(format_args!("layer_stack.{layer}"));
            decoder.push(Segment::new((
                Attention::new(scope.part("slf_attn"), model)?,
                Attention::new(scope.part("enc_attn"), model)?,
                FeedForward::new(scope.part("pos_ffn"), model)?,
            )));
        }
        let decoder_norm = norm(scope.part("layer_norm"))?;
        Ok(Self {
            parameters,
            embedding,
            positions,
            encoder_norm,
            encoder,
            decoder_norm,
            decoder,
            output,
            dropout: Dropout(model.dropout),
            source: source.into(),
            target: target.into(),
            update: [Update::of_everything(optimizer)],
        })
    }

    /// The start of a stack: `[samples, tokens]` to `[samples, tokens, width]`.
    fn embed(&self, tokens: &Tensor, norm: &LayerNorm) -> Result<Tensor, TchError> {
        let positions = self.positions.f_narrow(0, 0, tokens.size()[1])?;
        let sum = self.embedding.forward(tokens)?.f_add(&positions)?;
        norm.forward(&self.dropout.forward(&sum)?)
    }
}

impl Workload for Transformer {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.update
    }

    /// Inputs are the source and, behind it, the target's tokens before each that is to be predicted.
    fn loss(&self, _update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        const LABEL_SMOOTHING: f64 = 0.1;
        let mut source = self.embed(&batch.inputs.f_narrow(1, 0, self.source)?, &self.encoder_norm)?;
        for layer in &self.encoder {
            source = layer.forward([&source], |(attention, feed_forward), [source]| {
                feed_forward.forward(&attention.forward(source, source, Mask::None)?)
            })?;
        }
        let mut target =
            self.embed(&batch.inputs.f_narrow(1, self.source, self.target)?, &self.decoder_norm)?;
        for layer in &self.decoder {
            target = layer.forward([&target, &source], |parts, [target, source]| {
                let (self_attention, cross_attention, feed_forward) = parts;
                let target = self_attention.forward(target, target, Mask::Causal)?;
                feed_forward.forward(&cross_attention.forward(&target, source, Mask::None)?)
            })?;
        }
        let width = target.size()[2] as f64;
        let logits = self.output.forward(&target.f_mul_scalar(width.powf(-0.5))?)?;
        smoothed_cross_entropy(&logits, &batch.targets, LABEL_SMOOTHING)
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
        let width = i64::from(model.width);
        let mut square = |name| Linear::unbiased(scope.part(name), width, width, glorot(width, width));
        Ok(Self {
            attention: MultiHeadAttention {
                query: square("w_qs")?,
                key: square("w_ks")?,
                value: square("w_vs")?,
                output: square("fc")?,
                heads: model.heads.into(),
                weighting: Weighting { scale: None, dropout: model.dropout },
            },
            norm: LayerNorm::with_epsilon(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
        })
    }

    fn forward(&self, queries: &Tensor, memory: &Tensor, mask: Mask<'_>) -> Result<Tensor, TchError> {
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
}

impl FeedForward {
    fn new(mut scope: Scope<'_>, model: &catalog::Transformer) -> Result<Self, TchError> {
        let (width, inner) = (i64::from(model.width), i64::from(model.feed_forward));
        let init = glorot(width, inner);
        Ok(Self {
            inner: Linear::with_init(scope.part("w_1"), width, inner, init)?,
            outer: Linear::with_init(scope.part("w_2"), inner, width, init)?,
            norm: LayerNorm::with_epsilon(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
        })
    }
}

impl Block for FeedForward {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let inner = relu_in_place(self.inner.forward(input)?)?;
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
