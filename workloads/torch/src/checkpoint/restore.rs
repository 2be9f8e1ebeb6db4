//! Continues a job from a checkpoint.

use std::{collections::HashMap, path::PathBuf};

use fastrand::Rng;
use schema::{
    checkpoint::{Checkpoint, CheckpointError, CheckpointFile, Content},
    run_dir::RunError,
    spec::Training,
    wire::FailureKind,
};
use tch::Device;

use super::{
    CPU, CUDA, Named, model, optimizers,
    tensors::{DecodeError, decode, decode_into},
};
use crate::{
    failure::Failure, optimizer::Optimizer, shim::random::set_random_state, step::Trainer, workload::Share,
};

/// A checkpoint of this job whose manifest was read.
pub(crate) struct Restore {
    folder: PathBuf,
    checkpoint: Checkpoint,
}

impl Restore {
    /// The checkpoint that a launch continues from, if any. Reads the manifest alone, so that a checkpoint of another
    /// job is refused before anything is built.
    ///
    /// # Errors
    /// `data` for an incomplete or altered checkpoint; `unsupported` for one of another workload or global batch, and for one
    /// that a newer program wrote.
    pub(crate) fn of(training: &Training) -> Result<Option<Self>, Failure> {
        let Some(folder) = &training.restore else { return Ok(None) };
        let checkpoint = Checkpoint::read(folder).map_err(unbelievable)?;
        let Training { workload, global_batch, .. } = training;
        let (written, wanted) = (
            format!("{}@b{}", checkpoint.workload, checkpoint.global_batch),
            format!("{}@b{global_batch}", workload.name),
        );
        if written != wanted {
            return Err(Failure::unsupported(format!(
                "{}: is a checkpoint of {written}, and this job is {wanted}",
                folder.display()
            )));
        }
        Ok(Some(Self { folder: folder.clone(), checkpoint }))
    }

    /// Sets a trainer of the same job, under any plan, to this checkpoint, as the rank with `share`. `seed` is
    /// that of the launch. It decides later random numbers unless the checkpoint does.
    ///
    /// # Errors
    /// `data` for a file that is missing or altered; `unsupported` for a model that has other tensors; or an
    /// error of the device. The trainer is unusable after an error.
    pub(crate) fn apply(&self, trainer: &mut Trainer, share: Share, seed: u64) -> Result<(), Failure> {
        self.fill(Content::Model, model(trainer))?;
        self.fill(Content::Optimizer, optimizers(trainer))?;
        trainer.optimizers().try_for_each(Optimizer::reload_parameters)?;
        let data = trainer.data_mut().seek(self.checkpoint.samples);
        data.map_err(|error| Failure::unsupported(format!("{}: {error}", self.folder.display())))?;
        self.set_generators(trainer.device(), share, seed)
    }

    /// Overwrites `named` with the files of one content.
    fn fill(&self, content: Content, named: Named) -> Result<(), Failure> {
        let mut targets: HashMap<_, _> = named.into_iter().collect();
        for file in self.checkpoint.files.iter().filter(|file| file.content == content) {
            let bytes = self.read(file)?;
            decode_into(&mut targets, &bytes).map_err(|error| self.unfit(file, error))?;
        }
        // Any name will do; the minimum is the same in every run.
        match targets.keys().min() {
            None => Ok(()),
            Some(name) => Err(Failure::unsupported(format!(
                "{}: has no tensor {name}, which this job has",
                self.folder.display()
            ))),
        }
    }

    /// If the number of ranks is that of the checkpoint, each continues with its random state. Another
    /// number of ranks draws differently and has no stored state, so that each rank starts from a new one.
    fn set_generators(&self, device: Device, share: Share, seed: u64) -> Result<(), Failure> {
        let Checkpoint { steps, ranks: written, .. } = self.checkpoint;
        let Share { rank, ranks } = share;
        // Sets all generators, because the checkpoint may lack one.
        tch::manual_seed(fresh_seed(seed, steps, rank));
        if ranks != written {
            return Ok(());
        }
        let own = |file: &&CheckpointFile| file.content == Content::Random && file.rank == Some(rank);
        let Some(file) = self.checkpoint.files.iter().find(own) else {
            return Err(Failure::new(
                FailureKind::Data,
                format!("{}: holds no random state of rank {rank}", self.folder.display()),
            ));
        };
        for (name, state) in decode(&self.read(file)?).map_err(|error| self.unfit(file, error))? {
            match &*name {
                CPU => set_random_state(Device::Cpu, &state)?,
                // On another kind of device it is not used.
                CUDA if device.is_cuda() => set_random_state(device, &state)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&self, file: &CheckpointFile) -> Result<Vec<u8>, Failure> {
        Checkpoint::read_file(&self.folder, file).map_err(unbelievable)
    }

    fn unfit(&self, file: &CheckpointFile, error: DecodeError) -> Failure {
        let message = format!("{}: {error}", self.folder.join(&file.name).display());
        match error {
            DecodeError::Malformed(_) => Failure::new(FailureKind::Data, message),
            DecodeError::Unfit { .. } => Failure::unsupported(message),
            DecodeError::Torch(_) => Failure::classify(FailureKind::Internal, &message),
        }
    }
}

/// A seed from the launch's seed, the number of steps and the rank, so that no rank repeats the random
/// numbers of another one or of earlier steps.
fn fresh_seed(seed: u64, steps: u64, rank: u32) -> i64 {
    let mut rng = Rng::with_seed(seed);
    for number in [steps, u64::from(rank)] {
        rng = Rng::with_seed(rng.u64(..) ^ number);
    }
    rng.i64(..)
}

/// The failure for an invalid checkpoint. A newer one may be valid, but this program cannot read it.
fn unbelievable(error: CheckpointError) -> Failure {
    let kind = match &error {
        CheckpointError::File(RunError::Newer { .. }) => FailureKind::Unsupported,
        _ => FailureKind::Data,
    };
    Failure::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::fresh_seed;

    #[test]
    fn no_rank_and_no_step_has_the_seed_of_another() {
        let seeds: HashSet<_> = (0..10)
            .flat_map(|seed| (0..100).map(move |step| (seed, step)))
            .flat_map(|(seed, step)| (0..10).map(move |rank| fresh_seed(seed, step, rank)))
            .collect();
        assert_eq!(seeds.len(), 10 * 100 * 10);
        assert_eq!(fresh_seed(1, 2, 3), fresh_seed(1, 2, 3));
    }
}
