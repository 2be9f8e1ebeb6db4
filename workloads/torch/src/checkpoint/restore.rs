//! Continues a job from a checkpoint.

use std::path::PathBuf;

use schema::{
    checkpoint::{Checkpoint, CheckpointError, CheckpointFile, Content},
    files::RunError,
    mesh::Mesh,
    spec::Training,
    wire::FailureKind,
};
use tch::Device;

use super::{
    CPU, CUDA,
    held::{all_names, held},
    table,
    targets::Targets,
    tensors::{DecodeError, decode},
};
use crate::{
    failure::Failure, launch::training_seed, optimizer::Optimizer, shim::random::set_random_state,
    step::Trainer, stream_state::StreamState,
};

/// The first format whose manifest lists the tensors in each file.
const LISTED: u32 = 2;

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
    /// `data` for an incomplete or altered checkpoint; `unsupported` for one of another model, optimizer or global batch, and
    /// for one that a newer program wrote.
    pub(crate) fn of(training: &Training) -> Result<Option<Self>, Failure> {
        let Some(folder) = &training.restore else { return Ok(None) };
        let checkpoint = Checkpoint::read(folder).map_err(unbelievable)?;
        if let Some(reason) = checkpoint.refuses(training) {
            return Err(Failure::unsupported(format!("{}: {reason}", folder.display())));
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
        let (written, wanted) = (self.checkpoint.parameters, trainer.workload().parameters().count());
        if written != wanted {
            let differ = format!("is of a model of {written} parameters, and the job's has {wanted}");
            return Err(Failure::unsupported(format!("{}: {differ}", self.folder.display())));
        }
        self.fill(Content::Model, trainer)?;
        self.fill(Content::Optimizer, trainer)?;
        trainer.optimizers().try_for_each(Optimizer::reload_parameters)?;
        let state = self.stream_state()?;
        let data = trainer.data_mut();
        let continued = data.seek(self.checkpoint.samples).and_then(|()| data.set_state(&state));
        continued.map_err(|error| Failure::unsupported(format!("{}: {error:#}", self.folder.display())))?;
        self.set_generators(trainer, seed)
    }

    /// Copies what this rank holds of one content out of the files, each of which is read once or not at all. Besides what is
    /// held already, this takes the memory of one file and one of its tensors.
    fn fill(&self, content: Content, trainer: &Trainer) -> Result<(), Failure> {
        let of_content = |file: &&CheckpointFile| file.content == content;
        let files: Vec<_> = self.checkpoint.files.iter().filter(of_content).collect();
        let is_listed = self.checkpoint.format >= LISTED;
        if is_listed {
            let incomplete =
                |problem| Failure::new(FailureKind::Data, format!("{}: {problem}", self.folder.display()));
            table::check(&files).map_err(incomplete)?;
        }
        let mut targets = Targets::new(held(trainer, content), all_names(trainer, content))?;
        for file in files {
            let mut is_wanted = !is_listed;
            for stored in &file.tensors {
                is_wanted |= targets.want(stored).map_err(|error| self.unfit(file, error))?;
            }
            if is_wanted {
                let filled = targets.fill(file, &self.read(file)?, is_listed);
                filled.map_err(|error| self.unfit(file, error))?;
            }
        }
        match targets.first_without_values() {
            None => Ok(()),
            Some(name) => Err(Failure::unsupported(format!(
                "{}: has no tensor {name}, which this job has",
                self.folder.display()
            ))),
        }
    }

    /// The state of the stream of samples; empty for one that has none.
    fn stream_state(&self) -> Result<StreamState, Failure> {
        let mut tensors = Vec::new();
        for file in self.checkpoint.files.iter().filter(|file| file.content == Content::Data) {
            tensors.extend(decode(&self.read(file)?).map_err(|error| self.unfit(file, error))?);
        }
        Ok(StreamState::of(tensors))
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
            DecodeError::Malformed(_) | DecodeError::Wrong { .. } => Failure::new(FailureKind::Data, message),
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
