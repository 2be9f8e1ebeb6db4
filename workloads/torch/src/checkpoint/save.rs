//! Writes a checkpoint.

use std::path::Path;

use anyhow::{Context, anyhow};
use schema::{
    checkpoint::{Checkpoint, CheckpointFile, Content, Draft, FORMAT},
    spec::Training,
};
use tch::{Device, Kind, TchError, Tensor};

use super::{
    CPU, CUDA,
    held::{Held, held},
    tensors::{encode, pieces},
};
use crate::{
    failure::Failure, group::Reduction, launch::failed_collective, shim::random::random_state, step::Trainer,
    stream_state::StreamState, world::World,
};

/// The reason why there is no checkpoint.
enum Unsaved {
    /// A rank failed to do its part, and all of them know.
    Refused(anyhow::Error),
    /// The ranks cannot agree.
    Apart(Failure),
}

/// The ranks of a job, from the view of one.
struct Peers<'a> {
    world: &'a World,
    device: Device,
}

impl Peers<'_> {
    /// Waits until every rank has reached this point. Returns the result of this rank if all ranks succeeded, and whether any
    /// of them is to write another file.
    fn together<T>(&self, mine: anyhow::Result<T>, has_more: bool) -> Result<(T, bool), Unsaved> {
        let apart = |error: TchError| failed_collective(&format!("agreeing on a checkpoint: {error}"));
        let said = self.sum([mine.is_ok(), has_more]).map_err(|error| Unsaved::Apart(apart(error)))?;
        let done = mine.map_err(Unsaved::Refused)?;
        let [succeeded, with_more] = said;
        if succeeded == f64::from(self.ranks()) {
            Ok((done, with_more > 0.0))
        } else {
            Err(Unsaved::Refused(anyhow!("another rank cannot write its part")))
        }
    }

    /// For each answer, the number of ranks that said yes.
    fn sum(&self, answers: [bool; 2]) -> Result<[f64; 2], TchError> {
        let counts = Tensor::f_from_slice(&answers.map(|yes| f32::from(u8::from(yes))))?.f_to(self.device)?;
        self.world.all.all_reduce(&counts, Reduction::Sum)?.wait()?;
        let counts = counts.f_to_kind(Kind::Double)?;
        Ok([counts.f_double_value(&[0])?, counts.f_double_value(&[1])?])
    }

    fn rank(&self) -> u32 {
        self.world.mesh.rank(self.world.at)
    }

    fn ranks(&self) -> u32 {
        self.world.mesh.ranks()
    }

    fn is_first(&self) -> bool {
        self.rank() == 0
    }
}

/// Writes a checkpoint of a job at rest to `place`, which must be free; all ranks call this together. Returns the bytes
/// that this rank has written, when the whole checkpoint is on disk. If there is none in the end, the inner error gives
/// the reason, and nothing has changed.
///
/// # Errors
/// The ranks cannot agree because one of them has gone. This ends the job.
pub(crate) fn save(
    place: &Path,
    training: &Training,
    trainer: &Trainer,
) -> Result<anyhow::Result<u64>, Failure> {
    let peers = Peers { world: trainer.world(), device: trainer.device() };
    let draft = match Draft::of(place) {
        Ok(draft) => draft,
        Err(error) => return Ok(Err(error.into())),
    };
    match write(&draft, training, trainer, &peers) {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(Unsaved::Refused(error)) => {
            if peers.is_first() {
                draft.discard();
            }
            Ok(Err(error))
        }
        Err(Unsaved::Apart(failure)) => Err(failure),
    }
}

fn write(draft: &Draft, training: &Training, trainer: &Trainer, peers: &Peers) -> Result<u64, Unsaved> {
    let begun = place_in_data(training, trainer).and_then(|samples| {
        let state = trainer.data().state()?;
        if peers.is_first() {
            draft.begin()?;
        }
        Ok((samples, state))
    });
    let ((samples, state), _) = peers.together(begun, true)?;

    // All ranks agree after each file, so that no rank waits longer for another one than a file takes, and no collective
    // times out.
    let rank = peers.rank();
    let mut planned = planned(trainer, state, rank).into_iter().peekable();
    let mut files = Vec::new();
    loop {
        let written = planned.next().map(|file| file.write(draft, rank, trainer.device())).transpose();
        let (file, has_more) = peers.together(written, planned.peek().is_some())?;
        files.extend(file);
        if !has_more {
            break;
        }
    }

    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let left = if peers.is_first() { Ok(()) } else { draft.leave_list(rank, files.clone()) };
    peers.together(left.map_err(Into::into), false)?;
    let finished = if peers.is_first() {
        finish(draft, training, trainer, samples, files, peers.ranks())
    } else {
        Ok(0)
    };
    let (of_manifest, _) = peers.together(finished, false)?;
    Ok(bytes + of_manifest)
}

/// Number of samples that all ranks together have taken.
fn place_in_data(training: &Training, trainer: &Trainer) -> anyhow::Result<u64> {
    let position = trainer.data().position();
    position.with_context(|| format!("{} cannot be saved: its data has no position", training.workload.name))
}

/// A file that a rank is going to write.
enum Planned {
    Tensors { name: String, content: Content, tensors: Vec<Held> },
    Data { name: String, state: Vec<(String, Tensor)> },
    Random { name: String },
}

/// The files of a rank: what no other rank writes of the model and the optimizer, the state of a stream, which only a job of one
/// rank can have, and the random generators.
fn planned(trainer: &Trainer, state: StreamState, rank: u32) -> Vec<Planned> {
    let mut files = Vec::new();
    for (content, prefix) in [(Content::Model, "model"), (Content::Optimizer, "optimizer")] {
        let written = held(trainer, content).into_iter().filter(|held| held.is_written).collect();
        for (number, tensors) in pieces(written).into_iter().enumerate() {
            let name = format!("{prefix}-{rank}-{number}.safetensors");
            files.push(Planned::Tensors { name, content, tensors });
        }
    }
    let state = state.into_tensors();
    if !state.is_empty() {
        files.push(Planned::Data { name: format!("data-{rank}.safetensors"), state });
    }
    files.push(Planned::Random { name: format!("random-{rank}.safetensors") });
    files
}

impl Planned {
    fn write(self, draft: &Draft, rank: u32, device: Device) -> anyhow::Result<CheckpointFile> {
        let (name, content, named, tensors) = match self {
            Planned::Random { name } => (name, Content::Random, random_states(device)?, Vec::new()),
            Planned::Data { name, state } => (name, Content::Data, state, Vec::new()),
            Planned::Tensors { name, content, tensors } => {
                let named = |Held { stored, tensor, .. }: Held| ((stored.name.clone(), tensor), stored);
                let (named, stored): (Vec<_>, _) = tensors.into_iter().map(named).unzip();
                (name, content, named, stored)
            }
        };
        let file = draft.write(name, content, Some(rank), &encode(&named)?)?;
        Ok(CheckpointFile { tensors, ..file })
    }
}

/// The state of the random generators of this rank.
fn random_states(device: Device) -> anyhow::Result<Vec<(String, Tensor)>> {
    let mut states = vec![(CPU.to_owned(), random_state(Device::Cpu)?)];
    if device.is_cuda() {
        states.push((CUDA.to_owned(), random_state(device)?));
    }
    Ok(states)
}

/// Writes the manifest, including the other ranks' files, and returns its size.
fn finish(
    draft: &Draft,
    training: &Training,
    trainer: &Trainer,
    samples: u64,
    mut files: Vec<CheckpointFile>,
    ranks: u32,
) -> anyhow::Result<u64> {
    for rank in 1..ranks {
        files.extend(draft.take_list(rank)?);
    }
    let Training { workload, global_batch, plan, .. } = training;
    Ok(draft.finish(&Checkpoint {
        format: FORMAT,
        workload: workload.name.clone(),
        parameters: trainer.workload().parameters().count(),
        global_batch: *global_batch,
        plan: *plan,
        ranks,
        // A step takes one global batch under every plan.
        steps: samples / u64::from(*global_batch),
        samples,
        optimizer: Some(workload.optimizer),
        model: Some(workload.model.clone()),
        files,
    })?)
}
