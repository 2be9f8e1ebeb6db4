//! The ranks of a job as one of them sees them: it meets the others, and moves tensors between them and itself.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schema::spec::Collectives;
use tch::{Device, TchError, Tensor};

use crate::shim::collective::ProcessGroup;
pub use crate::shim::collective::Work;

/// One rank's handle on the process group that it forms with the others. Clones share the group.
///
/// A collective is started by one call of every rank, in the same order on all of them, and is over when its [`Work`] was
/// waited for. Several may be under way at once. When the process of a rank ends, the collectives of the others fail at
/// once; when it only does not come, they fail when the timeout of the group is over.
#[derive(Clone)]
pub struct Group {
    process_group: Arc<Mutex<ProcessGroup>>,
    rank: u32,
    size: u32,
}

impl Group {
    /// Meets the other ranks of `size`, all of this machine, and returns when all are connected.
    ///
    /// `rendezvous` names a file that is the same for all of them and used for nothing before. Tensors that are moved are
    /// all on `device`. `timeout` holds for the meeting and for every collective.
    ///
    /// # Errors
    /// When not all come before the timeout, when the file was met in before, or when a library is missing.
    pub fn meet(
        rendezvous: &Path,
        rank: u32,
        size: u32,
        collectives: Collectives,
        device: Device,
        timeout: Duration,
    ) -> Result<Self, TchError> {
        assert!(rank < size, "ranks count from 0");
        let process_group = match collectives {
            Collectives::Gloo => ProcessGroup::meet_gloo(rendezvous, rank, size, timeout)?,
            Collectives::Nccl => {
                // NCCL takes the GPU of the first tensor that it is given; here it only has to be one.
                if !device.is_cuda() {
                    return Err(TchError::Torch("NCCL moves tensors between GPUs alone".into()));
                }
                ProcessGroup::meet_nccl(rendezvous, rank, size, timeout)?
            }
        };
        Ok(Self { process_group: Arc::new(Mutex::new(process_group)), rank, size })
    }

    pub fn rank(&self) -> u32 {
        self.rank
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// Replaces `tensor` by the sum of all ranks' ones, which are of one shape, kind and layout.
    ///
    /// # Errors
    /// As of all collectives: here for a tensor that cannot be moved, from [`Work::wait`] for what happens to the others.
    pub fn all_reduce_sum(&self, tensor: &Tensor) -> Result<Work, TchError> {
        self.lock().all_reduce_sum(tensor)
    }

    /// Replaces `tensor` by that of rank `root`.
    ///
    /// # Errors
    /// As [`Group::all_reduce_sum`].
    pub fn broadcast(&self, tensor: &Tensor, root: u32) -> Result<Work, TchError> {
        self.lock().broadcast(tensor, root)
    }

    /// Fills `into`, which holds `size` times as many numbers, with all ranks' `part`s in the order of their ranks.
    ///
    /// # Errors
    /// As [`Group::all_reduce_sum`].
    pub fn all_gather(&self, into: &Tensor, part: &Tensor) -> Result<Work, TchError> {
        self.lock().all_gather(into, part)
    }

    /// Cuts the sum of all ranks' `whole`s into `size` parts and fills `into` with the one of this rank.
    ///
    /// # Errors
    /// As [`Group::all_reduce_sum`].
    pub fn reduce_scatter_sum(&self, into: &Tensor, whole: &Tensor) -> Result<Work, TchError> {
        self.lock().reduce_scatter_sum(into, whole)
    }

    /// Sends `tensor` to rank `to`, which has to [`Group::recv`] one of the same shape and kind under the same tag.
    ///
    /// # Errors
    /// As [`Group::all_reduce_sum`].
    pub fn send(&self, tensor: &Tensor, to: u32, tag: u32) -> Result<Work, TchError> {
        self.lock().send(tensor, to, tag)
    }

    /// Replaces `tensor` by what rank `from` sends under the same tag.
    ///
    /// # Errors
    /// As [`Group::all_reduce_sum`].
    pub fn recv(&self, tensor: &Tensor, from: u32, tag: u32) -> Result<Work, TchError> {
        self.lock().recv(tensor, from, tag)
    }

    /// Waits until all ranks have come this far and all their collectives so far are over.
    ///
    /// # Errors
    /// As [`Work::wait`].
    pub fn barrier(&self) -> Result<(), TchError> {
        let work = self.lock().barrier()?;
        work.wait()
    }

    /// Gives every rank what rank 0 holds in `tensors`, as all ranks start from the same parameters.
    ///
    /// # Errors
    /// As [`Group::all_reduce_sum`] and [`Work::wait`].
    pub fn copy_from_first<'a>(&self, tensors: impl Iterator<Item = &'a Tensor>) -> Result<(), TchError> {
        let under_way = tensors.map(|tensor| self.broadcast(tensor, 0)).collect::<Result<Vec<_>, _>>()?;
        under_way.iter().try_for_each(Work::wait)
    }

    fn lock(&self) -> MutexGuard<'_, ProcessGroup> {
        // The lock is held while a collective is started, never while it is waited for.
        self.process_group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
