//! The planned events of a simulated cluster, in order of time and then of rank.

use std::{cmp::Reverse, collections::BinaryHeap};

use schema::{
    decision::{ClusterEvent, DeviceId, JobId, Settled},
    units::Nanos,
};

/// A planned event. An event of a job is obsolete when the job no longer has the number under which the event was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The job completes its last step.
    Finish(JobId, u32),
    /// The launch crashes by itself.
    Crash(JobId, u32),
    /// The launch fails because one of its devices is lost. It has the number of launches of the job, because the failure of one job
    /// plans other ends for the jobs beside it.
    Lose(JobId, u32),
    /// A device fails. Launches on it fail first, and then it is lost.
    Break(DeviceId),
    /// A device is reported as lost.
    Lost(DeviceId),
    /// A lost device comes back.
    Back(DeviceId),
    /// The step ends after which the job pauses or stops.
    Boundary(JobId, u32),
    /// A switch of the job ends.
    Settle(JobId, u32, Settled),
    /// The job reports its progress.
    Tell(JobId, u32),
}

impl Event {
    /// The rank of the event that the engine receives, so that events at the same time have the order of [`ClusterEvent::rank`].
    fn rank(self) -> (u8, u32) {
        match self {
            Event::Finish(job, _) => ClusterEvent::Finished { job, steps: 0 }.rank(),
            Event::Crash(job, _) | Event::Lose(job, _) => (1, job.0),
            // Before the failures of launches that it causes.
            Event::Break(device) => (0, device.0),
            Event::Lost(device) => ClusterEvent::DeviceLost { device }.rank(),
            Event::Back(device) => ClusterEvent::DeviceBack { device }.rank(),
            Event::Boundary(job, _) => ClusterEvent::Settled { job, now: Settled::Paused, steps: 0 }.rank(),
            Event::Settle(job, _, now) => ClusterEvent::Settled { job, now, steps: 0 }.rank(),
            Event::Tell(job, _) => ClusterEvent::Progress { job, steps: 0, loss: None }.rank(),
        }
    }
}

/// The queue of planned events. To plan or to take one takes time that grows with the logarithm of their number.
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

    /// The time and the rank of the first event.
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
