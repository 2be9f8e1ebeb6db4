//! Copies between the parameters' device and host memory: at once, or through the streams of a GPU.

use std::{thread, time::Duration};

use tch::{Device, TchError, Tensor};

use crate::shim::{
    event::CudaEvent,
    stream::SideStream,
    transfer::{copy_all, page_locked},
};

/// The way between a device and host memory, for chunks that are copied one after another.
pub(super) enum Link {
    /// The device is the host, and copies are synchronous.
    Host,
    Cuda(CudaLink),
}

/// Each direction has its own stream, because a GPU copies both ways at once.
pub(super) struct CudaLink {
    device: usize,
    down: SideStream,
    up: SideStream,
    /// Follows the work that the copies down must wait for.
    computed: CudaEvent,
    /// Follow the copies down of each chunk.
    arrived: Vec<CudaEvent>,
    /// Follows the last copy up.
    updated: CudaEvent,
}

impl Link {
    /// The link between host memory and `device`, for this number of chunks.
    pub(super) fn new(device: Device, chunks: usize) -> Result<Self, TchError> {
        match device {
            Device::Cpu => Ok(Link::Host),
            Device::Cuda(device) => Ok(Link::Cuda(CudaLink {
                device,
                down: SideStream::new(device)?,
                up: SideStream::new(device)?,
                computed: CudaEvent::new()?,
                arrived: (0..chunks).map(|_| CudaEvent::new()).collect::<Result<_, _>>()?,
                updated: CudaEvent::new()?,
            })),
            other => Err(TchError::Torch(format!("no copies between {other:?} and host memory"))),
        }
    }

    /// A new line of `count` numbers of the kind of `like` in host memory that the device can access.
    pub(super) fn line(&self, like: &Tensor, count: i64) -> Result<Tensor, TchError> {
        match self {
            Link::Host => Tensor::f_empty([count], (like.f_kind()?, Device::Cpu)),
            Link::Cuda(_) => page_locked(like, count),
        }
    }

    /// Later copies down begin when the device has completed the work queued so far.
    pub(super) fn begin(&mut self) -> Result<(), TchError> {
        let Link::Cuda(link) = self else { return Ok(()) };
        link.computed.record(link.device)?;
        let _side = link.down.enter()?;
        link.computed.hold_back(link.device)
    }

    /// Requests the copies of chunk number `chunk` from the device.
    pub(super) fn down(&mut self, chunk: usize, host: &[Tensor], device: &[Tensor]) -> Result<(), TchError> {
        let Link::Cuda(link) = self else { return copy_all(host, device) };
        let _side = link.down.enter()?;
        copy_all(host, device)?;
        link.arrived[chunk].record(link.device)
    }

    /// Sleeps until chunk number `chunk` is down. The first one waits for the whole backward pass, during
    /// which polling without a pause would take a core from others.
    pub(super) fn wait_for(&self, chunk: usize) -> Result<(), TchError> {
        const PAUSE: Duration = Duration::from_micros(20);
        let Link::Cuda(link) = self else { return Ok(()) };
        while !link.arrived[chunk].is_done()? {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Requests copies to the device. The destination must be out of use, which is true when the gradients
    /// that were computed with it have come down.
    pub(super) fn up(&self, device: &[Tensor], host: &[Tensor]) -> Result<(), TchError> {
        let _side = match self {
            Link::Host => None,
            Link::Cuda(link) => Some(link.up.enter()?),
        };
        copy_all(device, host)
    }

    /// Later work of the device begins when all copies up are complete.
    pub(super) fn end(&mut self) -> Result<(), TchError> {
        let Link::Cuda(link) = self else { return Ok(()) };
        {
            let _side = link.up.enter()?;
            link.updated.record(link.device)?;
        }
        link.updated.hold_back(link.device)
    }
}
