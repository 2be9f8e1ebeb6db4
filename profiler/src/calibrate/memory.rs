//! Memory bandwidth of sets of cores, by the triad of STREAM (McCalpin, 1995).

use std::{hint::black_box, path::Path, sync::Barrier, thread};

use anyhow::Context as _;
use builtin_worker::{
    caches::{CORES, last_level_bytes},
    triad::{ELEMENT_BYTES, triad},
};
use procfs::Current as _;
use record::calibration::MemoryRow;
use schema::{
    device::Device,
    units::{HumanBytes, Nanos},
};
use statistics::median;

use super::values::over_repeats;
use crate::core_contention::pin_to;

/// The size of each array in multiples of all last-level caches of the cores together, as STREAM requires.
const CACHES: u64 = 4;
/// The minimum size of each array, for small caches and for a kernel that does not report them.
const LEAST_BYTES: u64 = 64 << 20;

/// Passes over the arrays in one repeat, as in STREAM, after one that does not count.
const PASSES: usize = 10;

/// Runs the triad on all cores of `devices`, which are CPU devices, at the same time, with one thread per core. Each repeat
/// allocates new memory, and its value is the median over its passes. The interval is over repeats.
///
/// # Errors
/// A thread cannot be pinned to its core, or the arrays need more than half of the free memory.
pub(super) fn measure(devices: &[Device], repeats: u32) -> anyhow::Result<MemoryRow> {
    let cores: Vec<u16> = devices
        .iter()
        .flat_map(|device| if let Device::Cpu(cores) = device { &cores[..] } else { &[] })
        .copied()
        .collect();
    let caches = last_level_bytes(Path::new(CORES), &cores);
    let array_bytes = caches.map_or(LEAST_BYTES, |bytes| (CACHES * bytes).max(LEAST_BYTES));
    let free = procfs::Meminfo::current().ok().and_then(|memory| memory.mem_available);
    if let Some(free) = free.filter(|free| free / 2 < 3 * array_bytes) {
        let (takes, free) = (HumanBytes(3 * array_bytes), HumanBytes(free));
        anyhow::bail!(
            "three arrays larger than the caches need {takes}, which is more than half of the {free} of free memory"
        );
    }
    let elements = array_bytes as usize / size_of::<f64>() / cores.len();
    let speeds: Vec<f64> = (0..repeats)
        .map(|_| repeat(&cores, elements).context("a thread could not be pinned to its core"))
        .collect::<anyhow::Result<_>>()?;
    Ok(MemoryRow {
        devices: devices.to_vec(),
        array_bytes: (elements * cores.len() * size_of::<f64>()) as u64,
        bytes_per_s: over_repeats(&speeds).context("one repeat has no interval")?,
        repeats,
    })
}

/// Bytes per second of all cores together in the median pass; `None` if a thread cannot be pinned.
fn repeat(cores: &[u16], elements: usize) -> Option<f64> {
    let start = Barrier::new(cores.len());
    let spans: Vec<Vec<(Nanos, Nanos)>> = thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> =
            cores.iter().map(|&core| scope.spawn(move || passes_on(core, elements, start))).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect::<Option<_>>()
    })?;
    // A pass lasts from the first thread that begins it to the last that ends it.
    let pass_ns: Vec<u64> = (0..PASSES)
        .filter_map(|pass| {
            let begin = spans.iter().map(|passes| passes[pass].0).min()?;
            let end = spans.iter().map(|passes| passes[pass].1).max()?;
            Some((end - begin).0)
        })
        .collect();
    let bytes = ELEMENT_BYTES * elements as u64 * cores.len() as u64;
    median(&pass_ns).map(|ns| bytes as f64 / (ns / 1e9))
}

/// When each pass began and ended on one core. The thread writes its memory first, so that the memory is near the core.
fn passes_on(core: u16, elements: usize, start: &Barrier) -> Option<Vec<(Nanos, Nanos)>> {
    let pinned = pin_to(core);
    let (mut a, b, c) = (vec![0.5; elements], vec![1.0; elements], vec![2.0; elements]);
    triad(&mut a, &b, &c);
    let spans = (0..PASSES)
        .map(|_| {
            start.wait();
            let begin = Nanos::monotonic_now();
            triad(black_box(&mut a), black_box(&b), black_box(&c));
            (begin, Nanos::monotonic_now())
        })
        .collect();
    // Threads that are not pinned leave only here, because the others wait for them at the barrier.
    pinned.then_some(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_has_no_bandwidth() {
        assert_eq!(repeat(&[u16::MAX], 1 << 10), None);
        let core = rig::device::allowed_cores().expect("there are cores")[0];
        assert!(repeat(&[core], 1 << 10).is_some_and(|speed| speed > 0.0));
    }
}
