//! The division of a parameter among tensor-parallel ranks.

use std::ops::Range;

use tch::{TchError, Tensor};

/// A rule of division: dimension `dim` consists of `blocks` blocks of `units` equal units, and each rank takes consecutive
/// units, the same ones of every block.
///
/// A projection to queries, keys and values side by side has three blocks whose units are heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    pub dim: usize,
    pub blocks: i64,
    pub units: i64,
}

impl Split {
    /// Of the outputs of a layer, the first dimension of its weight and its bias.
    pub fn outputs(units: i64) -> Self {
        Self { dim: 0, blocks: 1, units }
    }

    /// Of the inputs of a layer, the second dimension of its weight.
    pub fn inputs(units: i64) -> Self {
        Self { dim: 1, blocks: 1, units }
    }

    /// With this number of blocks.
    #[must_use = "it gives the split back"]
    pub fn blocks(self, blocks: i64) -> Self {
        Self { blocks, ..self }
    }

    /// The part of a tensor of this shape that rank `rank` of `ranks` holds.
    pub fn slice(self, shape: &[i64], rank: u32, ranks: u32) -> Slice {
        let Self { dim, blocks, units } = self;
        let length = shape[dim];
        assert_eq!(length % (blocks * units), 0, "{length} is not {blocks} blocks of {units} units");
        let (unit, block) = (length / (blocks * units), length / blocks);
        let Range { start, end } = share(units, rank, ranks);
        let ranges = (0..blocks).map(|index| {
            let first = index * block;
            first + start * unit..first + end * unit
        });
        Slice { dim, ranges: ranges.collect() }
    }
}

/// The units of rank `rank` of `ranks`. If they cannot be divided evenly, the first ranks have one more.
pub fn share(units: i64, rank: u32, ranks: u32) -> Range<i64> {
    let (rank, ranks) = (i64::from(rank), i64::from(ranks));
    let (each, more) = (units / ranks, units % ranks);
    let start = |rank: i64| rank * each + rank.min(more);
    start(rank)..start(rank + 1)
}

/// A part of a tensor: ranges along one dimension, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub dim: usize,
    pub ranges: Vec<Range<i64>>,
}

impl Slice {
    /// Length along the divided dimension.
    pub fn length(&self) -> i64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// The shape of the part of a tensor of shape `whole`.
    pub fn shape(&self, whole: &[i64]) -> Vec<i64> {
        let mut shape = whole.to_vec();
        shape[self.dim] = self.length();
        shape
    }

    /// A copy of the part of `whole`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn of(&self, whole: &Tensor) -> Result<Tensor, TchError> {
        let part = |range: &Range<i64>| whole.f_narrow(self.dim as i64, range.start, range.end - range.start);
        let parts = self.ranges.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        Tensor::f_cat(&parts, self.dim as i64)
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn units_are_shared_as_evenly_as_they_can_be() {
        let all = |units, ranks| (0..ranks).map(|rank| share(units, rank, ranks)).collect::<Vec<_>>();
        assert_eq!(all(25, 2), [0..13, 13..25]);
        assert_eq!(all(50_257, 4), [0..12_565, 12_565..25_129, 25_129..37_693, 37_693..50_257]);
        assert_eq!(all(4, 4), [0..1, 1..2, 2..3, 3..4]);
    }

    #[test]
    fn the_slices_of_all_ranks_are_the_whole_and_hold_whole_heads() {
        // Queries, keys and values of five heads of two numbers each.
        let whole = Tensor::arange(30 * 3, (Kind::Float, Device::Cpu)).view([30, 3]);
        let split = Split::outputs(5).blocks(3);
        let slices: Vec<_> = (0..2).map(|rank| split.slice(&[30, 3], rank, 2)).collect();
        assert_eq!(slices[0].ranges, [0..6, 10..16, 20..26]);
        assert_eq!(slices[1].ranges, [6..10, 16..20, 26..30]);
        assert_eq!(slices[1].shape(&[30, 3]), [12, 3]);
        let second = slices[1].of(&whole).unwrap();
        assert_eq!(second.select(1, 0).double_value(&[4]), 3.0 * 16.0);
        let rows: i64 = slices.iter().map(Slice::length).sum();
        assert_eq!(rows, 30);
        let columns = Split::inputs(3).slice(&[30, 3], 1, 2);
        assert_eq!((columns.dim, &columns.ranges[..]), (1, std::slice::from_ref(&(2..3))));
    }
}
