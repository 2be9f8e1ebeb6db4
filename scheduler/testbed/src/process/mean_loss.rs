//! The training loss of a launch, for reports of progress.

use std::collections::BTreeMap;

use record::steps::{RankLoss, loss_of_step};
use schema::wire::Step;

/// The mean loss of the steps that all ranks have done. A step that some ranks have not reported yet counts when they have.
#[derive(Default)]
pub(super) struct MeanLoss {
    /// What ranks have reported of steps that others have not, by step.
    partial: BTreeMap<u64, Vec<RankLoss>>,
    /// The number of steps that all ranks have done.
    complete: u64,
    sum: f64,
    losses: u32,
}

impl MeanLoss {
    /// Adds the loss of a step of a rank.
    pub(super) fn add(&mut self, step: &Step) {
        // A rank may be heard of late, when its first steps count already.
        if step.index >= self.complete {
            self.partial.entry(step.index).or_default().push(RankLoss::of(step));
        }
    }

    /// Counts the steps up to this number, which all ranks have done.
    pub(super) fn complete(&mut self, steps: u64) {
        self.complete = self.complete.max(steps);
        while let Some(first) = self.partial.first_entry().filter(|first| *first.key() < self.complete) {
            // A loss that is not finite is left out by workers, and might be made here by large ones.
            if let Some(loss) = loss_of_step(&first.remove()).filter(|loss| loss.is_finite()) {
                self.sum += loss;
                self.losses += 1;
            }
        }
    }

    /// Returns the mean, and begins anew. `None` if no step had a loss.
    pub(super) fn take(&mut self) -> Option<f64> {
        let mean = (self.losses > 0).then(|| self.sum / f64::from(self.losses));
        (self.sum, self.losses) = (0.0, 0);
        mean.filter(|mean| mean.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use schema::{units::Nanos, wire::Timing};

    use super::*;

    fn step(index: u64, samples: u64, loss: Option<f64>) -> Step {
        let (dur_ns, samples, timing) = (Nanos(1), Some(samples), Timing::Host);
        Step { index, dur_ns, samples, loss, phases: None, sent_bytes: None, timing }
    }

    #[test]
    fn steps_count_when_all_ranks_have_done_them_and_ranks_by_their_samples() {
        let mut mean = MeanLoss::default();
        assert_eq!(mean.take(), None);
        mean.add(&step(0, 1, Some(4.0)));
        mean.add(&step(1, 1, Some(3.0)));
        assert_eq!(mean.take(), None, "the other rank has done no step");
        mean.add(&step(0, 3, Some(8.0)));
        mean.complete(1);
        mean.add(&step(1, 3, Some(3.0)));
        mean.complete(2);
        // (4 + 3 * 8) / 4 is 7, and the next step has 3.
        assert_eq!(mean.take(), Some(5.0));
        assert_eq!(mean.take(), None);
        // A rank of a pipeline that reports no samples has no say; a loss that is not finite is no loss.
        for (index, loss) in [(2, Some(1.0)), (3, None), (4, Some(2.0))] {
            mean.add(&step(index, 0, None));
            mean.add(&step(index, 8, loss));
        }
        mean.complete(4);
        assert_eq!(mean.take(), Some(1.0));
        mean.complete(5);
        assert_eq!(mean.take(), Some(2.0));
        mean.add(&step(0, 8, Some(9.0)));
        mean.complete(6);
        assert_eq!(mean.take(), None, "a step that counted before");
    }
}
