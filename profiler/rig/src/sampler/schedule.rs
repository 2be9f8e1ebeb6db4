//! What is done again and again, and when: absolute deadlines on the one clock, so that a late tick does not shift those
//! after it. Deadlines that passed are not made up for.

use std::sync::mpsc::{Receiver, RecvTimeoutError};

use rustix::time::{ClockId, clock_gettime};
use schema::units::Nanos;

use super::status::SamplerCost;

/// Work of one thread, and what it has cost.
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

/// Why a thread woke up.
pub(super) enum Woken<C> {
    By(C),
    ToWork,
    /// Nothing can be sent any more.
    ToLeave,
}

impl<W: Copy> Schedule<W> {
    /// Everything is due now. Of what is due together, what stands first is done first.
    pub(super) fn new(works: impl IntoIterator<Item = (Nanos, W)>) -> Schedule<W> {
        let at = Nanos::monotonic_now();
        let dues = works.into_iter().map(|(period, what)| Due { at, period, what }).collect();
        Schedule { dues, active: true, cost: SamplerCost::default() }
    }

    /// Sleeps until something is sent or due.
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

    /// The work of this place and the time, where it is due.
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

    /// While it is inactive nothing is due; when it becomes active, everything is.
    pub(super) fn set_active(&mut self, active: bool) {
        if active && !self.active {
            let now = Nanos::monotonic_now();
            self.dues.iter_mut().for_each(|due| due.at = now);
        }
        self.active = active;
    }

    /// Sets the period of some of the works from now on.
    pub(super) fn set_period(&mut self, period: Nanos, is_meant: impl Fn(W) -> bool) {
        for due in self.dues.iter_mut().filter(|due| is_meant(due.what)) {
            (due.period, due.at) = (period, Nanos::monotonic_now());
        }
    }

    /// What the thread that calls this has cost so far.
    pub(super) fn cost(&self) -> SamplerCost {
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        SamplerCost { cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64, ..self.cost }
    }
}
