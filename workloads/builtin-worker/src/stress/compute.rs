//! `stress-compute`: multiplications and additions in registers, which nothing but the core itself takes part in.

use std::{hint::black_box, io};

use super::Stressor;

/// Chains that do not wait for each other: as many as the registers hold, two a register, and enough to keep the
/// units for multiplying and adding at work while each chain waits for its last result.
const CHAINS: usize = 24;

/// Links of each chain in a unit of work, some microseconds.
const LINKS: usize = 4096;

/// What a link does tends to `ADDEND / (1 - FACTOR)`, which is 1, and never to a number that takes longer than others.
const FACTOR: f64 = 1.0 - ADDEND;
const ADDEND: f64 = 1.0 / 1_048_576.0;

pub(super) struct Compute([f64; CHAINS]);

impl Compute {
    pub(super) fn new() -> Compute {
        Compute([0.0; CHAINS])
    }
}

impl Stressor for Compute {
    fn unit(&mut self) -> io::Result<()> {
        // A copy of its own is kept in registers.
        let mut chains = black_box(self.0);
        for _ in 0..LINKS {
            for chain in &mut chains {
                *chain = *chain * FACTOR + ADDEND;
            }
        }
        self.0 = black_box(chains);
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_links_of_all_chains_are_computed() {
        let mut compute = Compute::new();
        for units in 1..=3 {
            compute.unit().expect("it cannot fail");
            // The sum of a geometric series.
            let expected = 1.0 - FACTOR.powi(units * LINKS as i32);
            assert!(compute.0.iter().all(|chain| (chain - expected).abs() < 1e-12), "{:?}", compute.0);
        }
    }
}
