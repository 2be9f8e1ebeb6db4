//! A fixed set of samples that a stream repeats.

use tch::{TchError, Tensor};

use super::in_order::{Numbered, Place};
use crate::workload::Batch;

/// Prepared samples on the device that uses them. A batch is a view without a copy, so that a step's time
/// is that of the training and not of the data.
pub(super) struct Pool {
    inputs: Tensor,
    targets: Tensor,
    samples: i64,
}

impl Pool {
    /// Both tensors have one sample per index of the first dimension, at least one.
    pub(super) fn new(inputs: Tensor, targets: Tensor) -> Self {
        let samples = inputs.size()[0];
        assert!(samples > 0 && targets.size()[0] == samples, "inputs and targets go in pairs");
        Self { inputs, targets, samples }
    }

    /// Returns `samples` rows from `start` on, and wraps around at the end.
    fn slice(&self, tensor: &Tensor, mut start: i64, samples: i64) -> Result<Tensor, TchError> {
        let mut pieces = Vec::new();
        let mut missing = samples;
        while missing > 0 {
            let length = missing.min(self.samples - start);
            pieces.push(tensor.f_narrow(0, start, length)?);
            missing -= length;
            start = 0;
        }
        if pieces.len() == 1 { Ok(pieces.remove(0)) } else { Tensor::f_cat(&pieces, 0) }
    }
}

impl Numbered for Pool {
    fn batch(&mut self, place: Place, samples: usize) -> anyhow::Result<Batch> {
        let start = (place.first(samples) % self.samples as u64) as i64;
        let samples = i64::try_from(samples)?;
        Ok(Batch {
            inputs: self.slice(&self.inputs, start, samples)?,
            targets: self.slice(&self.targets, start, samples)?,
        })
    }

    fn tensors(&self) -> Vec<&Tensor> {
        vec![&self.inputs, &self.targets]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{data::in_order::InOrder, workload::DataStream};

    fn values(tensor: &Tensor) -> Vec<i64> {
        Vec::try_from(tensor).unwrap()
    }

    #[test]
    fn the_order_of_samples_does_not_depend_on_how_many_are_taken_at_once() {
        // Five samples that are their own numbers.
        let stream = || {
            let numbers = Tensor::arange(5, tch::kind::INT64_CPU);
            InOrder::new(Pool::new(numbers, Tensor::ones([5], tch::kind::INT64_CPU)))
        };
        let (mut whole, mut halves) = (stream(), stream());
        for _ in 0..4 {
            let whole = values(&whole.next(6).unwrap().inputs);
            let halves: Vec<_> = (0..2).flat_map(|_| values(&halves.next(3).unwrap().inputs)).collect();
            assert_eq!(whole, halves);
        }
        assert_eq!(values(&whole.next(11).unwrap().inputs), [4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn samples_within_the_pool_are_not_copied() {
        let pool =
            Pool::new(Tensor::zeros([4, 2], tch::kind::FLOAT_CPU), Tensor::zeros([4], tch::kind::FLOAT_CPU));
        let start = pool.inputs.data_ptr();
        let mut stream = InOrder::new(pool);
        assert_eq!(stream.next(2).unwrap().inputs.data_ptr(), start);
        assert_eq!(stream.next(2).unwrap().inputs.data_ptr() as usize, start as usize + 4 * 4);
    }
}
