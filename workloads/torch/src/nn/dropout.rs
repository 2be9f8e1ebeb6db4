//! Noise of training. It comes from torch's generator of the device, so the seed of a launch decides it.

use tch::{TchError, Tensor};

use super::tensor_parallel::TensorParallel;
use crate::{shim::meta::zeros_beside, workload::Block};

/// Sets a share of the numbers to zero and scales the others up, as `torch.nn.Dropout`. A share of 0 draws nothing.
#[derive(Clone, Copy, Debug)]
pub struct Dropout(pub f64);

impl Dropout {
    /// Drops numbers of activations that tensor-parallel ranks divide: each rank draws for its own part.
    ///
    /// # Errors
    /// Out of memory.
    pub fn forward_divided(&self, input: &Tensor, ranks: &TensorParallel) -> Result<Tensor, TchError> {
        if self.0 == 0.0 {
            self.forward(input)
        } else {
            ranks.draw_apart(input.device(), || self.forward(input))
        }
    }
}

impl Block for Dropout {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        const TRAINING: bool = true;
        input.f_dropout(self.0, TRAINING)
    }
}

/// Sets a share of the samples, which the first dimension counts, to zero and scales the others up: Huang et al.,
/// ECCV 2016, in the form of torchvision's `StochasticDepth(share, "row")`. A share of 0 draws nothing.
///
/// # Errors
/// Out of memory.
pub fn stochastic_depth(input: Tensor, share: f64) -> Result<Tensor, TchError> {
    if share == 0.0 {
        return Ok(input);
    }
    let kept_share = 1.0 - share;
    let mut shape = vec![1; input.dim()];
    shape[0] = input.size()[0];
    let mut kept = zeros_beside(&input, &shape)?.f_bernoulli_float_(kept_share)?;
    input.f_mul(&kept.f_div_scalar_(kept_share)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_whole_samples_goes_and_the_mean_stays() {
        let input = Tensor::ones([1000, 2, 3, 1], tch::kind::FLOAT_CPU);
        let output = stochastic_depth(input.shallow_clone(), 0.2).unwrap();
        let per_sample = output.amax([1, 2, 3], false);
        assert_eq!(output.amin([1, 2, 3], false), per_sample, "a sample goes as a whole");
        let kept = per_sample.gt(0.0).sum(tch::Kind::Int64).int64_value(&[]);
        // Five deviations of a binomial distribution.
        assert!((kept - 800).abs() < 65, "{kept}");
        assert!((per_sample.max().double_value(&[]) - 1.25).abs() < 1e-6);

        let untouched = stochastic_depth(input.shallow_clone(), 0.0).unwrap();
        assert_eq!(untouched.data_ptr(), input.data_ptr());
    }
}
