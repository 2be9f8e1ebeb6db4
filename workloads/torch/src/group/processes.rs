//! Ranks that are processes, over PyTorch's process groups.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schema::{spec::Collectives, units::Nanos};
use tch::{Device, TchError, Tensor, no_grad};

use super::{Group, Ranks, Reduction, Transfer};
use crate::shim::{
    collective::{self, ProcessGroup, Work},
    storage,
    transfer::{page_locked, to_host, wait_for},
};

/// The meeting place of the ranks of a job, all on this machine, from which they form groups.
pub struct Meeting {
    meeting: collective::Meeting,
    collectives: Collectives,
}

impl Meeting {
    /// Opens the meeting place of `size` ranks. `rendezvous` names a file that is the same for all of them and was not used
    /// before. All tensors are on `device`. `timeout` limits every meeting and every transfer; when the process of a rank
    /// ends, transfers of the others fail at once.
    ///
    /// # Errors
    /// The file was used before or cannot be written, or a library is missing.
    pub fn open(
        rendezvous: &Path,
        rank: u32,
        size: u32,
        collectives: Collectives,
        device: Device,
        timeout: Duration,
    ) -> Result<Self, TchError> {
        assert!(rank < size, "ranks count from 0");
        let meeting = match collectives {
            Collectives::Gloo => collective::Meeting::open_gloo(rendezvous, rank, size, timeout)?,
            // NCCL uses the GPU of the first tensor that it gets. Here the device only has to be a GPU.
            Collectives::Nccl if !device.is_cuda() => {
                return Err(TchError::Torch("NCCL moves tensors between GPUs alone".into()));
            }
            Collectives::Nccl => collective::Meeting::open_nccl(rendezvous, rank, size, timeout)?,
        };
        Ok(Self { meeting, collectives })
    }

    /// Forms the group `name` of `size` ranks, in which this one is number `rank`, and returns when all are connected.
    ///
    /// # Errors
    /// A rank does not come before the timeout.
    pub fn form(&self, name: &str, rank: u32, size: u32) -> Result<Group, TchError> {
        let group = Mutex::new(self.meeting.form(name, rank, size)?);
        let processes = Processes { group, rank, size, collectives: self.collectives };
        // NCCL connects in the first collective.
        processes.barrier()?;
        Ok(Group::new(processes))
    }
}

struct Processes {
    group: Mutex<ProcessGroup>,
    rank: u32,
    size: u32,
    collectives: Collectives,
}

impl Processes {
    fn lock(&self) -> MutexGuard<'_, ProcessGroup> {
        // The lock is held while a transfer is started, never while it is waited for.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether tensors of this device pass through host memory because Gloo would send the pointer of the device.
    fn is_staged(&self, tensor: &Tensor) -> bool {
        self.collectives == Collectives::Gloo && tensor.device().is_cuda()
    }
}

impl Ranks for Processes {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn all_reduce(&self, tensor: &Tensor, reduction: Reduction) -> Result<Box<dyn Transfer>, TchError> {
        Ok(Box::new(self.lock().all_reduce(tensor, reduction == Reduction::Maximum)?))
    }

    fn broadcast(&self, tensor: &Tensor, root: u32) -> Result<Box<dyn Transfer>, TchError> {
        Ok(Box::new(self.lock().broadcast(tensor, root)?))
    }

    fn all_gather(&self, whole: &Tensor, part: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        Ok(Box::new(self.lock().all_gather(whole, part)?))
    }

    /// Gloo's own is an all-reduce of a copy, which sends twice the bytes. So with Gloo ranks exchange their parts and each
    /// adds up its own, in the order of ranks.
    fn reduce_scatter(&self, part: &Tensor, whole: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        if self.collectives == Collectives::Nccl {
            return Ok(Box::new(self.lock().reduce_scatter_sum(part, whole)?));
        }
        let received = whole.f_empty_like()?;
        let work = self.lock().all_to_all(&received, whole)?;
        Ok(Box::new(Scattered { work, received, part: part.shallow_clone(), ranks: i64::from(self.size) }))
    }

    fn send(&self, tensor: &Tensor, to: u32, tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        if !self.is_staged(tensor) {
            return Ok(Box::new(self.lock().send(tensor, to, tag)?));
        }
        let host = to_host(tensor)?;
        wait_for(tensor.device())?;
        let work = self.lock().send(&host, to, tag)?;
        Ok(Box::new(Staged { work, host, device: None }))
    }

    fn receive(&self, tensor: &Tensor, from: u32, tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        if !self.is_staged(tensor) {
            return Ok(Box::new(self.lock().recv(tensor, from, tag)?));
        }
        let host = page_locked(tensor, tensor.numel() as i64)?;
        let work = self.lock().recv(&host, from, tag)?;
        Ok(Box::new(Staged { work, host, device: Some(tensor.shallow_clone()) }))
    }

    fn barrier(&self) -> Result<(), TchError> {
        let work = self.lock().barrier()?;
        work.wait()
    }
}

impl Transfer for Work {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        Work::wait(&self)?;
        Ok(self.finished_at())
    }
}

/// A reduce-scatter of which the parts are exchanged, and then added up.
struct Scattered {
    work: Work,
    /// The part of this rank from each rank, in the order of ranks.
    received: Tensor,
    part: Tensor,
    ranks: i64,
}

impl Transfer for Scattered {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        self.work.wait()?;
        let parts = self.received.f_view([self.ranks, -1])?;
        no_grad(|| {
            let mut sum = self.part.f_view([-1])?;
            sum.f_copy_(&parts.f_select(0, 0)?)?;
            for rank in 1..self.ranks {
                let _ = sum.f_add_(&parts.f_select(0, rank)?)?;
            }
            Ok::<_, TchError>(())
        })?;
        // A thread of Gloo keeps the tensors of a work until it next runs, which may be much later on a busy core.
        storage::free(&self.received)?;
        Ok(self.work.finished_at())
    }
}

/// A transfer between ranks of a copy in host memory.
struct Staged {
    work: Work,
    host: Tensor,
    /// The tensor on a GPU that receives the copy.
    device: Option<Tensor>,
}

impl Transfer for Staged {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        self.work.wait()?;
        if let Some(device) = &self.device {
            no_grad(|| device.f_view([-1])?.f_copy_(&self.host))?;
        }
        Ok(self.work.finished_at())
    }
}
