//! A group of ranks, from the view of one of them: what moves tensors between them, what that sends and how long it is
//! waited for.

mod absent;
#[cfg(test)]
pub(crate) mod observed;
mod processes;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod threads;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use schema::units::Nanos;
use tch::{TchError, Tensor};

use self::absent::Absent;
pub use self::processes::Meeting;

/// What moves tensors between the ranks of a group.
///
/// Every rank starts the same collectives in the same order. A tensor must not be touched between the start of a
/// transfer and the end of its wait. It has no gaps in memory, and is moved in the order of its memory.
pub trait Ranks: Send + Sync {
    /// The number of this rank in the group.
    fn rank(&self) -> u32;

    /// Number of ranks.
    fn size(&self) -> u32;

    /// Begins to replace `tensor` by its reduction over all ranks.
    ///
    /// # Errors
    /// As for all transfers: the group cannot move the tensor, or cannot continue because a rank has gone.
    fn all_reduce(&self, tensor: &Tensor, reduction: Reduction) -> Result<Box<dyn Transfer>, TchError>;

    /// Begins to replace `tensor` by that of rank `root`.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    fn broadcast(&self, tensor: &Tensor, root: u32) -> Result<Box<dyn Transfer>, TchError>;

    /// Begins to fill `whole` with the `part`s of all ranks in order.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    fn all_gather(&self, whole: &Tensor, part: &Tensor) -> Result<Box<dyn Transfer>, TchError>;

    /// Begins to fill `part` with this rank's part of the sum of all ranks' `whole`s.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    fn reduce_scatter(&self, part: &Tensor, whole: &Tensor) -> Result<Box<dyn Transfer>, TchError>;

    /// Begins to send `tensor` to rank `to`, which receives it under the same tag. It is given up if it is not waited for.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    fn send(&self, tensor: &Tensor, to: u32, tag: u32) -> Result<Box<dyn Transfer>, TchError>;

    /// Begins to replace `tensor` by the one that rank `from` sends under the same tag.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    fn receive(&self, tensor: &Tensor, from: u32, tag: u32) -> Result<Box<dyn Transfer>, TchError>;

    /// Waits until all ranks have reached this point.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    fn barrier(&self) -> Result<(), TchError>;
}

/// What an all-reduce makes of the numbers of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Maximum,
}

/// A transfer that may be under way.
pub trait Transfer: Send {
    /// Waits for the end, on a GPU in its stream. Returns the time of the end, `None` if the backend does not report it.
    ///
    /// # Errors
    /// Another rank has gone, or does not come in time.
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError>;
}

/// One rank's handle on a group. It counts what the rank sends and how long it waits; clones share the counts.
#[derive(Clone)]
pub struct Group {
    ranks: Arc<dyn Ranks>,
    traffic: Arc<Traffic>,
}

#[derive(Default)]
struct Traffic {
    sent_bytes: AtomicU64,
    waited_ns: AtomicU64,
}

impl Group {
    pub fn new(ranks: impl Ranks + 'static) -> Self {
        Self { ranks: Arc::new(ranks), traffic: Arc::default() }
    }

    /// The group of a single rank, which moves nothing.
    pub fn alone() -> Self {
        Self::absent(0, 1)
    }

    /// A group whose other ranks do not exist: the tensors of this rank stay as they are. For measurements of memory,
    /// which need no values.
    pub fn absent(rank: u32, size: u32) -> Self {
        Self::new(Absent { rank, size })
    }

    /// A handle on the same group that counts from zero, for another purpose.
    pub fn counted_apart(&self) -> Self {
        Self { ranks: Arc::clone(&self.ranks), traffic: Arc::default() }
    }

    pub fn rank(&self) -> u32 {
        self.ranks.rank()
    }

    pub fn size(&self) -> u32 {
        self.ranks.size()
    }

    /// Begins to replace `tensor` by its reduction over all ranks. A rank sends `2 (n - 1) / n` of its bytes.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    pub fn all_reduce(&self, tensor: &Tensor, reduction: Reduction) -> Result<Work, TchError> {
        let transfer = self.ranks.all_reduce(tensor, reduction)?;
        Ok(self.work(transfer, 2 * self.share_of_others(bytes(tensor))))
    }

    /// Replaces `tensor` by that of rank `root`, and counts the `(n - 1) / n` of its bytes that each rank sends on average
    /// where they pass it on from one to the next.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    pub fn broadcast(&self, tensor: &Tensor, root: u32) -> Result<Work, TchError> {
        Ok(self.work(self.ranks.broadcast(tensor, root)?, self.share_of_others(bytes(tensor))))
    }

    /// Begins to fill `whole` with the `part`s of all ranks. A rank sends `(n - 1) / n` of the bytes of `whole`.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    pub fn all_gather(&self, whole: &Tensor, part: &Tensor) -> Result<Work, TchError> {
        Ok(self.work(self.ranks.all_gather(whole, part)?, self.share_of_others(bytes(whole))))
    }

    /// Begins to fill `part` with this rank's part of the sum of all `whole`s. A rank sends `(n - 1) / n` of the bytes of
    /// `whole`.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    pub fn reduce_scatter(&self, part: &Tensor, whole: &Tensor) -> Result<Work, TchError> {
        Ok(self.work(self.ranks.reduce_scatter(part, whole)?, self.share_of_others(bytes(whole))))
    }

    /// Begins to send `tensor` to rank `to`. The work must be kept and waited for.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    pub fn send(&self, tensor: &Tensor, to: u32, tag: u32) -> Result<Work, TchError> {
        Ok(self.work(self.ranks.send(tensor, to, tag)?, bytes(tensor)))
    }

    /// Begins to replace `tensor` by the one that rank `from` sends under the same tag.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    pub fn receive(&self, tensor: &Tensor, from: u32, tag: u32) -> Result<Work, TchError> {
        Ok(self.work(self.ranks.receive(tensor, from, tag)?, 0))
    }

    /// Waits until all ranks have reached this point.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`].
    pub fn barrier(&self) -> Result<(), TchError> {
        self.ranks.barrier()
    }

    /// Copies `tensors` of rank 0 to every rank, so that all start from the same parameters.
    ///
    /// # Errors
    /// See [`Ranks::all_reduce`] and [`Work::wait`].
    pub fn copy_from_first<'a>(&self, tensors: impl Iterator<Item = &'a Tensor>) -> Result<(), TchError> {
        let under_way = tensors.map(|tensor| self.broadcast(tensor, 0)).collect::<Result<Vec<_>, _>>()?;
        under_way.into_iter().try_for_each(|work| work.wait().map(drop))
    }

    /// Bytes that this rank has sent since the last call.
    pub fn take_sent_bytes(&self) -> u64 {
        self.traffic.sent_bytes.swap(0, Ordering::Relaxed)
    }

    /// Time that the host has waited for transfers since the last call.
    pub fn take_waited(&self) -> Nanos {
        Nanos(self.traffic.waited_ns.swap(0, Ordering::Relaxed))
    }

    fn share_of_others(&self, bytes: u64) -> u64 {
        let size = u64::from(self.size());
        bytes * (size - 1) / size
    }

    fn work(&self, transfer: Box<dyn Transfer>, sent_bytes: u64) -> Work {
        self.traffic.sent_bytes.fetch_add(sent_bytes, Ordering::Relaxed);
        Work { transfer, traffic: Arc::clone(&self.traffic) }
    }
}

/// A transfer of a group that may be under way.
#[must_use = "a transfer that is not waited for may have failed, or not be done"]
pub struct Work {
    transfer: Box<dyn Transfer>,
    traffic: Arc<Traffic>,
}

impl Work {
    /// Waits for the end, on a GPU in its stream. Returns the time of the end, `None` if the backend does not report it.
    ///
    /// # Errors
    /// Another rank has gone, or does not come in time.
    pub fn wait(self) -> Result<Option<Nanos>, TchError> {
        let begin = Nanos::monotonic_now();
        let end = self.transfer.wait();
        let waited = Nanos::monotonic_now() - begin;
        self.traffic.waited_ns.fetch_add(waited.0, Ordering::Relaxed);
        end
    }
}

fn bytes(tensor: &Tensor) -> u64 {
    (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64
}
