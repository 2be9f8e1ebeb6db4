//! Devlin et al., NAACL 2019.

use serde::{Deserialize, Serialize};

use super::{Family, Features, Samples, encoder_problem};

/// An encoder that reads pairs of sentences, each pair with `context` tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bert {
    pub vocabulary: u32,
    /// Number of positions with embeddings, at least `context`.
    pub positions: u32,
    pub context: u32,
    pub layers: u32,
    pub width: u32,
    pub heads: u32,
    /// Dropout of embeddings, attention weights and the input to shortcuts; 0.1 in the paper.
    pub dropout: f64,
    pub task: BertTask,
}

/// The training task of an encoder, which decides its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BertTask {
    /// Masked tokens and next sentence, the two tasks of section 3.1 of the paper.
    Pretraining,
    /// Start and end of the answer in a paragraph: SQuAD 1.1, section 4.2 of the paper.
    QuestionAnswering,
}

impl Family for Bert {
    fn samples(&self) -> Samples {
        let &Bert { vocabulary, context, .. } = self;
        match self.task {
            BertTask::Pretraining => Samples::MaskedPairs { vocabulary, context },
            BertTask::QuestionAnswering => Samples::Answers { vocabulary, context },
        }
    }

    fn features(&self) -> Features {
        Features::of_sequences(self.layers, self.width, self.context)
    }

    fn links(&self) -> Option<u32> {
        // The embeddings come first and the head last.
        Some(self.layers + 2)
    }

    fn heads(&self) -> Option<u32> {
        Some(self.heads)
    }

    fn problem(&self) -> Option<String> {
        encoder_problem(self.vocabulary, self.positions, self.context, self.width, self.heads, self.dropout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Model;

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        let sound = Bert {
            vocabulary: 99,
            positions: 16,
            context: 16,
            layers: 1,
            width: 8,
            heads: 2,
            dropout: 0.0,
            task: BertTask::Pretraining,
        };
        let problem = |change: &dyn Fn(&mut Bert)| {
            let mut bert = sound.clone();
            change(&mut bert);
            Model::Bert(bert).problem()
        };
        assert_eq!(problem(&|_| {}), None);
        let refused = |change: &dyn Fn(&mut Bert), message: &str| {
            assert_eq!(problem(change).as_deref(), Some(message));
        };
        refused(&|bert| bert.heads = 3, "model.bert: width 8 is not a multiple of heads 3");
        refused(&|bert| bert.heads = 0, "model.bert: heads is 0; sizes start at 1");
        refused(&|bert| bert.positions = 15, "model.bert: context 16 is longer than positions 15");
        refused(&|bert| bert.context = 7, "model.bert: context 7: use 8 or more");
        refused(&|bert| bert.vocabulary = 7, "model.bert: vocabulary 7: use 8 or more");
        refused(&|bert| bert.dropout = 1.0, "model.bert: dropout 1: use a number from 0 to below 1");
    }
}
