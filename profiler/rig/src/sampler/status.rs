//! The shared status of the sampler's threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schema::{device::Device, units::Nanos};

/// The cost of watching so far, of both threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplerCost {
    /// CPU time of the threads.
    pub cpu_ns: u64,
    pub ticks: u64,
    /// Ticks that began later than half of their period after the deadline.
    pub late_ticks: u64,
    /// The longest time of one tick.
    pub worst_tick_ns: u64,
}

impl SamplerCost {
    pub(super) fn and(self, other: SamplerCost) -> SamplerCost {
        SamplerCost {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            ticks: self.ticks + other.ticks,
            late_ticks: self.late_ticks + other.late_ticks,
            worst_tick_ns: self.worst_tick_ns.max(other.worst_tick_ns),
        }
    }
}

/// The status that other threads can read at any time without waiting.
#[derive(Default)]
pub(super) struct Status {
    pub(super) watcher: SamplerCost,
    pub(super) keeper: SamplerCost,
    pub(super) lost: Vec<Device>,
    pub(super) throttled_at: Option<Nanos>,
}

pub(super) type SharedStatus = Arc<Mutex<Status>>;

pub(super) fn locked(status: &SharedStatus) -> MutexGuard<'_, Status> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}
