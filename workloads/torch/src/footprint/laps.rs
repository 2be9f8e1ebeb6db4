//! Which events of memory belong to which part of a step.

use std::{cell::RefCell, rc::Rc};

use tch::TchError;

use crate::{
    clock::{Clock, Phase, StepTime},
    shim::memory_trace,
};

/// The laps of a step as they come: what was done, and how many events of memory there were by then.
pub(super) type Laps = Rc<RefCell<Vec<(Phase, usize)>>>;

/// A clock that notes laps beside those of another, which tells the time.
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

/// What tensors did in one update of a step.
#[derive(Debug, PartialEq)]
pub(super) struct UpdateTrace {
    /// The micro-step that begins without gradients.
    pub(super) first: Segment,
    /// Bytes held when its forward pass was done.
    pub(super) forward_bytes: u64,
    /// All micro-steps that add to them.
    pub(super) later: Segment,
    /// All that comes after the last backward pass.
    pub(super) optimizer: Segment,
}

/// A part of a step.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Segment {
    /// Bytes that were allocated when it began.
    pub(super) before: u64,
    /// Bytes that were taken, and negative those that were given back, in order.
    pub(super) events: Vec<i64>,
}

impl Segment {
    /// Bytes that were allocated when it began and after each event.
    pub(super) fn levels(&self) -> impl Iterator<Item = u64> {
        let after = self.events.iter().scan(self.before, |level, &bytes| {
            *level = level.saturating_add_signed(bytes);
            Some(*level)
        });
        std::iter::once(self.before).chain(after)
    }

    pub(super) fn peak(&self) -> u64 {
        self.levels().max().unwrap_or(self.before)
    }

    fn end(&self) -> u64 {
        self.levels().last().unwrap_or(self.before)
    }

    /// Whether the other takes and gives back at the same moments, whatever the sizes.
    pub(super) fn is_like(&self, other: &Segment) -> bool {
        let signs = |segment: &Segment| segment.events.iter().map(|bytes| bytes.signum()).collect::<Vec<_>>();
        signs(self) == signs(other)
    }
}

/// Splits the events of a step, before which `before` bytes were allocated, at its laps. An update begins with data that does
/// not come right after a backward pass.
pub(super) fn split(laps: &[(Phase, usize)], before: u64, events: &[i64]) -> Vec<UpdateTrace> {
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
        let forward_bytes = first.levels().nth(first.events.len() - backward_events).unwrap_or(first.before);
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
        let events = [10, 5, 3, -10, 7, -7, 1, -9, 20, -20];
        let updates = split(&laps, 100, &events);
        let segment = |before, events: &[i64]| Segment { before, events: events.to_vec() };
        let first = UpdateTrace {
            first: segment(100, &[10, 5, 3, -10]),
            forward_bytes: 115,
            later: segment(108, &[7, -7]),
            optimizer: segment(108, &[1, -9]),
        };
        let second = UpdateTrace {
            first: segment(100, &[20, -20]),
            forward_bytes: 120,
            later: segment(100, &[]),
            optimizer: segment(100, &[]),
        };
        assert_eq!(updates, [first, second]);
        let levels: Vec<u64> = updates[0].first.levels().collect();
        assert_eq!((levels, updates[0].first.peak()), (vec![100, 110, 115, 118, 108], 118));
    }

    #[test]
    fn segments_are_alike_by_their_order_alone() {
        let segment = |events: &[i64]| Segment { before: 0, events: events.to_vec() };
        assert!(segment(&[1, 2, -1]).is_like(&segment(&[2, 4, -2])));
        assert!(!segment(&[1, 2, -1]).is_like(&segment(&[2, -2, 4])));
        assert!(!segment(&[1, 2]).is_like(&segment(&[1, 2, 3])));
    }
}
