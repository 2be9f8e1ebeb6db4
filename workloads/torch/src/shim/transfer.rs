//! Copies between host and device that neither side waits for.

use std::ffi::c_int;

use tch::{Device, TchError, Tensor};
use torch_sys::C_tensor;

use super::{check, device_number, handles};

unsafe extern "C" {
    fn tw_to_cuda(host: *const C_tensor, device: c_int, copy: *mut *mut C_tensor) -> c_int;
    fn tw_page_locked(like: *const C_tensor, count: i64, line: *mut *mut C_tensor) -> c_int;
    fn tw_copy_all(count: usize, to: *const *const C_tensor, from: *const *const C_tensor) -> c_int;
    fn tw_cuda_wait(device: c_int) -> c_int;
}

/// The values of `host`, a tensor of the CPU, where `device` can work on them: a copy through page-locked memory, in
/// which `host` may lie already, that is queued and not waited for, or on the CPU the tensor itself.
///
/// # Errors
/// Out of memory, or no such device.
pub fn to_device(host: Tensor, device: Device) -> Result<Tensor, TchError> {
    let Device::Cuda(index) = device else { return host.f_to(device) };
    let mut copy = std::ptr::null_mut();
    // SAFETY: the handle is borrowed for the length of the call and the pointer is that of a local variable.
    check(unsafe { tw_to_cuda(host.as_ptr(), device_number(index), &mut copy) })?;
    // SAFETY: on success the handle has no other owner, like those that tch's own functions return.
    Ok(unsafe { Tensor::from_ptr(copy) })
}

/// The values of `tensor` on the host, to be read only when its device has done all that was queued so far. On the CPU
/// it is the tensor itself.
///
/// # Errors
/// Out of memory.
pub fn to_host(tensor: &Tensor) -> Result<Tensor, TchError> {
    // A copy from CUDA that does not block gets its place in page-locked memory from libtorch itself.
    const NON_BLOCKING: bool = true;
    const ALSO_WHERE_IT_IS: bool = false;
    tensor.f_to_device_(Device::Cpu, tensor.f_kind()?, NON_BLOCKING, ALSO_WHERE_IT_IS)
}

/// A new line of `count` numbers, of the kind of `like`, in page-locked memory of the host: what a device can read and
/// write by itself. PyTorch keeps such memory when it is given back, in blocks of powers of two.
///
/// # Errors
/// When libtorch has no CUDA, or out of memory.
pub fn page_locked(like: &Tensor, count: i64) -> Result<Tensor, TchError> {
    let mut line = std::ptr::null_mut();
    // SAFETY: the handle is borrowed for the length of the call and the pointer is that of a local variable.
    check(unsafe { tw_page_locked(like.as_ptr(), count, &mut line) })?;
    // SAFETY: on success the handle has no other owner, like those that tch's own functions return.
    Ok(unsafe { Tensor::from_ptr(line) })
}

/// Copies each tensor of `from` into that of `to` at the same place. Between page-locked memory and a device the copies
/// are queued and not waited for; between tensors of the host they are made at once.
///
/// # Errors
/// When shapes do not agree, or with an earlier error of the device.
pub fn copy_all(to: &[Tensor], from: &[Tensor]) -> Result<(), TchError> {
    assert_eq!(to.len(), from.len(), "each tensor has one to be copied into");
    let (to, from) = (handles(to), handles(from));
    // SAFETY: all handles are borrowed for the length of the call and the two lists are equally long.
    check(unsafe { tw_copy_all(to.len(), to.as_ptr(), from.as_ptr()) })
}

/// Returns when `device` has done all that was queued, copies included. The CPU has done it already.
///
/// # Errors
/// An error of what was queued, or no such device.
pub fn wait_for(device: Device) -> Result<(), TchError> {
    let Device::Cuda(index) = device else { return Ok(()) };
    // SAFETY: takes a plain number.
    check(unsafe { tw_cuda_wait(device_number(index)) })
}
