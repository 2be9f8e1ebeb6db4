//! A group whose other ranks do not exist.

use schema::units::Nanos;
use tch::{Device, TchError, Tensor, no_grad};

use super::{Ranks, Reduction, Transfer};

/// A rank whose peers are absent. It takes the memory of a rank among peers, and its own numbers stand for all others.
/// Of one rank, this is a complete group.
pub(super) struct Absent {
    pub(super) rank: u32,
    pub(super) size: u32,
}

impl Absent {
    /// This rank's part of `whole`, as a line.
    fn own<'a>(&self, whole: &Tensor, part: &'a Tensor) -> Result<(Tensor, &'a Tensor), TchError> {
        let count = part.numel() as i64;
        Ok((whole.f_view([-1])?.f_narrow(0, i64::from(self.rank) * count, count)?, part))
    }

    /// A transfer that takes the memory of Gloo's, which gathers into a copy, and exchanges parts in one.
    fn with_memory_of_gloo(&self, whole: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        let copy =
            (self.size > 1 && whole.device() == Device::Cpu).then(|| whole.f_empty_like()).transpose()?;
        Ok(Box::new(Holding { _copy: copy }))
    }
}

impl Ranks for Absent {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn all_reduce(&self, _tensor: &Tensor, _reduction: Reduction) -> Result<Box<dyn Transfer>, TchError> {
        Ok(Box::new(Done))
    }

    fn broadcast(&self, _tensor: &Tensor, _root: u32) -> Result<Box<dyn Transfer>, TchError> {
        Ok(Box::new(Done))
    }

    fn all_gather(&self, whole: &Tensor, part: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        let (mut place, part) = self.own(whole, part)?;
        no_grad(|| place.f_copy_(&part.f_view([-1])?))?;
        self.with_memory_of_gloo(whole)
    }

    fn reduce_scatter(&self, part: &Tensor, whole: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        let (own, part) = self.own(whole, part)?;
        no_grad(|| part.f_view([-1])?.f_copy_(&own))?;
        self.with_memory_of_gloo(whole)
    }

    fn send(&self, _tensor: &Tensor, _to: u32, _tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        Ok(Box::new(Done))
    }

    /// Zeros, because numbers that were never written may be slow to compute with.
    fn receive(&self, tensor: &Tensor, _from: u32, _tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        let _zeros = no_grad(|| tensor.shallow_clone().f_zero_())?;
        Ok(Box::new(Done))
    }

    fn barrier(&self) -> Result<(), TchError> {
        Ok(())
    }
}

/// A transfer that holds memory until it was waited for.
struct Holding {
    _copy: Option<Tensor>,
}

impl Transfer for Holding {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        Ok(Some(Nanos::monotonic_now()))
    }
}

struct Done;

impl Transfer for Done {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        Ok(Some(Nanos::monotonic_now()))
    }
}
