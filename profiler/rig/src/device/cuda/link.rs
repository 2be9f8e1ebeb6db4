//! Copies of page-locked memory over the link between host and device, timed by the device.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, PinnedHostSlice,
    sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC,
};
use record::rows::Direction;

use super::{COPIES_SINCE, CudaError, failed, find};

/// A context on the device with a buffer at either end of the link. All of it goes when it is dropped.
pub struct Link {
    host: PinnedHostSlice<u8>,
    device: CudaSlice<u8>,
    stream: Arc<CudaStream>,
}

/// A sequence of copies that the device executes by itself.
pub struct Copying {
    begin: CudaEvent,
    end: CudaEvent,
}

impl Link {
    /// Opens the link of the device with this name (`GPU-...`) and allocates `bytes` on either side.
    ///
    /// # Errors
    /// There is no driver, it is older than CUDA 12.8, or the memory is not available.
    pub fn open(uuid: &str, bytes: usize) -> Result<Link, CudaError> {
        let (number, _) = find(uuid, COPIES_SINCE)?;
        let context = CudaContext::new(number).map_err(failed("opening a CUDA context"))?;
        let stream = context.default_stream();
        let device = stream.alloc_zeros(bytes).map_err(failed("taking memory of the device"))?;
        // Plain page-locked memory, because write-combining memory is slow to read and users rarely choose it.
        // SAFETY: what is unset is set before anything reads it.
        let mut host = unsafe { context.alloc_pinned_with_flags(bytes, 0) }
            .map_err(failed("taking page-locked memory of the host"))?;
        host.as_mut_slice().map_err(failed("waiting for page-locked memory"))?.fill(0);
        Ok(Link { host, device, stream })
    }

    /// Starts copies of the whole buffer, one after the other, and returns at once.
    pub fn copy(&mut self, direction: Direction, times: u64) -> Result<Copying, CudaError> {
        // Waiting for these events sleeps; waiting for others would spin.
        let mark = || {
            self.stream.record_event(Some(CU_EVENT_BLOCKING_SYNC)).map_err(failed("marking a copy's time"))
        };
        let begin = mark()?;
        for _ in 0..times {
            match direction {
                Direction::HostToDevice => self.stream.memcpy_htod(&self.host, &mut self.device),
                Direction::DeviceToHost => self.stream.memcpy_dtoh(&self.device, &mut self.host),
            }
            .map_err(failed("copying"))?;
        }
        Ok(Copying { begin, end: mark()? })
    }
}

impl Copying {
    pub fn is_done(&self) -> Result<bool, CudaError> {
        self.end.try_is_complete().map_err(failed("copying"))
    }

    /// Waits for the end, and returns the time that the copies took by the device's clock.
    pub fn seconds(&self) -> Result<f64, CudaError> {
        let ms = self.begin.elapsed_ms(&self.end).map_err(failed("timing a copy"))?;
        Ok(f64::from(ms) / 1e3)
    }
}
