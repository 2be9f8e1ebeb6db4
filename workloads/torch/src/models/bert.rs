//! BERT (Devlin et al., NAACL 2019), for pre-training or for questions about a paragraph.
//!
//! Names are those of Hugging Face's `BertForPreTraining` and `BertForQuestionAnswering`. As there, the head of masked
//! tokens computes the logits of every token, and the loss leaves out those that were not masked.

use schema::catalog::{Bert, BertTask, Optimizer};
use tch::{TchError, Tensor};

use super::post_norm::{INIT, Predictions, Sizes};
use crate::{
    nn::{dense::Linear, loss::cross_entropy, parameters::Parameters},
    workload::{Batch, Block, Sequential, Supervised, Update, Workload},
};

/// # Errors
/// Out of memory.
pub(super) fn build(
    model: &Bert,
    mut parameters: Parameters,
    optimizer: Optimizer,
) -> Result<Box<dyn Workload>, TchError> {
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
    let mut body = root.part("bert");
    let embeddings = sizes.embeddings(body.part("embeddings"))?;
    let encoder = sizes.layers(body.part("encoder"))?;
    let blocks = |embeddings| {
        let mut blocks: Vec<Box<dyn Block>> = vec![Box::new(embeddings)];
        blocks.extend(encoder);
        blocks
    };
    let width = i64::from(width);
    match task {
        BertTask::Pretraining => {
            let pooler = sizes.square(body.part("pooler").part("dense"))?;
            let mut heads = root.part("cls");
            let predictions = {
                let mut scope = heads.part("predictions");
                let output = Linear::tied_with_bias(&mut scope, &embeddings.tokens)?;
                let mut transform = scope.part("transform");
                let dense = sizes.square(transform.part("dense"))?;
                Predictions { dense, norm: sizes.norm(transform.part("LayerNorm"))?, output }
            };
            const NEXT_OR_NOT: i64 = 2;
            let relationship = Linear::with_init(heads.part("seq_relationship"), width, NEXT_OR_NOT, INIT)?;
            Ok(Box::new(Pretraining {
                parameters,
                encoder: Sequential::new(blocks(embeddings)),
                predictions,
                pooler,
                relationship,
                update: [Update::of_everything(optimizer)],
            }))
        }
        BertTask::QuestionAnswering => {
            const START_AND_END: i64 = 2;
            let output = Linear::with_init(root.part("qa_outputs"), width, START_AND_END, INIT)?;
            let mut blocks = blocks(embeddings);
            blocks.push(Box::new(output));
            Ok(Box::new(Supervised::new(parameters, Sequential::new(blocks), answer_loss, optimizer)))
        }
    }
}

/// Two heads over one encoder.
struct Pretraining {
    parameters: Parameters,
    encoder: Sequential,
    predictions: Predictions,
    pooler: Linear,
    relationship: Linear,
    update: [Update; 1],
}

impl Workload for Pretraining {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.update
    }

    /// The sum of the two tasks' losses. Targets are the masked tokens, `[samples, context]`, and in one column more
    /// whether the second sentence followed the first.
    fn loss(&self, _update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        let hidden = self.encoder.forward(&batch.inputs)?;
        let context = hidden.size()[1];
        let labels = batch.targets.f_narrow(1, 0, context)?;
        let masked = cross_entropy(&self.predictions.forward(&hidden)?, &labels)?;
        let pooled = self.pooler.forward(&hidden.f_select(1, 0)?)?.f_tanh()?;
        let next = cross_entropy(&self.relationship.forward(&pooled)?, &batch.targets.f_select(1, context)?)?;
        masked.f_add(&next)
    }
}

/// The mean of the losses of start and end: `[samples, context, 2]` against `[samples, 2]`.
fn answer_loss(output: &Tensor, targets: &Tensor) -> Result<Tensor, TchError> {
    cross_entropy(&output.f_transpose(1, 2)?, targets)
}
