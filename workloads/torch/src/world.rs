//! The groups that a rank of a job belongs to.

use schema::{
    mesh::{Coordinates, Mesh},
    units::Nanos,
};
use tch::TchError;

use crate::group::{Group, Meeting};

/// The place of a rank among the ranks of its job, and its groups: one for each kind of parallelism. A group of one rank
/// moves nothing.
pub struct World {
    pub mesh: Mesh,
    pub at: Coordinates,
    /// All ranks of the job.
    pub all: Group,
    /// The ranks that have the same part of the model and other samples.
    pub data: Group,
    /// The same ranks, for parameters that ZeRO gathers: it counts apart.
    pub gather: Group,
    /// The ranks that share each layer.
    pub tensor: Group,
    /// The stages of a pipeline, for what goes from a stage to the next one.
    pub forward: Group,
    /// The stages of a pipeline, for what goes back. NCCL needs a group for each direction.
    pub backward: Group,
    /// The same stages, for gradients of tied weights.
    pub ties: Group,
    /// Whether the host learns how long it waits.
    waits_on_host: bool,
}

impl World {
    /// The world of a job of one rank.
    pub fn alone() -> Self {
        Self::absent(Mesh { data: 1, tensor: 1, stages: 1 }, 0)
    }

    /// The place of one rank without the others, for measurements of memory.
    pub fn absent(mesh: Mesh, rank: u32) -> Self {
        let at = mesh.coordinates(rank);
        let group = |_: &str, rank, size| Ok(Group::absent(rank, size));
        Self::form(mesh, at, true, group).unwrap_or_else(|error| unreachable!("nothing is moved: {error}"))
    }

    /// Meets the other ranks of a job in all groups of this rank. `waits_on_host` says that the host waits for transfers,
    /// as with Gloo.
    ///
    /// # Errors
    /// Not all ranks come.
    pub fn meet(meeting: &Meeting, mesh: Mesh, rank: u32, waits_on_host: bool) -> Result<Self, TchError> {
        let at = mesh.coordinates(rank);
        Self::form(mesh, at, waits_on_host, |name, rank, size| meeting.form(name, rank, size))
    }

    /// `form` makes a group of a name that all its ranks know and no other rank has, from the rank in it and its size.
    fn form(
        mesh: Mesh,
        at: Coordinates,
        waits_on_host: bool,
        form: impl Fn(&str, u32, u32) -> Result<Group, TchError>,
    ) -> Result<Self, TchError> {
        let Coordinates { data, tensor, stage } = at;
        let form = |name: String, rank, size| match size {
            1 => Ok(Group::absent(0, 1)),
            _ => form(&name, rank, size),
        };
        let backward = form(format!("backward of {data}, {tensor}"), stage, mesh.stages)?;
        let of_data = form(format!("data of {tensor}, {stage}"), data, mesh.data)?;
        Ok(Self {
            mesh,
            at,
            all: form("all".into(), mesh.rank(at), mesh.ranks())?,
            gather: of_data.counted_apart(),
            data: of_data,
            tensor: form(format!("tensor of {data}, {stage}"), tensor, mesh.tensor)?,
            forward: form(format!("forward of {data}, {tensor}"), stage, mesh.stages)?,
            ties: backward.counted_apart(),
            backward,
            waits_on_host,
        })
    }

    /// The worlds of all ranks of a job, each for a thread of its own.
    #[cfg(test)]
    pub(crate) fn threads(mesh: Mesh) -> Vec<Self> {
        use std::{cell::RefCell, collections::HashMap};

        use crate::group::threads::Thread;

        let groups: RefCell<HashMap<String, Vec<Option<Group>>>> = RefCell::default();
        let form = |name: &str, rank: u32, size: u32| {
            let mut groups = groups.borrow_mut();
            let members = groups
                .entry(name.to_owned())
                .or_insert_with(|| Thread::group(size as usize).into_iter().map(Some).collect());
            Ok(members[rank as usize].take().expect("each rank comes once"))
        };
        let world = |rank| Self::form(mesh, mesh.coordinates(rank), true, form);
        (0..mesh.ranks()).map(|rank| world(rank).unwrap()).collect()
    }

    /// Whether this rank is in the last stage, which computes the loss.
    pub fn is_last_stage(&self) -> bool {
        self.at.stage + 1 == self.mesh.stages
    }

    /// Whether the samples of this rank count: of the ranks that work on the same ones, those of one do.
    pub fn counts_samples(&self) -> bool {
        self.is_last_stage() && self.at.tensor == 0
    }

    /// Bytes that this rank has sent in a step since the last call; `None` for a job of one rank. The group of all ranks,
    /// which agree between steps, is left out.
    pub fn take_sent_bytes(&self) -> Option<u64> {
        let groups = [&self.data, &self.gather, &self.tensor, &self.forward, &self.backward, &self.ties];
        let sent = groups.into_iter().map(Group::take_sent_bytes).sum();
        (self.mesh.ranks() > 1).then_some(sent)
    }

    /// Time that the host has waited since the last call.
    pub fn take_waits(&self) -> Waits {
        let taken = |groups: &[&Group]| groups.iter().map(|group| group.take_waited()).sum();
        Waits {
            tensor: taken(&[&self.tensor]),
            gather: taken(&[&self.gather]),
            pipeline: taken(&[&self.forward, &self.backward]),
        }
    }

    /// Which waits a step of this rank can have, where the host learns of them.
    pub fn has_waits(&self, gathers: bool) -> [bool; 3] {
        let Mesh { tensor, stages, .. } = self.mesh;
        [tensor > 1, gathers, stages > 1].map(|waits| waits && self.waits_on_host)
    }
}

/// Time that the host has waited for transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub tensor: Nanos,
    pub gather: Nanos,
    pub pipeline: Nanos,
}

impl Waits {
    pub fn total(self) -> Nanos {
        self.tensor + self.gather + self.pipeline
    }

    pub fn add(&mut self, other: Self) {
        self.tensor += other.tensor;
        self.gather += other.gather;
        self.pipeline += other.pipeline;
    }
}
