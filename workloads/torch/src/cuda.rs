//! CUDA, found at run time.

use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

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
