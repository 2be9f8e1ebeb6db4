//! `stress-memory`: the STREAM triad over arrays larger than all caches, so that every element comes from
//! memory and goes there.

use std::{hint::black_box, io};

use super::Stressor;
use crate::triad::{ELEMENT_BYTES, triad};

/// Size of the arrays of all threads over the last-level caches of their cores. Before an element is used
/// again, four times the size of the caches has passed through them.
const CACHES: u64 = 4;
/// Minimum size, because a guest may see smaller caches than there are.
const LEAST_BYTES: u64 = 192 << 20;

/// Elements of a unit of work, which takes some ten microseconds.
const UNIT_ELEMENTS: usize = 16_384;

/// The share of a thread, in whole units.
pub(super) fn thread_bytes(caches_bytes: u64, threads: u32) -> u64 {
    let unit_bytes = UNIT_ELEMENTS as u64 * ELEMENT_BYTES;
    ((CACHES * caches_bytes).max(LEAST_BYTES) / u64::from(threads)).div_ceil(unit_bytes) * unit_bytes
}

pub(super) struct Memory {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    /// The next element.
    at: usize,
}

impl Memory {
    /// Three arrays, of whole units.
    pub(super) fn new(bytes: u64) -> Memory {
        let elements = (bytes / ELEMENT_BYTES) as usize;
        // No element is 0, because zero pages without a write need not be in memory.
        Memory { a: vec![0.5; elements], b: vec![1.0; elements], c: vec![2.0; elements], at: 0 }
    }
}

impl Stressor for Memory {
    fn unit(&mut self) -> io::Result<()> {
        let unit = self.at..self.at + UNIT_ELEMENTS;
        self.at = unit.end % self.a.len();
        triad(black_box(&mut self.a[unit.clone()]), &self.b[unit.clone()], &self.c[unit]);
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.a.len() as u64 * ELEMENT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::caches::{CORES, last_level_bytes};

    #[test]
    fn no_cache_holds_the_arrays_of_all_threads() {
        let here = last_level_bytes(Path::new(CORES), &[0]).unwrap_or(1);
        for (caches, threads) in [(here, 1), (32 << 20, 1), (256 << 20, 2), (48 << 20, 7)] {
            let bytes = thread_bytes(caches, threads) * u64::from(threads);
            assert!(bytes >= 4 * caches && bytes >= LEAST_BYTES, "{bytes}");
        }
    }

    #[test]
    fn every_element_is_read_and_written_in_a_round() {
        let units = 5;
        let mut memory = Memory::new(units * UNIT_ELEMENTS as u64 * ELEMENT_BYTES);
        let computed = |memory: &Memory| memory.a.iter().filter(|&&a| a == 1.0 + 3.0 * 2.0).count();
        for unit in 1..=units as usize {
            memory.unit().expect("it cannot fail");
            assert_eq!(computed(&memory), unit * UNIT_ELEMENTS);
        }
        assert_eq!(memory.at, 0, "and so on from the start");
        memory.b.fill(2.0);
        memory.unit().expect("it cannot fail");
        assert_eq!(memory.a[..UNIT_ELEMENTS], [8.0; UNIT_ELEMENTS]);
        assert_eq!(computed(&memory), 4 * UNIT_ELEMENTS);
    }
}
