//! RoBERTa (Liu et al., 2019): BERT's encoder, trained on masked tokens alone.
//!
//! Names are those of Hugging Face's `RobertaForMaskedLM`. As there, every token has its logits.

use schema::catalog::{Optimizer, Roberta};
use tch::TchError;

use super::post_norm::{Predictions, Sizes};
use crate::{
    nn::{dense::Linear, loss::cross_entropy, parameters::Parameters},
    workload::{Block, Sequential, Supervised},
};

/// Takes `[samples, context]` and gives logits `[samples, context, vocabulary]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Roberta,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Roberta { vocabulary, positions, context: _, layers, width, heads, dropout } = model;
    /// Fairseq numbers positions from behind the number of the padding token, which is 1.
    const FIRST_POSITION: u32 = 2;
    const SEGMENTS: i64 = 1;
    const EPSILON: f64 = 1e-5;
    let sizes = Sizes {
        vocabulary,
        positions: positions + FIRST_POSITION,
        first_position: FIRST_POSITION,
        segments: SEGMENTS,
        layers,
        width,
        heads,
        dropout,
        epsilon: EPSILON,
    };
    let mut root = parameters.root();
    let mut body = root.part("roberta");
    let embeddings = sizes.embeddings(body.part("embeddings"))?;
    let encoder = sizes.layers(body.part("encoder"))?;
    let mut head = root.part("lm_head");
    let output = Linear::tied_with_bias(&mut head, &embeddings.tokens)?;
    let dense = sizes.square(head.part("dense"))?;
    let predictions = Predictions { dense, norm: sizes.norm(head.part("layer_norm"))?, output };
    let mut blocks: Vec<Box<dyn Block>> = vec![Box::new(embeddings)];
    blocks.extend(encoder);
    blocks.push(Box::new(predictions));
    Ok(Supervised::new(parameters, Sequential::new(blocks), cross_entropy, optimizer))
}
