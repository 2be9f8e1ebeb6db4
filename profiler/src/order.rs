//! In which order a block visits the cells of a run.

/// The cells of block number `block`, shuffled by the seed of the run: the same for the same seed,
/// so that a resumed run goes on as the first one would have.
pub fn of_block(cells: usize, seed: u64, block: u32) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cells).collect();
    // Distinct streams for distinct blocks: fastrand scrambles its seed, and the multiplier is odd.
    let stream = seed.wrapping_add(u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    fastrand::Rng::with_seed(stream).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_permutation_that_its_seed_decides() {
        let sorted = |mut order: Vec<usize>| {
            order.sort_unstable();
            order
        };
        for block in 0..20 {
            let order = of_block(9, 7, block);
            assert_eq!(order, of_block(9, 7, block));
            assert_eq!(sorted(order), (0..9).collect::<Vec<_>>());
        }
        let orders: std::collections::BTreeSet<_> = (0..20).map(|block| of_block(9, 7, block)).collect();
        assert!(orders.len() > 15, "blocks differ from each other");
        assert_ne!(of_block(9, 7, 0), of_block(9, 8, 0));
    }
}
