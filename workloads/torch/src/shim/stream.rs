//! Streams of a CUDA device. Work in one stream does not wait for work in another.

use std::ffi::c_int;

use tch::TchError;

use super::{check, device_number};

unsafe extern "C" {
    fn tw_stream_of_pool(device: c_int, stream: *mut i64) -> c_int;
    fn tw_stream_exchange(device: c_int, stream: i64, previous: *mut i64) -> c_int;
}

/// A stream besides the device's default one. It comes from PyTorch's pool and is never returned.
pub struct SideStream {
    device: c_int,
    id: i64,
}

impl SideStream {
    /// A stream of CUDA device number `device`.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn new(device: usize) -> Result<Self, TchError> {
        let (device, mut id) = (device_number(device), 0);
        // SAFETY: the pointer is that of a local number.
        check(unsafe { tw_stream_of_pool(device, &mut id) })?;
        Ok(Self { device, id })
    }

    /// What this thread queues on the device goes to this stream while the guard lives.
    ///
    /// # Errors
    /// An error of the device.
    pub fn enter(&self) -> Result<InSideStream, TchError> {
        let mut previous = 0;
        // SAFETY: the stream is one of this device; the pointer is that of a local number.
        check(unsafe { tw_stream_exchange(self.device, self.id, &mut previous) })?;
        Ok(InSideStream { device: self.device, previous })
    }
}

/// While it lives, this thread's work on a device goes to a [`SideStream`].
#[must_use = "the stream is left when the guard is dropped"]
pub struct InSideStream {
    device: c_int,
    previous: i64,
}

impl Drop for InSideStream {
    fn drop(&mut self) {
        let mut left = 0;
        // SAFETY: puts back what `enter` found; the pointer is that of a local number.
        let put_back = check(unsafe { tw_stream_exchange(self.device, self.previous, &mut left) });
        debug_assert!(put_back.is_ok(), "a side stream could not be left: {put_back:?}");
    }
}
