//! A schedule of periodic work, with absolute deadlines on one clock, so that a late tick does not shift later ones. Missed
//! deadlines are skipped.

use std::sync::mpsc::{Receiver, RecvTimeoutError};

use rustix::time::{ClockId, clock_gettime};
use schema::units::Nanos;

use super::status::SamplerCost;

/// The work of one thread, and its cost.
pub(super) struct Schedule<W> {
    dues: Vec<Due<W>>,
    active: bool,
    cost: SamplerCost,
}

struct Due<W> {
    at: Nanos,
    period: Nanos,
    what: W,
}

/// The reason that a thread woke up.
pub(super) enum Woken<C> {
    By(C),
    ToWork,
    /// The channel is closed.
    ToLeave,
}

impl<W: Copy> Schedule<W> {
    /// Creates a schedule in which all work is due now. Work that is due at the same time is done in the order of the list.
    pub(super) fn new(works: impl IntoIterator<Item = (Nanos, W)>) -> Schedule<W> {
        let at = Nanos::monotonic_now();
        let dues = works.into_iter().map(|(period, what)| Due { at, period, what }).collect();
        Schedule { dues, active: true, cost: SamplerCost::default() }
    }

    /// Sleeps until a message arrives or work is due.
    pub(super) fn wait<C>(&self, inbox: &Receiver<C>) -> Woken<C> {
        let next = self.dues.iter().map(|due| due.at).min().filter(|_| self.active);
        let Some(next) = next else { return inbox.recv().map_or(Woken::ToLeave, Woken::By) };
        match inbox.recv_timeout(next.saturating_sub(Nanos::monotonic_now()).as_duration()) {
            Ok(sent) => Woken::By(sent),
            Err(RecvTimeoutError::Timeout) => Woken::ToWork,
            Err(RecvTimeoutError::Disconnected) => Woken::ToLeave,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.dues.len()
    }

    /// Returns the work at this position and the time, if it is due.
    pub(super) fn begin(&mut self, place: usize) -> Option<(W, Nanos)> {
        let now = Nanos::monotonic_now();
        let due = &mut self.dues[place];
        if due.at > now {
            return None;
        }
        let late = now - due.at;
        let missed = late.0 / due.period.0;
        due.at += Nanos((missed + 1) * due.period.0);
        self.cost.ticks += 1;
        self.cost.late_ticks += u64::from(late.0 > due.period.0 / 2);
        Some((due.what, now))
    }

    pub(super) fn done(&mut self, began: Nanos) {
        self.cost.worst_tick_ns = self.cost.worst_tick_ns.max((Nanos::monotonic_now() - began).0);
    }

    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// Sets whether work is due. When the schedule becomes active again, all work is due.
    pub(super) fn set_active(&mut self, active: bool) {
        if active && !self.active {
            let now = Nanos::monotonic_now();
            self.dues.iter_mut().for_each(|due| due.at = now);
        }
        self.active = active;
    }

    /// Sets the period of some of the work from now on.
    pub(super) fn set_period(&mut self, period: Nanos, is_meant: impl Fn(W) -> bool) {
        for due in self.dues.iter_mut().filter(|due| is_meant(due.what)) {
            (due.period, due.at) = (period, Nanos::monotonic_now());
        }
    }

    /// The cost of the calling thread so far.
    pub(super) fn cost(&self) -> SamplerCost {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        SamplerCost { cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64, ..self.cost }
    }
}
