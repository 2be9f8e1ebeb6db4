//! RoBERTa (Liu et al., 2019): BERT's encoder, trained on masked tokens alone.
//!
//! Names are those of Hugging Face's `RobertaForMaskedLM`. As there, every token has its logits.

use schema::catalog::{Optimizer, Roberta};
use tch::TchError;

use super::post_norm::{Predictions, Sizes};
use crate::{
    chain::Link,
    nn::{dense::Linear, loss::of_vocabulary, parameters::Parameters},
    workload::Supervised,
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
    let ranks = root.tensor_parallel().clone();
    let mut body = root.part("roberta");
    let embeddings = sizes.embeddings(body.part("embeddings"))?;
    let encoder = sizes.layers(body.part("encoder"))?;
    let mut head = root.part("lm_head");
    head.begin_link(1 + encoder.len());
    let output = Linear::tied_with_bias(&mut head, &embeddings.tokens)?;
    let dense = sizes.square(head.part("dense"))?;
    let norm = sizes.norm(head.part("layer_norm"))?;
    let mut links: Vec<Box<dyn Link>> = vec![Box::new(embeddings)];
    links.extend(encoder);
    links.push(Box::new(Predictions { dense, norm, output, ranks: ranks.clone() }));
    let criterion = of_vocabulary(vocabulary.into(), 0.0, ranks);
    Ok(Supervised::with_criterion(parameters, links, criterion, optimizer))
}
