//! Events that have happened, and that the engine has not received yet.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use engine::cluster::ClusterEvent;
use schema::units::Nanos;

#[derive(Default)]
pub(super) struct PendingEvents {
    events: BinaryHeap<Reverse<PendingEvent>>,
    added: u64,
}

pub(super) struct PendingEvent {
    at: Nanos,
    rank: (u8, u32),
    /// The number of events that were added before it.
    nth: u64,
    pub(super) event: ClusterEvent,
    /// The number of the start of its job, for an event of a launch.
    pub(super) start: Option<u32>,
}

impl PendingEvent {
    /// The order in which the engine receives events.
    fn turn(&self) -> (Nanos, (u8, u32), u64) {
        (self.at, self.rank, self.nth)
    }
}

impl Ord for PendingEvent {
    fn cmp(&self, other: &PendingEvent) -> Ordering {
        self.turn().cmp(&other.turn())
    }
}

impl PartialOrd for PendingEvent {
    fn partial_cmp(&self, other: &PendingEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PendingEvent {
    fn eq(&self, other: &PendingEvent) -> bool {
        self.turn() == other.turn()
    }
}

impl Eq for PendingEvent {}

impl PendingEvents {
    pub(super) fn add(&mut self, at: Nanos, event: ClusterEvent, start: Option<u32>) {
        self.events.push(Reverse(PendingEvent { at, rank: event.rank(), nth: self.added, event, start }));
        self.added += 1;
    }

    /// The time and the rank of the first event.
    pub(super) fn first_turn(&self) -> Option<(Nanos, (u8, u32))> {
        self.first().map(|pending| (pending.at, pending.rank))
    }

    pub(super) fn first(&self) -> Option<&PendingEvent> {
        self.events.peek().map(|Reverse(pending)| pending)
    }

    pub(super) fn pop(&mut self) -> Option<ClusterEvent> {
        self.events.pop().map(|Reverse(pending)| pending.event)
    }
}

#[cfg(test)]
mod tests {
    use formats::decision::{DeviceId, JobId, Settled};

    use super::*;

    #[test]
    fn events_come_by_time_then_by_rank_then_as_they_were_added() {
        let settled = |job, steps| ClusterEvent::Settled { job: JobId(job), now: Settled::Paused, steps };
        let lost = ClusterEvent::DeviceLost { device: DeviceId(0) };
        let finished = ClusterEvent::Finished { job: JobId(9), steps: 1 };
        let mut pending = PendingEvents::default();
        for (at, event) in [(7, settled(2, 5)), (7, settled(1, 4)), (7, lost.clone()), (7, settled(1, 3))] {
            pending.add(Nanos(at), event, None);
        }
        pending.add(Nanos(7), finished.clone(), Some(0));
        pending.add(Nanos(3), settled(3, 0), None);
        assert_eq!(pending.first_turn(), Some((Nanos(3), settled(3, 0).rank())));
        let popped: Vec<ClusterEvent> = std::iter::from_fn(|| pending.pop()).collect();
        assert_eq!(popped, [settled(3, 0), finished, lost, settled(1, 4), settled(1, 3), settled(2, 5)]);
    }
}
