//! Records operators with PyTorch's own profiler.

use std::{
    ffi::{CString, c_char, c_int},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use tch::{Device, TchError};

use super::check;

unsafe extern "C" {
    fn tw_operators_begin(cuda: c_int) -> c_int;
    fn tw_operators_end(path: *const c_char) -> c_int;
}

/// Begins a recording of the operators of this thread and of autograd's threads for it, on the host and on `device`. There is one
/// recording at a time in a process, and [`end`] must be called by the same thread.
///
/// # Errors
/// A recording is in progress.
pub fn begin(device: Device) -> Result<(), TchError> {
    // SAFETY: takes a plain number.
    check(unsafe { tw_operators_begin(c_int::from(device.is_cuda())) })
}

/// Ends the recording and writes its trace.
///
/// # Errors
/// No recording is in progress, or the path contains a zero byte.
pub fn end(path: &Path) -> Result<(), TchError> {
    let path =
        CString::new(path.as_os_str().as_bytes()).map_err(|error| TchError::Torch(error.to_string()))?;
    // SAFETY: the path ends in a zero byte, and outlives the call.
    check(unsafe { tw_operators_end(path.as_ptr()) })
}
