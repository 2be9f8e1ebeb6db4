//! Continues a job from a checkpoint.

use std::{collections::HashMap, path::PathBuf};

use schema::{
    checkpoint::{Checkpoint, CheckpointError, CheckpointFile, Content},
    mesh::Mesh,
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
    failure::Failure, launch::training_seed, optimizer::Optimizer, shim::random::set_random_state,
    step::Trainer,
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

    /// Sets a trainer of the same job, under any plan, to this checkpoint. `seed` is that of the launch. It decides later
    /// random numbers unless the checkpoint does.
    ///
    /// # Errors
    /// `data` for a file that is missing or altered; `unsupported` for a model that has other tensors; or an
    /// error of the device. The trainer is unusable after an error.
    pub(crate) fn apply(&self, trainer: &mut Trainer, seed: u64) -> Result<(), Failure> {
        self.fill(Content::Model, model(trainer))?;
        self.fill(Content::Optimizer, optimizers(trainer))?;
        trainer.optimizers().try_for_each(Optimizer::reload_parameters)?;
        let data = trainer.data_mut().seek(self.checkpoint.samples);
        data.map_err(|error| Failure::unsupported(format!("{}: {error}", self.folder.display())))?;
        self.set_generators(trainer, seed)
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

    /// If the checkpoint was written by the same grid of ranks, each continues with its random state. Another grid draws
    /// differently and has no stored state, so that each rank starts from a new one.
    fn set_generators(&self, trainer: &Trainer, seed: u64) -> Result<(), Failure> {
        let (world, device) = (trainer.world(), trainer.device());
        // Sets all generators, because the checkpoint may lack one.
        tch::manual_seed(training_seed(seed, self.checkpoint.steps, world));
        if Mesh::of(&self.checkpoint.plan) != world.mesh {
            return Ok(());
        }
        let rank = world.mesh.rank(world.at);
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

/// The failure for an invalid checkpoint. A newer one may be valid, but this program cannot read it.
fn unbelievable(error: CheckpointError) -> Failure {
    let kind = match &error {
        CheckpointError::File(RunError::Newer { .. }) => FailureKind::Unsupported,
        _ => FailureKind::Data,
    };
    Failure::new(kind, error.to_string())
}
