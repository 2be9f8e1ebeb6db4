//! T5 1.0 (Raffel et al., JMLR 2020): an encoder and a decoder, trained to fill in missing spans.
//!
//! Names are those of Hugging Face's `T5ForConditionalGeneration`: a norm before each part and beside its shortcut, no
//! biases, one matrix for both embeddings and the output. Scores of attention are not divided by the root of a head's
//! width; the initial weights of the queries are instead.

use schema::catalog::{self, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    nn::{
        attention::{Mask, Weighting},
        dense::{Embedding, Linear},
        dropout::Dropout,
        init::Init,
        loss::cross_entropy,
        multi_head::MultiHeadAttention,
        norm::RmsNorm,
        parameters::{Parameters, Scope},
        relative_bias::RelativeBias,
        relu_in_place,
    },
    recompute::Segment,
    workload::{Batch, Block, Update, Workload},
};

pub(super) struct T5 {
    parameters: Parameters,
    embedding: Embedding,
    encoder: Vec<Segment<(Attention, FeedForward)>>,
    encoder_bias: RelativeBias,
    encoder_norm: RmsNorm,
    decoder: Vec<Segment<(Attention, Attention, FeedForward)>>,
    decoder_bias: RelativeBias,
    decoder_norm: RmsNorm,
    output: Linear,
    dropout: Dropout,
    source: i64,
    target: i64,
    update: [Update; 1],
}

impl T5 {
    /// # Errors
    /// Out of memory.
    pub(super) fn new(
        model: &catalog::T5,
        mut parameters: Parameters,
        optimizer: Optimizer,
    ) -> Result<Self, TchError> {
        let &catalog::T5 { vocabulary, source, target, layers, width, heads, .. } = model;
        let (width, source, target) = (i64::from(width), i64::from(source), i64::from(target));
        let mut root = parameters.root();
        let embedding = Embedding::new(root.part("shared"), vocabulary.into(), width, Init::normal(1.0))?;
        let output = Linear::tied_to(&embedding);
        let norm = |scope: Scope<'_>| RmsNorm::new(scope, width, EPSILON);
        // Of a stack's positions, which its first layer holds and all of them use.
        let bias = |mut stack: Scope<'_>, tokens, causal| {
            let mut layer = stack.part("block.0.layer.0.SelfAttention");
            let init = inverse_root(width);
            RelativeBias::new(layer.part("relative_attention_bias"), heads.into(), init, tokens, causal)
        };
        let encoder_bias = bias(root.part("encoder"), source, false)?;
        let mut scope = root.part("encoder");
        let mut encoder = Vec::new();
        for layer in 0..layers {
            let mut scope = scope.part(format_args!("block.{layer}.layer"));
            encoder.push(Segment::new((
                Attention::new(scope.part(0), "SelfAttention", model)?,
                FeedForward::new(scope.part(1), model)?,
            )));
        }
        let encoder_norm = norm(scope.part("final_layer_norm"))?;
        let decoder_bias = bias(root.part("decoder"), target, true)?;
        let mut scope = root.part("decoder");
        let mut decoder = Vec::new();
        for layer in 0..layers {
            let mut scope = scope.part(format_args!("block.{layer}.layer"));
            decoder.push(Segment::new((
                Attention::new(scope.part(0), "SelfAttention", model)?,
                Attention::new(scope.part(1), "EncDecAttention", model)?,
                FeedForward::new(scope.part(2), model)?,
            )));
        }
        let decoder_norm = norm(scope.part("final_layer_norm"))?;
        Ok(Self {
            parameters,
            embedding,
            encoder,
            encoder_bias,
            encoder_norm,
            decoder,
            decoder_bias,
            decoder_norm,
            output,
            dropout: Dropout(model.dropout),
            source,
            target,
            update: [Update::of_everything(optimizer)],
        })
    }

    fn embed(&self, tokens: &Tensor) -> Result<Tensor, TchError> {
        self.dropout.forward(&self.embedding.forward(tokens)?)
    }
}

impl Workload for T5 {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.update
    }

    /// Inputs are the source and, behind it, the target's tokens before each that is to be predicted.
    fn loss(&self, _update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        let mut source = self.embed(&batch.inputs.f_narrow(1, 0, self.source)?)?;
        let bias = self.encoder_bias.forward()?;
        for layer in &self.encoder {
            source = layer.forward([&source, &bias], |(attention, feed_forward), [source, bias]| {
                feed_forward.forward(&attention.forward(source, None, Mask::Bias(bias))?)
            })?;
        }
        let source = self.dropout.forward(&self.encoder_norm.forward(&source)?)?;

        let mut target = self.embed(&batch.inputs.f_narrow(1, self.source, self.target)?)?;
        let bias = self.decoder_bias.forward()?;
        for layer in &self.decoder {
            target = layer.forward([&target, &bias, &source], |parts, [target, bias, source]| {
                let (self_attention, cross_attention, feed_forward) = parts;
                let target = self_attention.forward(target, None, Mask::Bias(bias))?;
                feed_forward.forward(&cross_attention.forward(&target, Some(source), Mask::None)?)
            })?;
        }
        let target = self.dropout.forward(&self.decoder_norm.forward(&target)?)?;
        let width = target.size()[2] as f64;
        let logits = self.output.forward(&target.f_mul_scalar(width.powf(-0.5))?)?;
        cross_entropy(&logits, &batch.targets)
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
        let (width, head_width) = (i64::from(model.width), i64::from(model.head_width));
        let inner = i64::from(model.heads) * head_width;
        let mut projections = scope.part(name);
        let mut linear = |name, inputs, outputs, fan_in| {
            Linear::unbiased(projections.part(name), inputs, outputs, inverse_root(fan_in))
        };
        Ok(Self {
            attention: MultiHeadAttention {
                query: linear("q", width, inner, width * head_width)?,
                key: linear("k", width, inner, width)?,
                value: linear("v", width, inner, width)?,
                output: linear("o", inner, width, inner)?,
                heads: model.heads.into(),
                weighting: Weighting { scale: Some(1.0), dropout: model.dropout },
            },
            norm: RmsNorm::new(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
        })
    }

    /// Looks at `memory`, or at its own input.
    fn forward(&self, input: &Tensor, memory: Option<&Tensor>, mask: Mask<'_>) -> Result<Tensor, TchError> {
        let normed = self.norm.forward(input)?;
        let attended = self.attention.forward(&normed, memory.unwrap_or(&normed), mask)?;
        input.f_add(&self.dropout.forward(&attended)?)
    }
}

/// Two layers on each token alone, behind a norm, with a shortcut around them.
struct FeedForward {
    norm: RmsNorm,
    inner: Linear,
    outer: Linear,
    dropout: Dropout,
}

impl FeedForward {
    fn new(mut scope: Scope<'_>, model: &catalog::T5) -> Result<Self, TchError> {
        let (width, inner) = (i64::from(model.width), i64::from(model.feed_forward));
        let mut layers = scope.part("DenseReluDense");
        Ok(Self {
            inner: Linear::unbiased(layers.part("wi"), width, inner, inverse_root(width))?,
            outer: Linear::unbiased(layers.part("wo"), inner, width, inverse_root(inner))?,
            norm: RmsNorm::new(scope.part("layer_norm"), width, EPSILON)?,
            dropout: Dropout(model.dropout),
        })
    }
}

impl Block for FeedForward {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let inner = relu_in_place(self.inner.forward(&self.norm.forward(input)?)?)?;
        let outer = self.outer.forward(&self.dropout.forward(&inner)?)?;
        input.f_add(&self.dropout.forward(&outer)?)
    }
}
