//! BERT (Devlin et al., NAACL 2019), for pre-training or for questions about a paragraph.
//!
//! Names are those of Hugging Face's `BertForPreTraining` and `BertForQuestionAnswering`. As there, the head of masked
//! tokens computes the logits of every token, and the loss leaves out those that were not masked.

use schema::catalog::{Bert, BertTask, Optimizer};
use tch::{TchError, Tensor};

use super::post_norm::{INIT, Predictions, Sizes};
use crate::{
    chain::Link,
    nn::{
        dense::Linear,
        loss::{cross_entropy, divided_cross_entropy},
        parameters::Parameters,
        tensor_parallel::TensorParallel,
    },
    workload::{Block, Criterion, Supervised},
};

/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Bert,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Supervised, TchError> {
    let &Bert { vocabulary, positions, context: _, layers, width, heads, dropout, task } = model;
    const SEGMENTS: i64 = 2;
    const EPSILON: f64 = 1e-12;
    let sizes = Sizes {
        vocabulary,
        positions,
        first_position: 0,
        segments: SEGMENTS,
        layers,
        width,
        heads,
        dropout,
        epsilon: EPSILON,
    };
    let mut root = parameters.root();
    let ranks = root.tensor_parallel().clone();
    let mut body = root.part("bert");
    let embeddings = sizes.embeddings(body.part("embeddings"))?;
    let encoder = sizes.layers(body.part("encoder"))?;
    body.begin_link(1 + encoder.len());
    let width = i64::from(width);
    let (head, criterion): (Box<dyn Link>, Criterion) = match task {
        BertTask::Pretraining => {
            let pooler = sizes.square(body.part("pooler").part("dense"))?;
            let mut heads = root.part("cls");
            let predictions = {
                let mut scope = heads.part("predictions");
                let output = Linear::tied_with_bias(&mut scope, &embeddings.tokens)?;
                let mut transform = scope.part("transform");
                let dense = sizes.square(transform.part("dense"))?;
                let norm = sizes.norm(transform.part("LayerNorm"))?;
                Predictions { dense, norm, output, ranks: ranks.clone() }
            };
            const NEXT_OR_NOT: i64 = 2;
            let relationship = Linear::with_init(heads.part("seq_relationship"), width, NEXT_OR_NOT, INIT)?;
            (Box::new(Heads { predictions, pooler, relationship }), both_losses(vocabulary.into(), ranks))
        }
        BertTask::QuestionAnswering => {
            const START_AND_END: i64 = 2;
            let output = Linear::with_init(root.part("qa_outputs"), width, START_AND_END, INIT)?;
            (Box::new(output), Box::new(|outputs, targets| answer_loss(&outputs[0], targets)))
        }
    };
    let mut links: Vec<Box<dyn Link>> = vec![Box::new(embeddings)];
    links.extend(encoder);
    links.push(head);
    Ok(Supervised::with_criterion(parameters, links, criterion, optimizer))
}

/// Two heads over one encoder. Gives the logits of every token, `[samples, context, vocabulary]`, and of whether the second
/// sentence followed the first, `[samples, 2]`.
struct Heads {
    predictions: Predictions,
    pooler: Linear,
    relationship: Linear,
}

impl Link for Heads {
    fn run(&self, carry: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        let [hidden] = carry else { unreachable!("the encoder gives one tensor") };
        let pooled = self.pooler.forward(&hidden.f_select(1, 0)?)?.f_tanh()?;
        Ok(vec![self.predictions.forward(hidden)?, self.relationship.forward(&pooled)?])
    }
}

/// The sum of the two tasks' losses. Targets are the masked tokens, `[samples, context]`, and in one column more
/// whether the second sentence followed the first.
fn both_losses(vocabulary: i64, ranks: TensorParallel) -> Criterion {
    Box::new(move |outputs, targets| {
        let [predictions, relationship] = outputs else { unreachable!("there are two heads") };
        let context = targets.size()[1] - 1;
        let labels = targets.f_narrow(1, 0, context)?;
        let masked = divided_cross_entropy(predictions, &labels, 0.0, vocabulary, &ranks)?;
        masked.f_add(&cross_entropy(relationship, &targets.f_select(1, context)?)?)
    })
}

/// The mean of the losses of start and end: `[samples, context, 2]` against `[samples, 2]`.
fn answer_loss(output: &Tensor, targets: &Tensor) -> Result<Tensor, TchError> {
    cross_entropy(&output.f_transpose(1, 2)?, targets)
}
