//! An LSTM language model: the architecture of Zaremba et al., 2014, at a size for one core.
//!
//! Every sequence starts from a zero state: the samples of a stream are independent of each other.

use schema::catalog::{LstmLm, Optimizer};
use tch::{TchError, Tensor};

use crate::{
    chain::Link,
    nn::{
        dense::{Embedding, Linear},
        dropout::Dropout,
        init::Init,
        loss::cross_entropy,
        parameters::Parameters,
        recurrent::Lstm,
    },
    workload::{Block, Supervised},
};

/// Embedding, recurrent layers, head. Takes `[samples, time]` and gives logits `[samples, time, vocabulary]`.
///
/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &LstmLm,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &LstmLm { vocabulary, context: _, layers, width, dropout } = model;
    let (vocabulary, width) = (i64::from(vocabulary), i64::from(width));
    let mut root = parameters.root();
    let embedding = Embedding::new(root.part("embedding"), vocabulary, width, Init::normal(1.0))?;
    root.begin_link(1);
    let lstm = Lstm::new(root.part("lstm"), width, width, i64::from(layers), dropout)?;
    root.begin_link(2);
    let decoder = Linear::new(root.part("decoder"), width, vocabulary)?;
    let links: Vec<Box<dyn Link>> = vec![
        Box::new(Dropped { layer: embedding, dropout: Dropout(dropout) }),
        Box::new(Dropped { layer: lstm, dropout: Dropout(dropout) }),
        Box::new(decoder),
    ];
    Ok(Supervised::new(parameters, links, cross_entropy, optimizer))
}

/// A layer with dropout behind it. So every connection from one layer to the next is dropped and no recurrent one is
/// (section 3.2 of the paper).
struct Dropped<L> {
    layer: L,
    dropout: Dropout,
}

impl<L: Block> Block for Dropped<L> {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        self.dropout.forward(&self.layer.forward(input)?)
    }
}
