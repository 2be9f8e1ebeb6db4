//! `stress-cache`: repeatedly reads and writes a word of each line of a buffer as large as the last-level
//! caches, which evicts the data of others.

use std::{hint::black_box, io};

use super::Stressor;

/// The line size of most machines. With lines of twice the size, each line is touched twice.
const LINE_BYTES: u64 = 64;

/// Lines of a unit of work, which takes some microseconds.
const UNIT_LINES: usize = 4096;

/// The share of a thread in the caches, in whole units.
pub(super) fn thread_bytes(caches_bytes: u64, threads: u32) -> u64 {
    let unit_bytes = UNIT_LINES as u64 * LINE_BYTES;
    (caches_bytes / u64::from(threads) / unit_bytes).max(1) * unit_bytes
}

#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; LINE_BYTES as usize / size_of::<u64>()]);

pub(super) struct Cache {
    lines: Vec<Line>,
    /// The next line.
    at: usize,
}

impl Cache {
    /// A buffer of whole units.
    pub(super) fn new(bytes: u64) -> Cache {
        Cache { lines: vec![Line([0; 8]); (bytes / LINE_BYTES) as usize], at: 0 }
    }
}

impl Stressor for Cache {
    fn unit(&mut self) -> io::Result<()> {
        let end = self.at + UNIT_LINES;
        for line in &mut self.lines[self.at..end] {
            line.0[0] = line.0[0].wrapping_add(1);
        }
        self.at = end % self.lines.len();
        black_box(&mut self.lines);
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.lines.len() as u64 * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffers_of_all_threads_fill_the_caches() {
        for (caches_mib, threads, expected_mib) in [(32, 1, 32), (32, 2, 16), (96, 3, 32), (38, 4, 9)] {
            assert_eq!(thread_bytes(caches_mib << 20, threads) >> 20, expected_mib);
        }
        assert_eq!(thread_bytes(1 << 20, 64), 256 << 10, "a unit is the least");
    }

    #[test]
    fn every_line_is_touched_once_in_a_round() {
        let mut cache = Cache::new(3 * thread_bytes(1, 1));
        for _ in 0..3 * 5 {
            cache.unit().expect("it cannot fail");
        }
        assert_eq!(cache.lines.len(), 3 * UNIT_LINES);
        assert!(cache.lines.iter().all(|line| line.0 == [5, 0, 0, 0, 0, 0, 0, 0]));
        assert!(cache.lines.iter().all(|line| std::ptr::from_ref(line).addr() % 64 == 0), "each is one line");
    }
}
