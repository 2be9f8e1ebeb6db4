//! What is going to happen on a simulated cluster, in the order of time and then of rank.

use std::{cmp::Reverse, collections::BinaryHeap};

use schema::{
    decision::{DeviceId, Happened, JobId, Settled},
    units::Nanos,
};

/// Something that will be, unless it is overtaken: an event of a job counts only while the job still has the number under which it was
/// planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// All steps are done.
    Finish(JobId, u32),
    /// The launch dies of itself.
    Crash(JobId, u32),
    /// It dies with a device of its own.
    Lose(JobId, u32),
    /// A device is about to be lost: what runs there goes first.
    Break(DeviceId),
    Lost(DeviceId),
    Back(DeviceId),
    /// The end of the step after which a job is paused or stopped.
    Boundary(JobId, u32),
    Settle(JobId, u32, Settled),
    Tell(JobId, u32),
}

impl Event {
    /// That of what will be told, so that events of one instant come in the order that [`Happened::rank`] has written down.
    fn rank(self) -> (u8, u32) {
        match self {
            Event::Finish(job, _) => Happened::Finished { job, steps: 0 }.rank(),
            Event::Crash(job, _) | Event::Lose(job, _) => (1, job.0),
            // Before those that it makes fail.
            Event::Break(device) => (0, device.0),
            Event::Lost(device) => Happened::DeviceLost { device }.rank(),
            Event::Back(device) => Happened::DeviceBack { device }.rank(),
            Event::Boundary(job, _) => Happened::Settled { job, now: Settled::Paused, steps: 0 }.rank(),
            Event::Settle(job, _, now) => Happened::Settled { job, now, steps: 0 }.rank(),
            Event::Tell(job, _) => Happened::Progress { job, steps: 0 }.rank(),
        }
    }
}

/// Takes time that grows with the logarithm of the number of events in it.
#[derive(Default)]
pub(super) struct Queue(BinaryHeap<Reverse<Planned>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Planned {
    at: Nanos,
    rank: (u8, u32),
    event: Event,
}

impl Queue {
    pub(super) fn plan(&mut self, at: Nanos, event: Event) {
        self.0.push(Reverse(Planned { at, rank: event.rank(), event }));
    }

    /// When the first is due, and its rank.
    pub(super) fn first(&self) -> Option<(Nanos, (u8, u32))> {
        self.0.peek().map(|Reverse(planned)| (planned.at, planned.rank))
    }

    pub(super) fn pop(&mut self) -> Option<(Nanos, Event)> {
        self.0.pop().map(|Reverse(planned)| (planned.at, planned.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_come_by_rank_then_by_number() {
        let mut queue = Queue::default();
        let (one, two, device) = (JobId(1), JobId(2), DeviceId(0));
        let planned = [
            (7, Event::Tell(one, 0)),
            (7, Event::Settle(two, 3, Settled::Running)),
            (7, Event::Settle(one, 9, Settled::Stopped)),
            (7, Event::Lost(device)),
            (7, Event::Lose(two, 0)),
            (7, Event::Back(device)),
            (7, Event::Crash(one, 0)),
            (7, Event::Finish(two, 0)),
            (9, Event::Finish(one, 0)),
            (3, Event::Tell(two, 0)),
        ];
        planned.iter().for_each(|(at, event)| queue.plan(Nanos(*at), *event));
        assert_eq!(queue.first().map(|(at, _)| at), Some(Nanos(3)));
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(at, event)| (at.0, event)).collect();
        let order = [9, 7, 6, 4, 3, 5, 2, 1, 0, 8].map(|place: usize| planned[place]);
        assert_eq!(popped, order);
    }
}
