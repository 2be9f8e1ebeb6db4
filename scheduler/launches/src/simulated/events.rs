//! The planned events of a simulated cluster, in order of time and then of rank.

use std::{cmp::Reverse, collections::BinaryHeap};

use formats::decision::{ClusterEvent, DeviceId, JobId, Settled};
use schema::units::Nanos;

/// A planned event. An event of a job is obsolete when the job no longer has the number under which the event was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The job completes its last step.
    Finish(JobId, u32),
    /// The processes of a job that has done its last step end.
    Exit(JobId, u32),
    /// The launch crashes by itself.
    Crash(JobId, u32),
    /// The launch fails because one of its devices is lost. It has the number of the start, because the failure of one job plans other
    /// ends for the jobs beside it.
    Lose(JobId, u32),
    /// A device is lost, and the launches on it fail.
    Break(DeviceId),
    /// A lost device comes back.
    Back(DeviceId),
    /// The step ends after which the job pauses or stops.
    Boundary(JobId, u32),
    /// A switch of the job ends.
    Settle(JobId, u32, Settled),
}

impl Event {
    /// The rank of the event that the cluster receives, so that events at the same time have the order of [`ClusterEvent::rank`].
    fn rank(self) -> (u8, u32) {
        match self {
            Event::Finish(job, _) | Event::Exit(job, _) => ClusterEvent::Finished { job, steps: 0 }.rank(),
            Event::Crash(job, _) | Event::Lose(job, _) => (1, job.0),
            // Before the failures of launches that it causes.
            Event::Break(device) => (0, device.0),
            Event::Back(device) => ClusterEvent::DeviceBack { device }.rank(),
            Event::Boundary(job, _) => ClusterEvent::Settled { job, now: Settled::Paused, steps: 0 }.rank(),
            Event::Settle(job, _, now) => ClusterEvent::Settled { job, now, steps: 0 }.rank(),
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

    /// The time of the first event.
    pub(super) fn first_at(&self) -> Option<Nanos> {
        self.0.peek().map(|Reverse(planned)| planned.at)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.0.pop().map(|Reverse(planned)| planned.event)
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
            (7, Event::Settle(two, 3, Settled::Running)),
            (7, Event::Settle(one, 9, Settled::Stopped)),
            (7, Event::Lose(two, 0)),
            (7, Event::Back(device)),
            (7, Event::Break(device)),
            (7, Event::Crash(one, 0)),
            (7, Event::Finish(two, 0)),
            (9, Event::Finish(one, 0)),
            (3, Event::Crash(two, 0)),
        ];
        planned.iter().for_each(|(at, event)| queue.plan(Nanos(*at), *event));
        assert_eq!(queue.first_at(), Some(Nanos(3)));
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let order = [8, 4, 6, 5, 2, 3, 1, 0, 7].map(|place: usize| planned[place].1);
        assert_eq!(popped, order);
    }
}
