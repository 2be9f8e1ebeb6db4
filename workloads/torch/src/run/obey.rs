//! Commands to a job at rest: pause, resume and checkpoint.

use std::path::Path;

use schema::{units::Nanos, wire::Event};
use tch::{Device, Kind, Tensor};

use super::Job;
use crate::{
    checkpoint::save::{Peers, save},
    failure::Failure,
    group::{Group, Reduction},
    launch::failed_collective,
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
        let mut all = |ready| all_are(ready, &self.group, trainer.device());
        let (rank, ranks) = (launch.rank, launch.mesh.ranks());
        let mut peers = Peers { rank, ranks, all: &mut all };
        match save(place, &launch.training, trainer, &mut peers)? {
            Ok(bytes) => {
                let dur_ns = Nanos::monotonic_now() - begin;
                self.say(Event::Checkpointed { bytes, dur_ns })
            }
            Err(error) => self.say(Event::Refused { error: format!("no checkpoint was written: {error:#}") }),
        }
    }
}

/// Waits for all ranks, and returns whether each of them is ready.
fn all_are(ready: bool, group: &Group, device: Device) -> Result<bool, Failure> {
    let count = Tensor::f_full([1], f64::from(u8::from(ready)), (Kind::Float, device))?;
    let counted = group.all_reduce(&count, Reduction::Sum).and_then(|work| work.wait());
    counted.map_err(|error| failed_collective(&format!("agreeing on a checkpoint: {error}")))?;
    Ok(count.f_double_value(&[0])? == f64::from(group.size()))
}
