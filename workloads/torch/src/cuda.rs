//! CUDA, found at run time.

use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use tch::{Device, Kind, TchError, Tensor};

use crate::failure::plain;

/// Opens `libtorch_cuda.so`, or returns the reason why it cannot. Later calls return the first answer.
///
/// Must be called before any other use of libtorch, which looks for CUDA's hooks once, at the first question that needs
/// them. If they are not registered by then, CUDA stays off for the life of the process. Opening the library runs
/// the static initialisers that register them. A missing library is no failure, because the program then trains on the CPU.
///
/// # Errors
/// The message of the dynamic linker, if the library or one it needs is missing.
#[expect(unsafe_code, reason = "opens a shared library")]
pub fn load() -> Result<(), String> {
    static OUTCOME: OnceLock<Result<(), String>> = OnceLock::new();
    OUTCOME
        .get_or_init(|| {
            // SAFETY: its initialisers fill registries of libtorch and have no requirements.
            let library = unsafe { Library::open(Some("libtorch_cuda.so"), RTLD_NOW | RTLD_GLOBAL) };
            // The registries point into the library from now on, so it is never closed.
            library.map(std::mem::forget).map_err(|error| error.to_string())
        })
        .clone()
}

/// Makes a tensor on the first device that CUDA sees.
///
/// # Errors
/// The reason why no job can train on it, in one line: libtorch has no CUDA, or there is no driver, no device or no working one.
pub fn try_first_device() -> Result<(), String> {
    load().map_err(|missing| format!("libtorch has no CUDA: {missing}"))?;
    let error = match Tensor::f_zeros([1], (Kind::Float, Device::Cuda(0))) {
        Ok(_) => return Ok(()),
        // The text alone, without the prefix that names libtorch.
        Err(TchError::Torch(text)) => text,
        Err(other) => other.to_string(),
    };
    Err(plain(&error).lines().next().unwrap_or_default().to_owned())
}
