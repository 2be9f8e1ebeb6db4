//! `stress-compute`: multiplications and additions in registers, which use only the core itself.

use std::{hint::black_box, io};

use super::Stressor;

/// Number of independent chains: two per register, as many as registers hold, and enough to keep the
/// multiply and add units busy during the latency of each chain.
const CHAINS: usize = 24;

/// Links of each chain in a unit of work, which takes some microseconds.
const LINKS: usize = 4096;

/// A link converges to `ADDEND / (1 - FACTOR)`, which is 1, and never to a denormal number.
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
        // A local copy is kept in registers.
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
