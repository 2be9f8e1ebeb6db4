//! The ranks of a job as a grid with one dimension per kind of parallelism.

use crate::plan::Plan;

/// The number of ranks along each dimension of a plan's grid.
///
/// Tensor-parallel ranks are next to each other, then data-parallel ranks, then pipeline stages, as in
/// Megatron-LM (Narayanan et al., SC 2021): `rank = (stage * data + d) * tensor + t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Data-parallel degree, at least 1.
    pub data: u32,
    /// Tensor-parallel degree, at least 1.
    pub tensor: u32,
    /// Number of pipeline stages, at least 1.
    pub stages: u32,
}

/// The place of one rank in a [`Mesh`], counted from 0 along each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coordinates {
    pub data: u32,
    pub tensor: u32,
    pub stage: u32,
}

impl Mesh {
    /// The grid of the ranks of `plan`.
    pub fn of(plan: &Plan) -> Mesh {
        Mesh { data: plan.dp.into(), tensor: plan.tp.into(), stages: plan.pp.into() }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.data * self.tensor * self.stages
    }

    /// The place of `rank`.
    ///
    /// # Panics
    ///
    /// If the mesh has no such rank.
    pub fn coordinates(&self, rank: u32) -> Coordinates {
        assert!(rank < self.ranks(), "rank {rank} is beyond the {} ranks of {self:?}", self.ranks());
        let replica = rank / self.tensor;
        Coordinates { data: replica % self.data, tensor: rank % self.tensor, stage: replica / self.data }
    }

    /// The rank at a place.
    ///
    /// # Panics
    ///
    /// If the mesh has no such place.
    pub fn rank(&self, at: Coordinates) -> u32 {
        let is_inside = at.data < self.data && at.tensor < self.tensor && at.stage < self.stages;
        assert!(is_inside, "{at:?} is outside {self:?}");
        (at.stage * self.data + at.data) * self.tensor + at.tensor
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_rank_has_one_place(data in 1..9u32, tensor in 1..9u32, stages in 1..9u32) {
            let mesh = Mesh { data, tensor, stages };
            let places: std::collections::BTreeSet<_> = (0..mesh.ranks()).map(|rank| {
                assert_eq!(mesh.rank(mesh.coordinates(rank)), rank);
                mesh.coordinates(rank)
            }).collect();
            prop_assert_eq!(places.len(), (data * tensor * stages) as usize);
        }
    }

    #[test]
    fn tensor_ranks_are_neighbours_and_stages_are_blocks() {
        let mesh = Mesh::of(&"dp3-tp2-pp2".parse().expect("a plan"));
        assert_eq!(mesh.ranks(), 12);
        for (rank, data, tensor, stage) in [
            (0, 0, 0, 0),
            (1, 0, 1, 0),
            (2, 1, 0, 0),
            (5, 2, 1, 0),
            (6, 0, 0, 1),
            (9, 1, 1, 1),
            (11, 2, 1, 1),
        ] {
            let at = Coordinates { data, tensor, stage };
            assert_eq!(mesh.coordinates(rank), at);
            assert_eq!(mesh.rank(at), rank);
        }
    }

    #[test]
    #[should_panic(expected = "rank 4 is beyond the 4 ranks")]
    fn a_rank_beyond_the_mesh_is_refused() {
        Mesh::of(&"dp2-pp2".parse().expect("a plan")).coordinates(4);
    }

    #[test]
    #[should_panic(expected = "is outside")]
    fn a_place_beyond_the_mesh_is_refused() {
        Mesh::of(&"dp2-pp2".parse().expect("a plan")).rank(Coordinates { data: 0, tensor: 1, stage: 0 });
    }
}
