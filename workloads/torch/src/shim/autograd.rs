//! Gradients and autocast.

use std::ffi::c_int;

use tch::{Device, TchError, Tensor};
use torch_sys::C_tensor;

use super::{check, handles};

unsafe extern "C" {
    fn tw_backward(output: *const C_tensor, inputs: *const *const C_tensor, count: usize) -> c_int;
    fn tw_clear_gradients(parameters: *const *const C_tensor, count: usize) -> c_int;
    fn tw_autocast_bf16_enter(is_cuda: c_int, previous: *mut i64) -> c_int;
    fn tw_autocast_bf16_leave(is_cuda: c_int, previous: i64) -> c_int;
}

/// Adds the gradients of the scalar `output` to those of `inputs`, and frees the graph.
///
/// Without `inputs` every leaf of the graph that requires a gradient gets one. With them, gradients of all other
/// leaves are not even computed: the discriminator's, while the generator learns through it.
///
/// # Errors
/// Whatever the backward pass of an operation reports, out of memory included.
pub fn backward(output: &Tensor, inputs: &[Tensor]) -> Result<(), TchError> {
    let inputs = handles(inputs);
    // SAFETY: all handles are borrowed for the length of the call.
    check(unsafe { tw_backward(output.as_ptr(), inputs.as_ptr(), inputs.len()) })
}

/// Frees the gradients of `parameters`: the next backward pass hands its results over and adds nothing.
///
/// # Errors
/// None is known; libtorch reserves the right.
pub fn clear_gradients(parameters: &[Tensor]) -> Result<(), TchError> {
    let parameters = handles(parameters);
    // SAFETY: all handles are borrowed for the length of the call.
    check(unsafe { tw_clear_gradients(parameters.as_ptr(), parameters.len()) })
}

/// While it lives, operations of this thread on `device` that gain from it run in bfloat16, as PyTorch's autocast decides.
///
/// The bf16 copies of weights are kept until the guard goes, so one guard spans one forward pass.
#[must_use = "autocast ends when the guard is dropped"]
pub struct AutocastBf16 {
    is_cuda: c_int,
    previous: i64,
}

impl AutocastBf16 {
    /// # Errors
    /// When libtorch's autocast does not know the device.
    pub fn enter(device: Device) -> Result<Self, TchError> {
        let mut guard = Self { is_cuda: c_int::from(device.is_cuda()), previous: 0 };
        // SAFETY: the pointer is that of a field which outlives the call. On failure nothing was entered and `forget`
        // keeps the guard from leaving.
        let entered = check(unsafe { tw_autocast_bf16_enter(guard.is_cuda, &mut guard.previous) });
        match entered {
            Ok(()) => Ok(guard),
            Err(error) => {
                std::mem::forget(guard);
                Err(error)
            }
        }
    }
}

impl Drop for AutocastBf16 {
    fn drop(&mut self) {
        // SAFETY: puts back what `enter` found; the two are always paired.
        let left = check(unsafe { tw_autocast_bf16_leave(self.is_cuda, self.previous) });
        debug_assert!(left.is_ok(), "autocast could not be left: {left:?}");
    }
}
