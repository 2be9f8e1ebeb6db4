//! The contention between two cores: the lower bound of any claim about separate cores.
//!
//! Virtual cores may share a physical core, which the guest cannot see. Two spin loops, run alone and together, reveal it.

use std::{
    hint::black_box,
    sync::Barrier,
    time::{Duration, Instant},
};

use rustix::thread::{CpuSet, sched_setaffinity};
use statistics::{Interval, launches::ratio_paired};

const STRETCH: Duration = Duration::from_millis(60);

/// The time per iteration of a spin loop while the other core spins, over the time while it is idle, in blocks of alone,
/// together, together, alone. `None` for fewer than two blocks, or if a core is not available.
pub fn sibling_ratio(first: u16, second: u16, blocks: u32) -> Option<Interval> {
    let pairs: Vec<(f64, f64)> = (0..blocks)
        .map(|_| {
            let quad = [alone(first), together(first, second), together(first, second), alone(first)];
            statistics::launches::abba(quad)
        })
        .collect();
    ratio_paired(&pairs)
}

fn alone(core: u16) -> f64 {
    std::thread::scope(|scope| scope.spawn(move || spin_on(core, None)).join()).unwrap_or(f64::NAN)
}

fn together(first: u16, second: u16) -> f64 {
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| spin_on(second, Some(&start)));
        let measured = scope.spawn(|| spin_on(first, Some(&start)));
        let _ = other.join();
        measured.join().unwrap_or(f64::NAN)
    })
}

/// Pins the calling thread to one core; returns `false` if the core is not available.
pub(crate) fn pin_to(core: u16) -> bool {
    let (core, mut set) = (usize::from(core), CpuSet::new());
    if core >= CpuSet::MAX_CPU {
        return false;
    }
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// Nanoseconds per iteration on one core; NaN if the core is not available.
fn spin_on(core: u16, start: Option<&Barrier>) -> f64 {
    let pinned = pin_to(core);
    if let Some(start) = start {
        start.wait();
    }
    if !pinned {
        return f64::NAN;
    }
    let (began, mut turns, mut state) = (Instant::now(), 0u64, 1u64);
    // At least one turn, also if the kernel does not run this thread for a whole stretch: the result divides by the turns.
    while turns == 0 || began.elapsed() < STRETCH {
        for _ in 0..10_000 {
            // A chain of dependent multiplications. The clock is read only once in ten thousand of them.
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        turns += 10_000;
    }
    began.elapsed().as_nanos() as f64 / turns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_spins_beside_itself_is_held_against_itself_alone() {
        let cores = rig::device::allowed_cores().expect("there are cores");
        let ratio = sibling_ratio(cores[0], cores[0], 8).expect("eight blocks");
        // How much slower each is depends on what else the core does: that both ran, and were held against one alone.
        assert!(ratio.n == 8 && ratio.lo <= ratio.estimate && ratio.estimate <= ratio.hi, "{ratio:?}");
        assert_eq!(sibling_ratio(u16::MAX, u16::MAX, 2), None);
    }
}
