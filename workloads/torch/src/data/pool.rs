//! A fixed set of samples that a stream goes round and round.

use tch::{TchError, Tensor};

use crate::workload::{Batch, DataStream, Share};

/// Samples made beforehand, on the device where they are used: taking some is a view and copies nothing, so that a
/// step's time is that of the training and not of the data.
pub(super) struct Pool {
    inputs: Tensor,
    targets: Tensor,
    samples: i64,
    share: Share,
    /// Samples that all ranks have taken.
    taken: u64,
}

impl Pool {
    /// Both tensors hold a sample for each index of their first dimension, at least one.
    pub(super) fn new(inputs: Tensor, targets: Tensor) -> Self {
        let samples = inputs.size()[0];
        assert!(samples > 0 && targets.size()[0] == samples, "inputs and targets go in pairs");
        Self { inputs, targets, samples, share: Share::ALL, taken: 0 }
    }

    /// `samples` rows from `start` on, beginning again at the end.
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

impl DataStream for Pool {
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        let first = self.taken + self.share.before(samples as u64);
        self.taken += self.share.all(samples as u64);
        let start = (first % self.samples as u64) as i64;
        let samples = i64::try_from(samples)?;
        Ok(Batch {
            inputs: self.slice(&self.inputs, start, samples)?,
            targets: self.slice(&self.targets, start, samples)?,
        })
    }

    fn share_out(&mut self, share: Share) -> anyhow::Result<()> {
        self.share = share;
        Ok(())
    }

    fn position(&self) -> Option<u64> {
        Some(self.taken)
    }

    fn seek(&mut self, position: u64) -> anyhow::Result<()> {
        self.taken = position;
        Ok(())
    }

    fn tensors(&self) -> Vec<&Tensor> {
        vec![&self.inputs, &self.targets]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(tensor: &Tensor) -> Vec<i64> {
        Vec::try_from(tensor).unwrap()
    }

    /// Five samples that are their own numbers.
    fn counting(share: Share) -> Pool {
        let mut pool = Pool::new(
            Tensor::arange(5, (tch::Kind::Int64, tch::Device::Cpu)),
            Tensor::ones([5], tch::kind::INT64_CPU),
        );
        pool.share_out(share).unwrap();
        pool
    }

    #[test]
    fn ranks_share_a_batch_out_and_go_on_from_any_position_in_any_number() {
        let mut whole = counting(Share::ALL);
        let mut ranks = [0, 1, 2].map(|rank| counting(Share { rank, ranks: 3 }));
        for _ in 0..3 {
            let together: Vec<_> =
                ranks.iter_mut().flat_map(|pool| values(&pool.next(2).unwrap().inputs)).collect();
            assert_eq!(together, values(&whole.next(6).unwrap().inputs));
        }
        assert_eq!((whole.position(), ranks[2].position()), (Some(18), Some(18)));
        let mut alone = counting(Share::ALL);
        alone.seek(18).unwrap();
        assert_eq!(values(&alone.next(3).unwrap().inputs), values(&whole.next(3).unwrap().inputs));
    }

    #[test]
    fn the_order_of_samples_does_not_depend_on_how_many_are_taken_at_once() {
        let pool = || counting(Share::ALL);
        let (mut whole, mut halves) = (pool(), pool());
        for _ in 0..4 {
            let whole = values(&whole.next(6).unwrap().inputs);
            let halves: Vec<_> = (0..2).flat_map(|_| values(&halves.next(3).unwrap().inputs)).collect();
            assert_eq!(whole, halves);
        }
        assert_eq!(values(&whole.next(11).unwrap().inputs), [4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn samples_within_the_pool_are_not_copied() {
        let mut pool =
            Pool::new(Tensor::zeros([4, 2], tch::kind::FLOAT_CPU), Tensor::zeros([4], tch::kind::FLOAT_CPU));
        let start = pool.inputs.data_ptr();
        assert_eq!(pool.next(2).unwrap().inputs.data_ptr(), start);
        assert_eq!(pool.next(2).unwrap().inputs.data_ptr() as usize, start as usize + 4 * 4);
    }
}
