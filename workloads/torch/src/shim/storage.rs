//! Which memory a tensor lies in.

use std::ffi::{c_int, c_void};

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::check;

unsafe extern "C" {
    fn tw_storage(
        tensor: *const C_tensor,
        storage: *mut *const c_void,
        bytes: *mut i64,
        first: *mut i64,
    ) -> c_int;
    fn tw_storage_free(tensor: *const C_tensor) -> c_int;
    fn tw_storage_allocate(tensor: *const C_tensor, bytes: i64) -> c_int;
}

/// Gives the memory of `tensor` back. It and its views keep their shapes, and must not be read before [`allocate`].
///
/// # Errors
/// For a tensor without memory of its own, as a sparse one.
pub fn free(tensor: &Tensor) -> Result<(), TchError> {
    // SAFETY: the handle is borrowed for the length of the call. A read of the tensor finds an empty storage, which
    // PyTorch checks or which is at address 0; no memory of others is touched.
    check(unsafe { tw_storage_free(tensor.as_ptr()) })
}

/// New memory of `bytes` bytes, of any content, for a tensor whose memory was given back, and for its views.
///
/// # Errors
/// Out of memory.
pub fn allocate(tensor: &Tensor, bytes: usize) -> Result<(), TchError> {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    // SAFETY: the handle is borrowed for the length of the call.
    check(unsafe { tw_storage_allocate(tensor.as_ptr(), bytes) })
}

/// A piece of memory that tensors are views of. Equal ones are the same memory, as long as a tensor lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Storage {
    address: usize,
    pub bytes: usize,
}

impl Storage {
    /// That of `tensor`, and where in it the tensor begins, counted in its own numbers.
    ///
    /// # Errors
    /// For a tensor without memory, as a sparse one.
    pub fn of(tensor: &Tensor) -> Result<(Self, i64), TchError> {
        let (mut storage, mut bytes, mut first) = (std::ptr::null(), 0, 0);
        // SAFETY: the handle is borrowed for the length of the call; the pointers are those of three local variables.
        check(unsafe { tw_storage(tensor.as_ptr(), &mut storage, &mut bytes, &mut first) })?;
        let bytes = usize::try_from(bytes).expect("memory is not of a negative size");
        Ok((Self { address: storage.addr(), bytes }, first))
    }
}
