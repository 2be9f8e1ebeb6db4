//! Batch norm, layer norm and RMS norm.

use tch::{TchError, Tensor};

use super::{init::Init, parameters::Scope};
use crate::{recompute, workload::Block};

/// PyTorch's default for all norms.
const EPSILON: f64 = 1e-5;
/// PyTorch's default for running statistics.
const MOMENTUM: f64 = 0.1;

/// Normalises each channel, the second dimension, over the samples of a micro-batch, as `torch.nn.BatchNorm2d` in training
/// mode, and as `BatchNorm1d` where there are fewer dimensions.
///
/// The running statistics are updated although nothing reads them, because the update is part of the work
/// of a step. An exact model normalises by their constant initial values, so that samples do not depend on
/// each other. `num_batches_tracked` is left out, because only a cumulative average would need it.
pub struct BatchNorm2d {
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    epsilon: f64,
    momentum: f64,
    /// Whether it normalises by the statistics of a micro-batch.
    training: bool,
}

impl BatchNorm2d {
    /// # Errors
    /// Out of memory.
    pub fn new(scope: Scope<'_>, channels: i64) -> Result<Self, TchError> {
        Self::with_init(scope, channels, Init::ONES)
    }

    /// Scales from `init`, shifts zero.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_init(mut scope: Scope<'_>, channels: i64, init: Init) -> Result<Self, TchError> {
        Ok(Self {
            weight: scope.parameter("weight", &[channels], init)?,
            bias: scope.parameter("bias", &[channels], Init::ZEROS)?,
            running_mean: scope.buffer("running_mean", &[channels], 0.0)?,
            running_var: scope.buffer("running_var", &[channels], 1.0)?,
            epsilon: EPSILON,
            momentum: MOMENTUM,
            training: !scope.is_exact(),
        })
    }

    /// With another number added to the variance, and another weight of the newest statistics among the running ones.
    #[must_use = "it gives the norm back"]
    pub fn with_constants(self, epsilon: f64, momentum: f64) -> Self {
        Self { epsilon, momentum, ..self }
    }
}

impl Block for BatchNorm2d {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        const CUDNN_ENABLED: bool = true;
        // If a batch is computed twice, its statistics are averaged once. In training the output does not
        // depend on the averages.
        let averages = !self.training || !recompute::is_again();
        input.f_batch_norm(
            Some(&self.weight),
            Some(&self.bias),
            averages.then_some(&self.running_mean),
            averages.then_some(&self.running_var),
            self.training,
            self.momentum,
            self.epsilon,
            CUDNN_ENABLED,
        )
    }
}

/// Normalises each vector of the last dimension, as `torch.nn.LayerNorm`.
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    width: i64,
    epsilon: f64,
}

impl LayerNorm {
    /// # Errors
    /// Out of memory.
    pub fn new(scope: Scope<'_>, width: i64) -> Result<Self, TchError> {
        Self::with_epsilon(scope, width, EPSILON)
    }

    /// `epsilon` is added to the variance.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_epsilon(mut scope: Scope<'_>, width: i64, epsilon: f64) -> Result<Self, TchError> {
        let weight = scope.parameter("weight", &[width], Init::ONES)?;
        let bias = scope.parameter("bias", &[width], Init::ZEROS)?;
        Ok(Self { weight, bias, width, epsilon })
    }
}

impl Block for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        const CUDNN_ENABLED: bool = true;
        input.f_layer_norm([self.width], Some(&self.weight), Some(&self.bias), self.epsilon, CUDNN_ENABLED)
    }
}

/// Divides each vector of the last dimension by its root mean square, as `torch.nn.RMSNorm` (Zhang and Sennrich, NeurIPS
/// 2019).
pub struct RmsNorm {
    weight: Tensor,
    width: i64,
    epsilon: f64,
}

impl RmsNorm {
    /// `epsilon` is added to the mean square.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(mut scope: Scope<'_>, width: i64, epsilon: f64) -> Result<Self, TchError> {
        Ok(Self { weight: scope.parameter("weight", &[width], Init::ONES)?, width, epsilon })
    }
}

impl Block for RmsNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        input.f_rms_norm([self.width], Some(&self.weight), self.epsilon)
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::nn::parameters::Parameters;

    #[test]
    fn an_exact_model_normalises_by_statistics_that_stay_as_they_began() {
        for (mut parameters, is_exact) in
            [(Parameters::new(Device::Cpu), false), (Parameters::new(Device::Cpu).exact(), true)]
        {
            let norm = BatchNorm2d::new(parameters.root(), 3).unwrap();
            let input = Tensor::arange(24, (parameters.kind(), Device::Cpu)).view([4, 3, 2, 1]);
            let [whole, first] = [4, 1].map(|samples| norm.forward(&input.narrow(0, 0, samples)).unwrap());
            let alone = whole.narrow(0, 0, 1).allclose(&first, 1e-9, 0.0, false);
            assert_eq!(alone, is_exact, "whether a sample depends on the others");
            assert_eq!(norm.running_mean == Tensor::zeros([3], (parameters.kind(), Device::Cpu)), is_exact);
            if is_exact {
                let expected = input / (1.0 + EPSILON).sqrt();
                assert!(whole.allclose(&expected, 1e-12, 0.0, false) && whole.kind() == Kind::Double);
            }
        }
    }
}
