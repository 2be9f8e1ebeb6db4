//! Every allocation and every release of a device's tensor memory, in order.

use std::ffi::c_int;

use tch::{Device, TchError};

use super::check;

unsafe extern "C" {
    fn tw_memory_trace_begin(cuda: c_int) -> c_int;
    fn tw_memory_trace_length() -> usize;
    fn tw_memory_trace_end(cuda: c_int) -> c_int;
    fn tw_memory_trace_read(into: *mut i64, count: usize);
}

/// Records from here on what the tensors of `device` take and give back. One recording at a time is made in a process, and
/// [`end`] is called by the thread that began it. On CUDA it is the work of this thread that is recorded.
///
/// # Errors
/// None is known.
pub fn begin(device: Device) -> Result<(), TchError> {
    // SAFETY: takes a plain number.
    check(unsafe { tw_memory_trace_begin(c_int::from(device.is_cuda())) })
}

/// Events so far.
pub fn length() -> usize {
    // SAFETY: takes nothing and reads under a lock.
    unsafe { tw_memory_trace_length() }
}

/// Ends the recording. Gives the bytes of each event: those that were taken, and negative those that were given back.
///
/// # Errors
/// Where another thread began it.
pub fn end(device: Device) -> Result<Vec<i64>, TchError> {
    // SAFETY: takes a plain number.
    check(unsafe { tw_memory_trace_end(c_int::from(device.is_cuda())) })?;
    let mut events = vec![0; length()];
    // SAFETY: there is room for as many events as are asked for, and nothing is added after the end.
    unsafe { tw_memory_trace_read(events.as_mut_ptr(), events.len()) };
    Ok(events)
}
