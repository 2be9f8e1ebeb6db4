//! When steps end and what their phases take, on whatever clock the device offers.
//!
//! A step is issued first and timed later: on the CPU at once, where a step is done when the host has issued it; on CUDA
//! when the device has come by the marks that were left in its stream. The training loop is the same for both.

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

/// What the clock tells of a step that is done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepTime {
    /// On the host's `CLOCK_MONOTONIC`. Never earlier than that of the step before.
    pub(crate) end: Nanos,
    /// From boundary to boundary.
    pub(crate) dur: Nanos,
    pub(crate) phases: Phases,
    pub(crate) timing: Timing,
}

/// Times the steps of one trainer, of which several may be in flight: issued, and not yet known to be done.
pub(crate) trait Clock {
    /// Makes now the boundary that the next step begins at: what passed since the last one belongs to no step. Nothing
    /// may be in flight.
    ///
    /// # Errors
    /// An error of the device, here as below.
    fn restart(&mut self) -> Result<(), TchError>;

    /// To be called when the issuing of a step begins.
    fn begin_step(&mut self);

    /// All that was issued since the last lap belongs to `phase`, which may come again within a step.
    fn lap(&mut self, phase: Phase) -> Result<(), TchError>;

    /// The whole step is issued. Its end is that of its last lap, of which there is at least one.
    fn end_step(&mut self) -> Result<(), TchError>;

    /// How many steps were issued and not yet given by [`Clock::oldest`].
    fn in_flight(&self) -> usize;

    /// The oldest step in flight, if it is done; asks and does not wait.
    fn oldest(&mut self) -> Result<Option<StepTime>, TchError>;

    /// Lets some time pass in which the oldest step in flight may get done.
    fn wait(&mut self);

    /// The oldest step in flight, if it is done; it is waited for while more than `in_flight` steps are. With 0, `None` says
    /// that there is no step left.
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
    /// What is left of the synchronisation of gradients when the backward pass has ended.
    SyncExposed,
    Optimizer,
    /// Copies of gradients to host memory and of parameters back, as far as the step waited for them.
    Offload,
}

impl Phase {
    /// Adds `time` to what `phases` has of this phase.
    fn add(self, time: Nanos, phases: &mut Phases) {
        let sum = match self {
            Phase::Data => &mut phases.data_ns,
            Phase::Forward => &mut phases.forward_ns,
            Phase::Backward => &mut phases.backward_ns,
            Phase::SyncExposed => &mut phases.sync_exposed_ns,
            Phase::Optimizer => &mut phases.optimizer_ns,
            Phase::Offload => &mut phases.offload_ns,
        };
        *sum.get_or_insert(Nanos::ZERO) += time;
    }
}
