//! Assigns memory events to the laps of a step.

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

/// The memory of a part of a step.
#[derive(Debug, PartialEq)]
pub(super) struct Lap {
    pub(super) phase: Phase,
    pub(super) memory: Segment,
}

/// Splits the events of a step, before which `before` bytes were allocated, at its laps.
pub(super) fn split(laps: &[(Phase, usize)], before: u64, events: &[Event]) -> Vec<Lap> {
    let (mut level, mut begin) = (before, 0);
    let cut = |&(phase, end): &(Phase, usize)| {
        let memory = Segment { before: level, events: events[begin..end].to_vec() };
        (level, begin) = (memory.end(), end);
        Lap { phase, memory }
    };
    laps.iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_split_at_its_laps() {
        let laps = [(Phase::Data, 0), (Phase::Forward, 2), (Phase::Backward, 4), (Phase::Optimizer, 5)];
        let events = [10, 5, 3, -10, 7].map(Event::Bytes);
        let lap = |phase, before, bytes: &[i64]| Lap { phase, memory: Segment::of_bytes(before, bytes) };
        assert_eq!(
            split(&laps, 100, &events),
            [
                lap(Phase::Data, 100, &[]),
                lap(Phase::Forward, 100, &[10, 5]),
                lap(Phase::Backward, 115, &[3, -10]),
                lap(Phase::Optimizer, 108, &[7]),
            ]
        );
    }
}
