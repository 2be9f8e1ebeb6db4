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
pub mod function;
pub mod layout;
pub mod library;
pub mod memory;
pub mod memory_trace;
pub mod meta;
pub mod nccl;
pub mod operators;
pub mod optimizer;
pub mod random;
pub mod recompute;
pub mod storage;
pub mod stream;
pub mod transfer;

use std::{
    ffi::{CStr, c_char, c_int},
    panic::{self, AssertUnwindSafe},
};

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use crate::failure::words_of;

unsafe extern "C" {
    fn tw_last_error() -> *const c_char;
    fn tw_remember_error(message: *const c_char, length: usize);
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

/// The return value of a closure that C++ has called: 0, or 1 after its message was stored for a C++
/// exception. No panic crosses into C++.
fn answer(closure: impl FnOnce() -> Result<(), TchError>) -> c_int {
    let words = match panic::catch_unwind(AssertUnwindSafe(closure)) {
        Ok(Ok(())) => return 0,
        // The prefix of `TchError` is left out, because the error comes back as a `TchError`.
        Ok(Err(TchError::Torch(words))) => words,
        Ok(Err(error)) => error.to_string(),
        Err(payload) => words_of(&*payload).to_owned(),
    };
    // SAFETY: the text is borrowed for the length of the call, and has this length.
    unsafe { tw_remember_error(words.as_ptr().cast(), words.len()) };
    1
}

fn device_number(index: usize) -> c_int {
    c_int::try_from(index).expect("the number of a device is small")
}

/// The handles of `tensors`; they are borrowed and valid as long as the slice is.
fn handles(tensors: &[Tensor]) -> Vec<*const C_tensor> {
    tensors.iter().map(Tensor::as_ptr).collect()
}
