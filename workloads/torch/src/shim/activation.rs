//! Activations that tch offers without their arguments.

use std::ffi::c_int;

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::check;

unsafe extern "C" {
    fn tw_leaky_relu_in_place(tensor: *const C_tensor, slope: f64) -> c_int;
}

/// Leaky ReLU that overwrites its argument: what is negative is multiplied by `slope`, which must be positive for the
/// backward pass to know the sign of what was overwritten.
///
/// # Errors
/// None is known; libtorch reserves the right.
pub fn leaky_relu_in_place(activation: Tensor, slope: f64) -> Result<Tensor, TchError> {
    // SAFETY: the handle is ours for the length of the call.
    check(unsafe { tw_leaky_relu_in_place(activation.as_ptr(), slope) })?;
    Ok(activation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_gradients_are_scaled_where_negative() {
        let input = Tensor::from_slice(&[-2.0_f32, -1.0, 0.5, 3.0]).set_requires_grad(true);
        let output = leaky_relu_in_place(&input + 0.0, 0.2).unwrap();
        output.sum(None).backward();
        assert!(output.allclose(&Tensor::from_slice(&[-0.4_f32, -0.2, 0.5, 3.0]), 1e-6, 0.0, false));
        assert!(input.grad().allclose(&Tensor::from_slice(&[0.2_f32, 0.2, 1.0, 1.0]), 1e-6, 0.0, false));
    }
}
