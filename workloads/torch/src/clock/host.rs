//! The clock of a synchronous device, the CPU, which has finished work when it is issued.

use schema::{
    units::Nanos,
    wire::{Phases, Timing},
};
use tch::TchError;

use super::{Clock, Phase, StepTime};

/// Reads the host's clock at every lap.
pub(super) struct HostClock {
    /// The end of the last step, or of the last rest.
    boundary: Nanos,
    last_lap: Nanos,
    phases: Phases,
    done: Option<StepTime>,
}

impl HostClock {
    pub(super) fn new() -> Self {
        let now = Nanos::monotonic_now();
        Self { boundary: now, last_lap: now, phases: Phases::default(), done: None }
    }
}

impl Clock for HostClock {
    fn restart(&mut self) -> Result<(), TchError> {
        self.boundary = Nanos::monotonic_now();
        Ok(())
    }

    /// The time between the boundary and this call, in which the last step is reported, belongs to the step
    /// but to no phase.
    fn begin_step(&mut self) {
        self.last_lap = Nanos::monotonic_now();
        self.phases = Phases::default();
    }

    fn lap(&mut self, phase: Phase) -> Result<(), TchError> {
        let now = Nanos::monotonic_now();
        phase.add(now - self.last_lap, &mut self.phases);
        self.last_lap = now;
        Ok(())
    }

    fn end_step(&mut self) -> Result<(), TchError> {
        let end = self.last_lap;
        let dur = end - self.boundary;
        self.boundary = end;
        let phases = std::mem::take(&mut self.phases);
        let unread = self.done.replace(StepTime { end, dur, phases, timing: Timing::Host });
        assert!(unread.is_none(), "a step on the CPU is done, and to be taken, before the next one begins");
        Ok(())
    }

    fn in_flight(&self) -> usize {
        usize::from(self.done.is_some())
    }

    fn oldest(&mut self) -> Result<Option<StepTime>, TchError> {
        Ok(self.done.take())
    }

    /// A step in flight is already done.
    fn wait(&mut self) {}
}
