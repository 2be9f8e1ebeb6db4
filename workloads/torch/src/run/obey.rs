//! What a job at rest does that is told to leave its device, to come back, or to put itself on file.

use std::path::Path;

use schema::{units::Nanos, wire::Event};

use super::Job;
use crate::{
    checkpoint::save::{Peers, save},
    failure::Failure,
    pause::{Left, Paused},
    shim::transfer::wait_for,
    step::Trainer,
};

impl Job<'_> {
    /// A job that is paused already has nothing to free, and says so in no time.
    pub(super) fn pause(&mut self, trainer: &Trainer, paused: &mut Option<Paused>) -> Result<(), Failure> {
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

    /// One that is not paused has nothing to bring back.
    pub(super) fn resume(&mut self, paused: &mut Option<Paused>) -> Result<(), Failure> {
        let dur_ns = paused.take().map_or(Ok(Nanos::ZERO), Paused::resume)?;
        self.say(Event::Resumed { dur_ns })
    }

    /// A checkpoint that cannot be written is no reason for a job to end.
    pub(super) fn checkpoint(&mut self, trainer: &Trainer, place: &Path) -> Result<(), Failure> {
        wait_for(trainer.device())?;
        let begin = Nanos::monotonic_now();
        let mut alone = |ready| Ok(ready);
        let mut peers = Peers { rank: 0, ranks: 1, all: &mut alone };
        match save(place, &self.launch.training, trainer, &mut peers)? {
            Ok(bytes) => {
                let dur_ns = Nanos::monotonic_now() - begin;
                self.say(Event::Checkpointed { bytes, dur_ns })
            }
            Err(error) => self.say(Event::Refused { error: format!("no checkpoint was written: {error:#}") }),
        }
    }
}
