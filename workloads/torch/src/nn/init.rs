//! Initial values of parameters.

use tch::{Device, Kind, TchError, Tensor};

/// A distribution that every element of a tensor is drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    Constant(f64),
    Normal {
        mean: f64,
        deviation: f64,
    },
    /// Uniform between `-bound` and `bound`.
    Uniform {
        bound: f64,
    },
}

impl Init {
    pub const ZEROS: Init = Init::Constant(0.0);
    pub const ONES: Init = Init::Constant(1.0);

    /// Normal around zero.
    pub fn normal(deviation: f64) -> Init {
        Init::Normal { mean: 0.0, deviation }
    }

    /// What `torch.nn.Linear` and `Conv2d` do by default: He et al., ICCV 2015, for a leaky ReLU of slope sqrt(5).
    pub fn fan_in(fan_in: i64) -> Init {
        Init::Uniform { bound: 1.0 / (fan_in as f64).sqrt() }
    }

    /// What torchvision does for the convolutions of a ResNet: He et al., ICCV 2015, equation 14, for a ReLU.
    pub fn fan_out_normal(fan_out: i64) -> Init {
        Init::normal((2.0 / fan_out as f64).sqrt())
    }

    /// Draws a tensor from torch's generator of the CPU, wherever it will be used, so that the same seed gives the same
    /// model on every device.
    ///
    /// # Errors
    /// Out of memory.
    pub fn draw(self, shape: &[i64]) -> Result<Tensor, TchError> {
        let options = (Kind::Float, Device::Cpu);
        match self {
            Init::Constant(value) => Tensor::f_full(shape, value, options),
            Init::Normal { mean, deviation } => Tensor::f_empty(shape, options)?.f_normal_(mean, deviation),
            Init::Uniform { bound } => Tensor::f_empty(shape, options)?.f_uniform_(-bound, bound),
        }
    }
}
