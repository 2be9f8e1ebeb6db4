//! The interface of a job that works in steps of any kind.

use crate::{
    failure::Failure,
    step::{Completed, StepError, Trainer},
};

/// Steps that are issued first and complete later: see [`Trainer`], whose functions of these names say what they do.
pub(crate) trait Steps {
    fn restart(&mut self) -> Result<(), StepError>;
    fn issue(&mut self) -> Result<(), StepError>;
    fn wait(&mut self);
    fn completed(&mut self, in_flight: usize) -> Result<Option<Completed>, StepError>;

    /// What can be paused, and put on file.
    ///
    /// # Errors
    /// `unsupported` for steps that leave nothing behind.
    fn trainer(&mut self) -> Result<&mut Trainer, Failure>;
}

impl Steps for Trainer {
    fn restart(&mut self) -> Result<(), StepError> {
        Trainer::restart(self)
    }

    fn issue(&mut self) -> Result<(), StepError> {
        Trainer::issue(self)
    }

    fn wait(&mut self) {
        Trainer::wait(self);
    }

    fn completed(&mut self, in_flight: usize) -> Result<Option<Completed>, StepError> {
        Trainer::completed(self, in_flight)
    }

    fn trainer(&mut self) -> Result<&mut Trainer, Failure> {
        Ok(self)
    }
}
