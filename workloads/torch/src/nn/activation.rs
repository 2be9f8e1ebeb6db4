//! What stands between layers.

use tch::{TchError, Tensor};

use super::relu_in_place;

/// A function of single numbers, named as its module in `torch.nn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Relu,
    Relu6,
    Hardswish,
    Silu,
}

impl Activation {
    /// Overwrites its argument, which must be what no other operation keeps for its backward pass: the output of batch
    /// norm, addition, convolution or linear layer.
    ///
    /// The backward passes of hardswish and SiLU need what was overwritten, so autograd keeps a copy and no memory is
    /// saved; it is what torchvision's models do.
    ///
    /// # Errors
    /// Out of memory.
    pub fn in_place(self, mut input: Tensor) -> Result<Tensor, TchError> {
        match self {
            Activation::Relu => relu_in_place(input),
            Activation::Relu6 => input.f_relu6_(),
            Activation::Hardswish => input.f_hardswish_(),
            Activation::Silu => input.f_silu_(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_gradients_are_those_of_the_definitions() {
        type Function = fn(&Tensor) -> Tensor;
        let functions: [(Activation, Function); 4] = [
            (Activation::Relu, |x| x.clamp_min(0.0)),
            (Activation::Relu6, |x| x.clamp(0.0, 6.0)),
            (Activation::Hardswish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
            (Activation::Silu, |x| x * x.sigmoid()),
        ];
        for (activation, definition) in functions {
            // No point at which a function has a corner.
            let points = Tensor::arange_start_step(-7.75, 8.0, 0.5, tch::kind::FLOAT_CPU);
            let gradient = |function: &dyn Fn(&Tensor) -> Tensor| {
                let input = points.copy().set_requires_grad(true);
                let output = function(&input);
                output.sum(None).backward();
                (output.detach(), input.grad())
            };
            let (values, slopes) = gradient(&|x| activation.in_place(x + 0.0).unwrap());
            let (expected, expected_slopes) = gradient(&definition);
            assert!(values.allclose(&expected, 1e-5, 1e-6, false), "{activation:?}");
            assert!(slopes.allclose(&expected_slopes, 1e-5, 1e-6, false), "{activation:?}");
        }
    }
}
