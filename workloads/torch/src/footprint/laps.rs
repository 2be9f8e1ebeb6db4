//! Assigns memory events to the parts of a step.

use std::{cell::RefCell, rc::Rc};

use tch::TchError;

use super::segment::Segment;
use crate::{
    clock::{Clock, Phase, StepTime},
    shim::memory_trace::{self, Event},
};

/// The laps of a step in order: the phase, and the number of memory events by then.
pub(super) type Laps = Rc<RefCell<Vec<(Phase, usize)>>>;

/// A clock that records laps and forwards to another clock.
pub(super) struct LapClock {
    time: Box<dyn Clock>,
    laps: Laps,
}

impl LapClock {
    pub(super) fn new(time: Box<dyn Clock>, laps: Laps) -> Self {
        Self { time, laps }
    }
}

impl Clock for LapClock {
    fn restart(&mut self) -> Result<(), TchError> {
        self.time.restart()
    }

    fn begin_step(&mut self) {
        self.time.begin_step();
    }

    fn lap(&mut self, phase: Phase) -> Result<(), TchError> {
        self.laps.borrow_mut().push((phase, memory_trace::length()));
        self.time.lap(phase)
    }

    fn end_step(&mut self) -> Result<(), TchError> {
        self.time.end_step()
    }

    fn in_flight(&self) -> usize {
        self.time.in_flight()
    }

    fn oldest(&mut self) -> Result<Option<StepTime>, TchError> {
        self.time.oldest()
    }

    fn wait(&mut self) {
        self.time.wait();
    }
}

/// The memory events of one update of a step.
#[derive(Debug, PartialEq)]
pub(super) struct UpdateTrace {
    /// The micro-step that begins without gradients.
    pub(super) first: Segment,
    /// Bytes held when its forward pass was done.
    pub(super) forward_bytes: u64,
    /// All micro-steps that add to them.
    pub(super) later: Segment,
    /// All work after the last backward pass.
    pub(super) optimizer: Segment,
}

/// Splits the events of a step, before which `before` bytes were allocated, at its laps. An update begins
/// with data that does not directly follow a backward pass.
pub(super) fn split(laps: &[(Phase, usize)], before: u64, events: &[Event]) -> Vec<UpdateTrace> {
    let mut updates = Vec::new();
    let (mut level, mut begin) = (before, 0);
    let mut cut = |until: usize| {
        let segment = Segment { before: level, events: events[begin..until].to_vec() };
        (level, begin) = (segment.end(), until);
        segment
    };
    for update in laps.chunk_by(|(before, _), (after, _)| *after != Phase::Data || *before == Phase::Backward)
    {
        let ends = |wanted: Phase| {
            update.iter().filter(move |(phase, _)| *phase == wanted).map(|(_, events)| *events)
        };
        let backward: Vec<usize> = ends(Phase::Backward).collect();
        let (Some(&first), Some(&last), Some(&(_, end))) = (backward.first(), backward.last(), update.last())
        else {
            continue;
        };
        let backward_events = first - ends(Phase::Forward).next().unwrap_or(first);
        let first = cut(first);
        let forward = first.events.len() - backward_events;
        let forward_bytes = Segment { before: first.before, events: first.events[..forward].to_vec() }.end();
        updates.push(UpdateTrace { first, forward_bytes, later: cut(last), optimizer: cut(end) });
    }
    updates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_split_at_its_laps_update_by_update() {
        let laps = [
            (Phase::Data, 0),
            (Phase::Forward, 2),
            (Phase::Backward, 4),
            (Phase::Data, 4),
            (Phase::Forward, 5),
            (Phase::Backward, 6),
            (Phase::Optimizer, 7),
            (Phase::Optimizer, 8),
            (Phase::Data, 8),
            (Phase::Forward, 9),
            (Phase::Backward, 10),
            (Phase::Optimizer, 10),
        ];
        let events = [10, 5, 3, -10, 7, -7, 1, -9, 20, -20].map(Event::Bytes);
        let updates = split(&laps, 100, &events);
        let first = UpdateTrace {
            first: Segment::of_bytes(100, &[10, 5, 3, -10]),
            forward_bytes: 115,
            later: Segment::of_bytes(108, &[7, -7]),
            optimizer: Segment::of_bytes(108, &[1, -9]),
        };
        let second = UpdateTrace {
            first: Segment::of_bytes(100, &[20, -20]),
            forward_bytes: 120,
            later: Segment::of_bytes(100, &[]),
            optimizer: Segment::of_bytes(100, &[]),
        };
        assert_eq!(updates, [first, second]);
    }
}
