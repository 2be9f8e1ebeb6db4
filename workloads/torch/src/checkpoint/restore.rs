//! Going on from a checkpoint.

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

/// A checkpoint of this job, of which the manifest was read.
pub(crate) struct Restore {
    folder: PathBuf,
    checkpoint: Checkpoint,
}

impl Restore {
    /// The checkpoint that a launch goes on from, if it goes on from one. Reads the manifest alone, so that one of another
    /// job is refused before anything is built.
    ///
    /// # Errors
    /// `data` for what is no whole checkpoint; `unsupported` for one of another workload or global batch, and for one that
    /// a newer program wrote.
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

    /// Lets a trainer that was built for the same job, under whatever plan, go on from here as the rank that has `share`. `seed` is
    /// that of the launch: it decides what is drawn from here on where the checkpoint does not.
    ///
    /// # Errors
    /// `data` for a file that is missing or not what was written; `unsupported` for a model that has other tensors; or an
    /// error of the device. The trainer is of no use then.
    pub(crate) fn apply(&self, trainer: &mut Trainer, share: Share, seed: u64) -> Result<(), Failure> {
        self.fill(Content::Model, model(trainer))?;
        self.fill(Content::Optimizer, optimizers(trainer))?;
        trainer.optimizers().try_for_each(Optimizer::reload_parameters)?;
        let data = trainer.data_mut().seek(self.checkpoint.samples);
        data.map_err(|error| Failure::unsupported(format!("{}: {error}", self.folder.display())))?;
        self.set_generators(trainer.device(), share, seed)
    }

    /// Overwrites `named` by what the files of one content hold.
    fn fill(&self, content: Content, named: Named) -> Result<(), Failure> {
        let mut targets: HashMap<_, _> = named.into_iter().collect();
        for file in self.checkpoint.files.iter().filter(|file| file.content == content) {
            let bytes = self.read(file)?;
            decode_into(&mut targets, &bytes).map_err(|error| self.unfit(file, error))?;
        }
        // Any of them will do, and the first in order is the same one in every try.
        match targets.keys().min() {
            None => Ok(()),
            Some(name) => Err(Failure::unsupported(format!(
                "{}: has no tensor {name}, which this job has",
                self.folder.display()
            ))),
        }
    }

    /// As many ranks as wrote the checkpoint go on where each of them was. Another number of ranks has other draws to make,
    /// and where their generators would be is not on file: each rank then begins anew.
    fn set_generators(&self, device: Device, share: Share, seed: u64) -> Result<(), Failure> {
        let Checkpoint { steps, ranks: written, .. } = self.checkpoint;
        let Share { rank, ranks } = share;
        // All generators, of which there may be one that the writer did not have.
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
                // Another kind of device has no use for it.
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

/// A seed that the launch's seed, the steps done and the rank decide, so that no rank draws what another one does, nor what
/// was drawn in earlier steps.
fn fresh_seed(seed: u64, steps: u64, rank: u32) -> i64 {
    let mut rng = Rng::with_seed(seed);
    for number in [steps, u64::from(rank)] {
        rng = Rng::with_seed(rng.u64(..) ^ number);
    }
    rng.i64(..)
}

/// A file that cannot be believed; a newer one may be whole, and is not for this program.
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
