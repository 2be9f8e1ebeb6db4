//! NCCL's process group, if the program was built with it and the machine has it.

use std::{fs::File, io::Write, mem, os::fd::AsRawFd, sync::OnceLock};

use libloading::os::unix::{Library, RTLD_NOW};
use rustix::fs::{MemfdFlags, memfd_create};
// Embedded in the program, so that there is one file to install, on machines with and without GPUs.
use torch_shim::NCCL;

use crate::cuda;

/// The function of `nccl.cpp`, which is passed to `collective.cpp` and called there.
pub(super) type MakeNccl = unsafe extern "C" fn();

/// Opens the library, which finds NCCL in that of PyTorch. Later calls return the first answer.
///
/// # Errors
/// The missing part, with the remedy.
pub fn find() -> Result<MakeNccl, String> {
    static FOUND: OnceLock<Result<MakeNccl, String>> = OnceLock::new();
    FOUND.get_or_init(open).clone()
}

fn open() -> Result<MakeNccl, String> {
    if NCCL.is_empty() {
        return Err(
            "this torch-worker was built without NCCL; build it anew after scripts/setup --cuda".into()
        );
    }
    cuda::load().map_err(|missing| format!("libtorch has no CUDA: {missing}"))?;
    let cannot =
        |error: &dyn std::fmt::Display| format!("NCCL's part of torch-worker cannot be opened: {error}");
    let memory = memfd_create("torch-worker-nccl", MemfdFlags::CLOEXEC).map_err(|error| cannot(&error))?;
    let mut file = File::from(memory);
    file.write_all(NCCL).map_err(|error| cannot(&error))?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the library is ours, has no initialisers of its own, and takes its symbols from libtorch, which is open.
    let library = unsafe { Library::open(Some(path), RTLD_NOW) }.map_err(|error| cannot(&error))?;
    // SAFETY: the function is there under this name, and its type is not used to call it.
    let make = unsafe { library.get::<MakeNccl>(b"tw_nccl_backend\0") }.map_err(|error| cannot(&error))?;
    let make = *make;
    mem::forget(library);
    Ok(make)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_or_what_is_missing_is_named() {
        let found = find();
        let missing = match (NCCL.is_empty(), cuda::load()) {
            (true, _) => "built without NCCL; build it anew after scripts/setup --cuda",
            (false, Err(_)) => "libtorch has no CUDA",
            // Where libtorch has CUDA, no driver is needed to open it.
            (false, Ok(())) => return assert_eq!(found.map(drop), Ok(())),
        };
        let error = found.expect_err("something is missing");
        assert!(error.contains(missing), "{error}");
    }
}
