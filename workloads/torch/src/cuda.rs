//! CUDA, found at run time.

use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use tch::{Device, Kind, TchError, Tensor};

use crate::failure::plain;

/// Opens `libtorch_cuda.so` if there is one, and says why not otherwise. Later calls return the first one's answer.
///
/// Must come before anything else of libtorch: it looks for CUDA's hooks once, at the first question that touches
/// them, and if they are not registered by then CUDA stays off for the life of the process. Opening the library runs
/// the static initialisers that register them. Its absence is no failure: the program then trains on the CPU.
///
/// # Errors
/// The dynamic linker's own words, when the library or one it needs is missing.
#[expect(unsafe_code, reason = "opens a shared library")]
pub fn load() -> Result<(), String> {
    static OUTCOME: OnceLock<Result<(), String>> = OnceLock::new();
    OUTCOME
        .get_or_init(|| {
            // SAFETY: its initialisers fill registries of libtorch and expect nothing of the program.
            let library = unsafe { Library::open(Some("libtorch_cuda.so"), RTLD_NOW | RTLD_GLOBAL) };
            // The registries point into the library from now on, so it is never closed.
            library.map(std::mem::forget).map_err(|error| error.to_string())
        })
        .clone()
}

/// Makes a tensor on the first device that CUDA sees.
///
/// # Errors
/// Why no job can train on it, in one line: libtorch has no CUDA, there is no driver, no device, or it does not work.
pub fn try_first_device() -> Result<(), String> {
    load().map_err(|missing| format!("libtorch has no CUDA: {missing}"))?;
    let error = match Tensor::f_zeros([1], (Kind::Float, Device::Cuda(0))) {
        Ok(_) => return Ok(()),
        // The text alone: the error's own words put before it that it is one of libtorch.
        Err(TchError::Torch(text)) => text,
        Err(other) => other.to_string(),
    };
    Err(plain(&error).lines().next().unwrap_or_default().to_owned())
}
