//! One rank of two, whose sums are actions of a test.

use schema::{mesh::Mesh, units::Nanos};
use tch::{TchError, Tensor};

use super::{Group, Ranks, Reduction, Transfer};
use crate::world::World;

/// Calls the test at the begin of each sum. The other rank does not exist, and nothing but sums is moved.
pub(crate) struct Observed<F> {
    on_begin: F,
}

/// The result of waiting for a sum.
pub(crate) type SumMade = Result<Option<Nanos>, TchError>;

impl<T, F> Observed<F>
where
    T: Transfer + 'static,
    F: Fn(&Tensor) -> Result<T, TchError> + Send + Sync + 'static,
{
    /// `on_begin` receives the tensor to sum, and returns the sum that is under way.
    pub(crate) fn group(on_begin: F) -> Group {
        Group::new(Self { on_begin })
    }

    /// The world of the first of two data-parallel ranks.
    pub(crate) fn world(on_begin: F) -> World {
        let mut world = World::absent(Mesh { data: 2, tensor: 1, stages: 1 }, 0);
        world.data = Self::group(on_begin);
        world
    }
}

impl<T, F> Ranks for Observed<F>
where
    T: Transfer + 'static,
    F: Fn(&Tensor) -> Result<T, TchError> + Send + Sync,
{
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        2
    }

    fn all_reduce(&self, tensor: &Tensor, reduction: Reduction) -> Result<Box<dyn Transfer>, TchError> {
        assert_eq!(reduction, Reduction::Sum);
        Ok(Box::new((self.on_begin)(tensor)?))
    }

    fn broadcast(&self, _tensor: &Tensor, _root: u32) -> Result<Box<dyn Transfer>, TchError> {
        unreachable!("only sums are observed")
    }

    fn all_gather(&self, _whole: &Tensor, _part: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        unreachable!("only sums are observed")
    }

    fn reduce_scatter(&self, _part: &Tensor, _whole: &Tensor) -> Result<Box<dyn Transfer>, TchError> {
        unreachable!("only sums are observed")
    }

    fn send(&self, _tensor: &Tensor, _to: u32, _tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        unreachable!("only sums are observed")
    }

    fn receive(&self, _tensor: &Tensor, _from: u32, _tag: u32) -> Result<Box<dyn Transfer>, TchError> {
        unreachable!("only sums are observed")
    }

    fn barrier(&self) -> Result<(), TchError> {
        unreachable!("only sums are observed")
    }
}

impl Transfer for SumMade {
    fn wait(self: Box<Self>) -> SumMade {
        *self
    }
}
