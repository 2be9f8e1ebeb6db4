//! Samples in fp64, for models that compute in fp64.

use tch::Tensor;

use crate::{
    nn::precision::in_fp64,
    workload::{Batch, DataStream, Share},
};

/// The samples of another stream, converted batch by batch. It is for checks, where the cost does not
/// matter.
pub(super) struct Widened(pub(super) Box<dyn DataStream>);

impl DataStream for Widened {
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        let Batch { inputs, targets } = self.0.next(samples)?;
        Ok(Batch { inputs: in_fp64(&inputs)?, targets: in_fp64(&targets)? })
    }

    fn share_out(&mut self, share: Share) -> anyhow::Result<()> {
        self.0.share_out(share)
    }

    fn position(&self) -> Option<u64> {
        self.0.position()
    }

    fn seek(&mut self, position: u64) -> anyhow::Result<()> {
        self.0.seek(position)
    }

    fn tensors(&self) -> Vec<&Tensor> {
        self.0.tensors()
    }
}
