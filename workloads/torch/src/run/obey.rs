//! Commands to a job at rest: pause, resume and checkpoint.

use std::path::Path;

use schema::{units::Nanos, wire::Event};

use super::Job;
use crate::{
    checkpoint::save::save,
    failure::Failure,
    pause::{Left, Paused},
    shim::transfer::wait_for,
    step::Trainer,
};

impl Job<'_> {
    /// A job that is already paused frees nothing, and reports a duration of 0.
    pub(super) fn pause(
        &mut self,
        trainer: &mut Trainer,
        paused: &mut Option<Paused>,
    ) -> Result<(), Failure> {
        let Left { dur, bytes_freed } = match paused {
            Some(_) => Left { dur: Nanos::ZERO, bytes_freed: 0 },
            None => {
                let (away, left) = Paused::new(trainer)?;
                *paused = Some(away);
                left
            }
        };
        self.say(Event::Paused { dur_ns: dur, bytes_freed })
    }

    /// A job that is not paused moves nothing back.
    pub(super) fn resume(
        &mut self,
        trainer: &mut Trainer,
        paused: &mut Option<Paused>,
    ) -> Result<(), Failure> {
        let dur_ns = match paused.take() {
            Some(paused) => paused.resume(trainer)?,
            None => Nanos::ZERO,
        };
        self.say(Event::Resumed { dur_ns })
    }

    /// A failed checkpoint does not end the job.
    pub(super) fn checkpoint(&mut self, trainer: &Trainer, place: &Path) -> Result<(), Failure> {
        wait_for(trainer.device())?;
        let begin = Nanos::monotonic_now();
        let launch = self.launch.expect("a launch with a trainer trains");
        match save(place, &launch.training, trainer)? {
            Ok(bytes) => {
                let dur_ns = Nanos::monotonic_now() - begin;
                self.say(Event::Checkpointed { bytes, dur_ns })
            }
            Err(error) => self.say(Event::Refused { error: format!("no checkpoint was written: {error:#}") }),
        }
    }
}
