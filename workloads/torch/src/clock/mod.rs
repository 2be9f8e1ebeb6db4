//! The ends of steps and the times of their phases, by the clock of the device.
//!
//! A step is issued first and timed later. On the CPU this is immediate, because a step is done when the
//! host has issued it. On CUDA it is when the device has passed the marks in its stream. The training loop
//! is the same for both.

mod device;
mod host;
#[cfg(test)]
pub(crate) mod scripted;

use schema::{
    units::Nanos,
    wire::{Phases, Timing},
};
use tch::{Device, TchError};

use self::{
    device::{CudaStream, DeviceClock},
    host::HostClock,
};

/// The times of a completed step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepTime {
    /// On the host's `CLOCK_MONOTONIC`; never before the end of the previous step.
    pub(crate) end: Nanos,
    /// From boundary to boundary.
    pub(crate) dur: Nanos,
    pub(crate) phases: Phases,
    pub(crate) timing: Timing,
}

/// Times the steps of one trainer. Several steps may be in flight, that is, issued and not known to be
/// done.
pub(crate) trait Clock {
    /// Makes the present the boundary of the next step. The time since the last boundary belongs to no step, and no step
    /// may be in flight.
    ///
    /// # Errors
    /// An error of the device, here and below.
    fn restart(&mut self) -> Result<(), TchError>;

    /// Must be called when the issuing of a step begins.
    fn begin_step(&mut self);

    /// Attributes all work since the last lap to `phase`, which may occur several times in a step.
    fn lap(&mut self, phase: Phase) -> Result<(), TchError>;

    /// Ends the issuing of a step with at least one lap. The end of the step is that of its last lap.
    fn end_step(&mut self) -> Result<(), TchError>;

    /// Number of steps that were issued and not yet returned by [`Clock::oldest`].
    fn in_flight(&self) -> usize;

    /// Returns the oldest step in flight if it is done, without waiting.
    fn oldest(&mut self) -> Result<Option<StepTime>, TchError>;

    /// Waits a short time for the oldest step in flight.
    fn wait(&mut self);

    /// Returns the oldest step in flight if it is done, and waits for it while more than `in_flight` steps
    /// are. With 0, `None` means that no step is left.
    fn take(&mut self, in_flight: usize) -> Result<Option<StepTime>, TchError> {
        loop {
            match self.oldest()? {
                None if self.in_flight() > in_flight => self.wait(),
                oldest => return Ok(oldest),
            }
        }
    }
}

/// The clock of a device.
///
/// # Errors
/// An error of the device.
pub(crate) fn of(device: Device) -> Result<Box<dyn Clock>, TchError> {
    Ok(match device {
        Device::Cuda(index) => Box::new(DeviceClock::new(CudaStream(index))?),
        _ => Box::new(HostClock::new()),
    })
}

/// A part of a step that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Data,
    Forward,
    Backward,
    /// The part of gradient synchronisation after the end of the backward pass.
    SyncExposed,
    Optimizer,
    /// Copies of gradients to host memory and of parameters back, as far as the step waited for them.
    Offload,
}

impl Phase {
    /// Adds `time` to this phase in `phases`.
    fn add(self, time: Nanos, phases: &mut Phases) {
        *self.of(phases).get_or_insert(Nanos::ZERO) += time;
    }

    /// The time of this phase in `phases`.
    pub(crate) fn of(self, phases: &mut Phases) -> &mut Option<Nanos> {
        match self {
            Phase::Data => &mut phases.data_ns,
            Phase::Forward => &mut phases.forward_ns,
            Phase::Backward => &mut phases.backward_ns,
            Phase::SyncExposed => &mut phases.sync_exposed_ns,
            Phase::Optimizer => &mut phases.optimizer_ns,
            Phase::Offload => &mut phases.offload_ns,
        }
    }
}
