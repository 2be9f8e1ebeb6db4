//! The recording of the operators of some steps, in a launch that is made for it.

use std::path::PathBuf;

use schema::spec::{OPERATORS, OperatorSteps};
use tch::{Device, TchError};

use crate::shim::operators;

/// A recording that begins and ends between steps.
pub(super) struct Recording {
    steps: OperatorSteps,
    device: Device,
    path: PathBuf,
    is_in_progress: bool,
}

impl Recording {
    /// The trace is written beside `events`, the file of this rank's events.
    pub(super) fn new(steps: OperatorSteps, device: Device, events: &std::path::Path) -> Recording {
        let path = events.with_extension(OPERATORS.trim_start_matches('.'));
        Recording { steps, device, path, is_in_progress: false }
    }

    /// Whether it begins or ends when this number of steps has been issued.
    pub(super) fn is_due(&self, issued: u64) -> bool {
        match self.is_in_progress {
            false => issued == self.steps.first,
            true => issued >= self.steps.end(),
        }
    }

    /// Begins it, or ends it and writes its trace. No step may be in flight.
    pub(super) fn go_on(&mut self) -> Result<(), TchError> {
        self.is_in_progress = !self.is_in_progress;
        match self.is_in_progress {
            true => operators::begin(self.device),
            false => operators::end(&self.path),
        }
    }
}
