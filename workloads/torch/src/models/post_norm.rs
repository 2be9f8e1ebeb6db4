//! The encoder that BERT and RoBERTa share: a norm behind each shortcut, under the names of Hugging Face's `BertModel`.

use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        attention::{Mask, Weighting},
        dense::{Bias, Embedding, Linear},
        dropout::Dropout,
        init::Init,
        multi_head::MultiHeadAttention,
        norm::LayerNorm,
        parameters::Scope,
        split::Split,
        tensor_parallel::TensorParallel,
    },
    workload::Block,
};

/// Of the initial weights; the biases begin at zero.
pub(super) const INIT: Init = Init::Normal { mean: 0.0, deviation: 0.02 };

pub(super) struct Sizes {
    pub(super) vocabulary: u32,
    /// Rows of the embedding of positions.
    pub(super) positions: u32,
    /// The row of a sequence's first token.
    pub(super) first_position: u32,
    /// Rows of the embedding of segments.
    pub(super) segments: i64,
    pub(super) layers: u32,
    pub(super) width: u32,
    pub(super) heads: u32,
    pub(super) dropout: f64,
    /// Of the norms.
    pub(super) epsilon: f64,
}

impl Sizes {
    pub(super) fn norm(&self, scope: Scope<'_>) -> Result<LayerNorm, TchError> {
        LayerNorm::with_epsilon(scope, self.width.into(), self.epsilon)
    }

    pub(super) fn square(&self, scope: Scope<'_>) -> Result<Linear, TchError> {
        Linear::with_init(scope, self.width.into(), self.width.into(), INIT)
    }

    /// The first link of a model.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn embeddings(&self, mut scope: Scope<'_>) -> Result<Embeddings, TchError> {
        let width = self.width.into();
        let words = scope.part("word_embeddings");
        let tokens = Embedding::of_vocabulary(words, self.vocabulary.into(), width, INIT)?;
        let mut embedding = |name, rows| Embedding::new(scope.part(name), rows, width, INIT);
        Ok(Embeddings {
            tokens,
            positions: embedding("position_embeddings", self.positions.into())?,
            segments: embedding("token_type_embeddings", self.segments)?,
            norm: self.norm(scope.part("LayerNorm"))?,
            dropout: Dropout(self.dropout),
            first_position: self.first_position.into(),
        })
    }

    /// The links of the layers, which follow the embeddings, in the scope of `encoder`.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn layers(&self, mut scope: Scope<'_>) -> Result<Vec<Box<dyn Link>>, TchError> {
        let mut layers: Vec<Box<dyn Link>> = Vec::new();
        for layer in 0..self.layers {
            scope.begin_link(1 + layers.len());
            layers.push(Box::new(Layer::new(self, scope.part("layer").part(layer))?));
        }
        Ok(layers)
    }
}

/// Sums the embeddings of tokens, positions and segments.
pub(super) struct Embeddings {
    pub(super) tokens: Embedding,
    positions: Embedding,
    segments: Embedding,
    norm: LayerNorm,
    dropout: Dropout,
    first_position: i64,
}

impl Block for Embeddings {
    /// Takes `[samples, 2, context]`, tokens and segments, or tokens alone, `[samples, context]`, which are all of the
    /// first segment. Gives `[samples, context, width]`.
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let (tokens, segments) = if input.dim() == 3 {
            (input.f_select(1, 0)?, self.segments.forward(&input.f_select(1, 1)?)?)
        } else {
            (input.shallow_clone(), self.segments.rows().f_narrow(0, 0, 1)?)
        };
        // A sequence fills the context, so positions need no look-up.
        let positions = self.positions.rows().f_narrow(0, self.first_position, tokens.size()[1])?;
        let sum = self.tokens.forward(&tokens)?.f_add(&segments)?.f_add(&positions)?;
        self.dropout.forward(&self.norm.forward(&sum)?)
    }
}

/// Attention and a feed-forward network, each with a shortcut and a norm behind it.
struct Layer {
    attention: MultiHeadAttention,
    attention_norm: LayerNorm,
    feed_forward_in: Linear,
    feed_forward_out: Linear,
    feed_forward_norm: LayerNorm,
    dropout: Dropout,
    ranks: TensorParallel,
}

impl Layer {
    fn new(sizes: &Sizes, mut scope: Scope<'_>) -> Result<Self, TchError> {
        let (width, heads) = (i64::from(sizes.width), i64::from(sizes.heads));
        let (ranks, inner) = (scope.tensor_parallel().clone(), 4 * width);
        let mut attention = scope.part("attention");
        let mut projections = attention.part("self");
        let mut projection = |name| {
            let (scope, split) = (projections.part(name), Split::outputs(heads));
            Linear::column_parallel(scope, [width, width], INIT, Bias::Zero, split)
        };
        let (query, key, value) = (projection("query")?, projection("key")?, projection("value")?);
        Ok(Self {
            attention: MultiHeadAttention {
                query,
                key,
                value,
                output: {
                    let scope = attention.part("output.dense");
                    Linear::row_parallel(scope, [width, width], INIT, Bias::Zero, heads)?
                },
                heads: ranks.local(heads),
                weighting: Weighting { scale: None, dropout: sizes.dropout },
                ranks: ranks.clone(),
            },
            attention_norm: sizes.norm(attention.part("output").part("LayerNorm"))?,
            feed_forward_in: {
                let (scope, split) = (scope.part("intermediate.dense"), Split::outputs(inner));
                Linear::column_parallel(scope, [width, inner], INIT, Bias::Zero, split)?
            },
            feed_forward_out: {
                let scope = scope.part("output.dense");
                Linear::row_parallel(scope, [inner, width], INIT, Bias::Zero, inner)?
            },
            feed_forward_norm: sizes.norm(scope.part("output").part("LayerNorm"))?,
            dropout: Dropout(sizes.dropout),
            ranks,
        })
    }
}

impl Block for Layer {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let attended = self.attention.forward(input, None, Mask::None)?;
        let attended = self.attention_norm.forward(&self.dropout.forward(&attended)?.f_add(input)?)?;
        let inner = self.feed_forward_in.forward(&self.ranks.enter(&attended)?)?.f_gelu("none")?;
        let outer = self.dropout.forward(&self.feed_forward_out.forward(&inner)?)?;
        self.feed_forward_norm.forward(&outer.f_add(&attended)?)
    }
}

/// The head of masked tokens: gives logits of every token, `[samples, context, vocabulary]`.
pub(super) struct Predictions {
    pub(super) dense: Linear,
    pub(super) norm: LayerNorm,
    /// Shares its weight with the embedding of tokens.
    pub(super) output: Linear,
    pub(super) ranks: TensorParallel,
}

impl Block for Predictions {
    fn forward(&self, hidden: &Tensor) -> Result<Tensor, TchError> {
        let transformed = self.dense.forward(hidden)?.f_gelu("none")?;
        self.output.forward(&self.ranks.enter(&self.norm.forward(&transformed)?)?)
    }
}
