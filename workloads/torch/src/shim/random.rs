//! Where a device's random generator is: the one that dropout on this device draws from.

use std::ffi::c_int;

use tch::{Device, TchError, Tensor};
use torch_sys::C_tensor;

use super::{check, device_number};

unsafe extern "C" {
    fn tw_random_state(cuda: c_int, state: *mut *mut C_tensor) -> c_int;
    fn tw_set_random_state(cuda: c_int, state: *const C_tensor) -> c_int;
}

/// All that decides what the generator of `device` draws next, as bytes in host memory that only a generator of the same
/// kind of device can read.
///
/// # Errors
/// When libtorch has no such device.
pub fn random_state(device: Device) -> Result<Tensor, TchError> {
    let mut state = std::ptr::null_mut();
    // SAFETY: the pointer is that of a local variable.
    check(unsafe { tw_random_state(number(device), &mut state) })?;
    // SAFETY: on success the handle has no other owner, like those that tch's own functions return.
    Ok(unsafe { Tensor::from_ptr(state) })
}

/// Lets the generator of `device` go on from where [`random_state`] found one.
///
/// # Errors
/// For bytes that are no state of such a generator, or when libtorch has no such device.
pub fn set_random_state(device: Device, state: &Tensor) -> Result<(), TchError> {
    // SAFETY: the handle is borrowed for the length of the call.
    check(unsafe { tw_set_random_state(number(device), state.as_ptr()) })
}

/// As the shim wants it: negative for the CPU.
fn number(device: Device) -> c_int {
    match device {
        Device::Cuda(index) => device_number(index),
        _ => -1,
    }
}
