//! Events: marks in a device's stream that tell when the device passed them.

use std::ffi::c_int;

use tch::TchError;

use super::{check, device_number};

/// `c10::Event`.
#[repr(C)]
struct RawEvent {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn tw_event_new(event: *mut *mut RawEvent) -> c_int;
    fn tw_event_delete(event: *mut RawEvent);
    fn tw_event_record(event: *mut RawEvent, device: c_int) -> c_int;
    fn tw_event_block(event: *const RawEvent, device: c_int) -> c_int;
    fn tw_event_query(event: *const RawEvent, done: *mut c_int) -> c_int;
    fn tw_event_elapsed(from: *const RawEvent, to: *const RawEvent, milliseconds: *mut f64) -> c_int;
}

/// A mark in a CUDA stream, replaced by each [`CudaEvent::record`].
pub struct CudaEvent(*mut RawEvent);

impl CudaEvent {
    /// # Errors
    /// When libtorch has no CUDA.
    pub fn new() -> Result<Self, TchError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the pointer is that of a local variable; on success it holds an event that is ours.
        check(unsafe { tw_event_new(&mut event) })?;
        Ok(Self(event))
    }

    /// Marks the end of all work that this thread has queued so far on CUDA device number `device`.
    ///
    /// # Errors
    /// When there is no such device, or with an earlier error of the device.
    pub fn record(&mut self, device: usize) -> Result<(), TchError> {
        // SAFETY: the event is ours and alive.
        check(unsafe { tw_event_record(self.0, device_number(device)) })
    }

    /// Makes later work of this thread on CUDA device number `device` wait for the mark, which may be in
    /// another stream. Does nothing without a recorded mark. The host does not wait.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn hold_back(&self, device: usize) -> Result<(), TchError> {
        // SAFETY: the event is ours and alive.
        check(unsafe { tw_event_block(self.0, device_number(device)) })
    }

    /// Whether the device has passed the mark; true if none was recorded. Does not wait.
    ///
    /// # Errors
    /// An earlier error of the device.
    pub fn is_done(&self) -> Result<bool, TchError> {
        let mut done = 0;
        // SAFETY: the event is ours and alive; the pointer is that of a local number.
        check(unsafe { tw_event_query(self.0, &mut done) })?;
        Ok(done != 0)
    }

    /// The device's time from `earlier` to this mark, in milliseconds. The device must have passed both.
    ///
    /// CUDA gives it in single precision: near marks have a resolution of half a microsecond, far ones less.
    ///
    /// # Errors
    /// When one of the two was not recorded or is not done.
    pub fn milliseconds_since(&self, earlier: &Self) -> Result<f64, TchError> {
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive; the pointer is that of a local number.
        check(unsafe { tw_event_elapsed(earlier.0, self.0, &mut milliseconds) })?;
        Ok(milliseconds)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // SAFETY: `new` made it and there is no other owner. If CUDA cannot free its part, it warns and
        // does not throw.
        unsafe { tw_event_delete(self.0) }
    }
}
