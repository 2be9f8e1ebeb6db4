//! Safe Rust over the C++ shim: what tch lacks of libtorch.
//!
//! Each file of this folder stands for one file of `shim/` and holds its declarations. Failures are
//! [`TchError::Torch`], as those of tch's own `f_` functions are, so both pass through one `?`.
#![expect(
    unsafe_code,
    reason = "the border to C++: the files here declare the shim's functions and call them"
)]

pub mod activation;
pub mod autograd;
pub mod collective;
pub mod event;
pub mod library;
pub mod memory;
pub mod meta;
pub mod nccl;
pub mod optimizer;
pub mod random;
pub mod storage;
pub mod transfer;

use std::ffi::{CStr, c_char, c_int};

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

unsafe extern "C" {
    fn tw_last_error() -> *const c_char;
}

/// Turns the status of a call of the shim into a `Result`.
fn check(status: c_int) -> Result<(), TchError> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: never null, ends in a zero byte, and stays as it is until this thread's next failure.
    let message = unsafe { CStr::from_ptr(tw_last_error()) };
    Err(TchError::Torch(message.to_string_lossy().into_owned()))
}

fn device_number(index: usize) -> c_int {
    c_int::try_from(index).expect("the number of a device is small")
}

/// The handles of `tensors`; they are borrowed and valid as long as the slice is.
fn handles(tensors: &[Tensor]) -> Vec<*const C_tensor> {
    tensors.iter().map(Tensor::as_ptr).collect()
}
