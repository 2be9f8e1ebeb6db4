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
    /// A matrix of the outputs by all else whose shorter sides are orthogonal and `gain` long, as
    /// `torch.nn.init.orthogonal_`: Saxe et al., ICLR 2014.
    Orthogonal {
        gain: f64,
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

    /// Glorot and Bengio, AISTATS 2010, for a matrix: `torch.nn.init.xavier_uniform_`.
    pub fn xavier_uniform(inputs: i64, outputs: i64) -> Init {
        Init::Uniform { bound: (6.0 / (inputs + outputs) as f64).sqrt() }
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
            Init::Orthogonal { gain } => orthogonal(shape)?.f_mul_scalar(gain),
        }
    }
}

/// With rows or columns of length 1, whichever are fewer.
fn orthogonal(shape: &[i64]) -> Result<Tensor, TchError> {
    let (rows, columns) = (shape[0], shape[1..].iter().product::<i64>());
    let tall = [rows.max(columns), rows.min(columns)];
    let (q, r) = Tensor::f_linalg_qr(&Init::normal(1.0).draw(&tall)?, "reduced")?;
    // With the signs of R's diagonal the distribution is uniform over all such matrices.
    let signed = q.f_mul(&r.f_diagonal(0, 0, 1)?.f_sign()?)?;
    let matrix = if rows < columns { signed.f_transpose(0, 1)? } else { signed };
    matrix.f_contiguous()?.f_reshape(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orthogonal_weights_are_so_along_their_shorter_side() {
        for (shape, sides) in [(vec![3, 2, 5], 3), (vec![6, 4], 4)] {
            let drawn = Init::Orthogonal { gain: 2.0 }.draw(&shape).unwrap();
            assert_eq!(drawn.size(), shape);
            let matrix = drawn.view([shape[0], -1]);
            let products =
                if sides == shape[0] { matrix.matmul(&matrix.tr()) } else { matrix.tr().matmul(&matrix) };
            let expected = Tensor::eye(sides, (Kind::Float, Device::Cpu)) * 4.0;
            assert!(products.allclose(&expected, 1e-5, 1e-5, false), "{shape:?}");
        }
    }
}
