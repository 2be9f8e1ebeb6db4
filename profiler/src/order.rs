//! The order in which a block visits the cells and the groups of a run.

/// One visit of a block. Numbers are positions in the lists of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockPosition {
    /// A cell, in the first pass of the block (0) or in the second one after all groups (1).
    Cell {
        cell: usize,
        pass: u32,
    },
    Group(usize),
}

/// The number of passes over the cells in each block of a run. With groups there are two, before and after them, so that the
/// time of a job alone is known for the middle of the block, where the groups are.
pub fn passes(groups: usize) -> u32 {
    if groups == 0 { 1 } else { 2 }
}

/// The visits of block number `block` in order: all cells, all groups, and all cells again in reverse.
pub fn of_block(cells: usize, groups: usize, seed: u64, block: u32) -> Vec<BlockPosition> {
    let order = shuffled(cells, seed, block);
    let again = order.iter().rev().filter(|_| passes(groups) > 1);
    let first = order.iter().map(|&cell| BlockPosition::Cell { cell, pass: 0 });
    // Another order than that of the cells, where there are as many.
    let between = shuffled(groups, !seed, block).into_iter().map(BlockPosition::Group);
    first.chain(between).chain(again.map(|&cell| BlockPosition::Cell { cell, pass: 1 })).collect()
}

/// The numbers below `count` in an order drawn from the seed of the run. The order depends only on the seed and the block, so
/// that a resumed run continues with the same one.
pub fn shuffled(count: usize, seed: u64, block: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    // Distinct streams for distinct blocks: fastrand scrambles its seed, and the multiplier is odd.
    let stream = seed.wrapping_add(u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    fastrand::Rng::with_seed(stream).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_permutation_that_its_seed_decides() {
        let sorted = |mut order: Vec<usize>| {
            order.sort_unstable();
            order
        };
        for block in 0..20 {
            let order = shuffled(9, 7, block);
            assert_eq!(order, shuffled(9, 7, block));
            assert_eq!(sorted(order), (0..9).collect::<Vec<_>>());
        }
        let orders: std::collections::BTreeSet<_> = (0..20).map(|block| shuffled(9, 7, block)).collect();
        assert!(orders.len() > 15, "blocks differ from each other");
        assert_ne!(shuffled(9, 7, 0), shuffled(9, 8, 0));
    }

    #[test]
    fn cells_without_groups_are_visited_once() {
        let positions = of_block(9, 0, 7, 3);
        let cells: Vec<_> =
            shuffled(9, 7, 3).into_iter().map(|cell| BlockPosition::Cell { cell, pass: 0 }).collect();
        assert_eq!(positions, cells);
    }

    #[test]
    fn groups_stand_between_the_cells_and_the_same_cells_in_reverse() {
        for block in 0..20 {
            let order = of_block(4, 6, 7, block);
            let (first, rest) = order.split_at(4);
            let (groups, again) = rest.split_at(6);
            let cells = |positions: &[BlockPosition], pass: u32| -> Vec<usize> {
                let cell = |position: &BlockPosition| match *position {
                    BlockPosition::Cell { cell, pass: which } if which == pass => cell,
                    other => panic!("{other:?} in pass {pass}"),
                };
                positions.iter().map(cell).collect()
            };
            let mut reversed = cells(again, 1);
            reversed.reverse();
            assert_eq!(cells(first, 0), reversed);
            let mut groups = groups.to_vec();
            groups.sort_unstable();
            assert_eq!(groups, (0..6).map(BlockPosition::Group).collect::<Vec<_>>());
        }
    }
}
