//! The cost of a job on more nodes than it needs.

use record::rows::Warnings;

use crate::{PredictRequest, Prediction, Throughput};

/// A model that also answers for jobs that are spread over nodes: a step takes this many times as long as on one node. The factor
/// applies where the model itself has no answer for the placement.
pub struct Spread {
    pub model: Box<dyn Throughput>,
    pub slowdown: f64,
}

impl Throughput for Spread {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        self.model.predict(question).or_else(|| {
            let devices: u32 = question.placement.iter().sum();
            if question.placement.len() < 2 {
                return None;
            }
            let on_one_node = self.model.predict(&PredictRequest { placement: &[devices], ..*question })?;
            Some(on_one_node.times(self.slowdown))
        })
    }

    fn warnings(&self, question: &PredictRequest<'_>) -> Warnings {
        let devices: u32 = question.placement.iter().sum();
        let on_one_node = || self.model.warnings(&PredictRequest { placement: &[devices], ..*question });
        self.model.predict(question).map_or_else(on_one_node, |_| self.model.warnings(question))
    }

    fn peak_memory_bytes(&self, question: &PredictRequest<'_>) -> Option<u64> {
        let devices: u32 = question.placement.iter().sum();
        let on_one_node =
            || self.model.peak_memory_bytes(&PredictRequest { placement: &[devices], ..*question });
        self.model.peak_memory_bytes(question).or_else(on_one_node)
    }

    fn minds_neighbours(&self) -> bool {
        self.model.minds_neighbours()
    }

    fn observe(&mut self, question: &PredictRequest<'_>, step_ns: f64) -> bool {
        self.model.observe(question, step_ns)
    }

    fn version(&self) -> Option<u64> {
        self.model.version()
    }
}
