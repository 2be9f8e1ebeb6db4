//! Records every allocation and release of a device's tensor memory, and the operations that they belong
//! to, in order.

use std::ffi::c_int;

use tch::{Device, TchError};

use super::check;

unsafe extern "C" {
    fn tw_memory_trace_begin(cuda: c_int) -> c_int;
    fn tw_memory_trace_length() -> usize;
    fn tw_memory_trace_end(cuda: c_int) -> c_int;
    fn tw_memory_trace_read(into: *mut RawEvent, count: usize);
}

/// The `Event` of shim/memory_trace.cpp.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawEvent {
    bytes: i64,
    nesting: i64,
}

/// A recorded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This number of bytes was allocated, or released if negative.
    Bytes(i64),
    /// An operation of libtorch, or a node of a backward pass, begins. Operations may be nested.
    Begin,
    /// The innermost open operation ends.
    End,
}

impl From<RawEvent> for Event {
    fn from(RawEvent { bytes, nesting }: RawEvent) -> Event {
        match nesting {
            0 => Event::Bytes(bytes),
            1.. => Event::Begin,
            _ => Event::End,
        }
    }
}

/// Starts to record the allocations and releases of tensors on `device`. There is one recording at a time
/// in a process, and [`end`] must be called by the same thread. On CUDA, only the work of this thread is
/// recorded.
///
/// # Errors
/// None is known.
pub fn begin(device: Device) -> Result<(), TchError> {
    // SAFETY: takes a plain number.
    check(unsafe { tw_memory_trace_begin(c_int::from(device.is_cuda())) })
}

/// Number of events so far.
pub fn length() -> usize {
    // SAFETY: takes nothing and reads under a lock.
    unsafe { tw_memory_trace_length() }
}

/// Ends the recording and returns its events.
///
/// # Errors
/// Another thread began the recording.
pub fn end(device: Device) -> Result<Vec<Event>, TchError> {
    // SAFETY: takes a plain number.
    check(unsafe { tw_memory_trace_end(c_int::from(device.is_cuda())) })?;
    let mut events = vec![RawEvent { bytes: 0, nesting: 0 }; length()];
    // SAFETY: there is room for as many events as are asked for, and nothing is added after the end.
    unsafe { tw_memory_trace_read(events.as_mut_ptr(), events.len()) };
    Ok(events.into_iter().map(Event::from).collect())
}
