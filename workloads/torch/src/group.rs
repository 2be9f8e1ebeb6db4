//! The process group of a job, from the view of one rank: it meets the others and exchanges tensors with
//! them.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use schema::spec::Collectives;
use tch::{Device, TchError, Tensor};

use crate::shim::collective::ProcessGroup;
pub use crate::shim::collective::Work;

/// One rank's handle on its process group. Clones share the group.
///
/// Every rank starts a collective with one call, in the same order on all ranks, and it is complete when
/// its [`Work`] was waited for. Several may be in progress at once. When the process of a rank ends, the
/// collectives of the others fail at once. When a rank does not come, they fail after the timeout of the
/// group.
/// once; when it only does not come, they fail when the timeout of the group is over.
#[derive(Clone)]
pub struct Group {
    process_group: Arc<Mutex<ProcessGroup>>,
    rank: u32,
    size: u32,
}

impl Group {
    /// Meets the other ranks of `size`, all on this machine, and returns when all are connected.
    ///
    /// `rendezvous` names a file that is the same for all of them and was not used before. All tensors of collectives
    /// are on `device`. `timeout` limits the meeting and every collective.
    ///
    /// # Errors
    /// A rank does not come before the timeout, the file was used before, or a library is missing.
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
                // NCCL uses the GPU of the first tensor that it gets. Here the device only has to be a GPU.
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

    /// Replaces `tensor` by the sum over all ranks, whose tensors have one shape, kind and layout.
    ///
    /// # Errors
    /// As for all collectives: here for a tensor that cannot be moved, from [`Work::wait`] for errors of the other ranks.
    pub fn all_reduce_sum(&self, tensor: &Tensor) -> Result<Work, TchError> {
        self.lock().all_reduce_sum(tensor)
    }

    /// Replaces `tensor` by that of rank `root`.
    ///
    /// # Errors
    /// See [`Group::all_reduce_sum`].
    pub fn broadcast(&self, tensor: &Tensor, root: u32) -> Result<Work, TchError> {
        self.lock().broadcast(tensor, root)
    }

    /// Fills `into`, which holds `size` times as many numbers, with the `part`s of all ranks in order.
    ///
    /// # Errors
    /// See [`Group::all_reduce_sum`].
    pub fn all_gather(&self, into: &Tensor, part: &Tensor) -> Result<Work, TchError> {
        self.lock().all_gather(into, part)
    }

    /// Cuts the sum of all ranks' `whole`s into `size` parts and fills `into` with the part of this rank.
    ///
    /// # Errors
    /// See [`Group::all_reduce_sum`].
    pub fn reduce_scatter_sum(&self, into: &Tensor, whole: &Tensor) -> Result<Work, TchError> {
        self.lock().reduce_scatter_sum(into, whole)
    }

    /// Sends `tensor` to rank `to`, which must call [`Group::recv`] with the same shape, kind and tag.
    ///
    /// # Errors
    /// See [`Group::all_reduce_sum`].
    pub fn send(&self, tensor: &Tensor, to: u32, tag: u32) -> Result<Work, TchError> {
        self.lock().send(tensor, to, tag)
    }

    /// Replaces `tensor` by the one that rank `from` sends under the same tag.
    ///
    /// # Errors
    /// See [`Group::all_reduce_sum`].
    pub fn recv(&self, tensor: &Tensor, from: u32, tag: u32) -> Result<Work, TchError> {
        self.lock().recv(tensor, from, tag)
    }

    /// Waits until all ranks have reached this point and all their collectives so far are complete.
    ///
    /// # Errors
    /// See [`Work::wait`].
    pub fn barrier(&self) -> Result<(), TchError> {
        let work = self.lock().barrier()?;
        work.wait()
    }

    /// Copies `tensors` of rank 0 to every rank, so that all start from the same parameters.
    ///
    /// # Errors
    /// See [`Group::all_reduce_sum`] and [`Work::wait`].
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
