//! Writes a checkpoint.

use std::path::Path;

use anyhow::{Context, anyhow};
use schema::{
    FORMAT,
    checkpoint::{Checkpoint, CheckpointFile, Content, Draft},
    spec::Training,
};
use tch::{Device, Tensor};

use super::{
    CPU, CUDA, Named, model, optimizers, random_file,
    tensors::{encode, pieces},
};
use crate::{failure::Failure, shim::random::random_state, step::Trainer};

/// One rank of a job, and a means for the ranks to agree.
pub(crate) struct Peers<'a> {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Waits until every rank has reached this point, and returns whether all of them said yes.
    pub(crate) all: &'a mut dyn FnMut(bool) -> Result<bool, Failure>,
}

/// The reason why there is no checkpoint.
enum Unsaved {
    /// A rank failed to do its part, and all of them know.
    Refused(anyhow::Error),
    /// The ranks cannot agree.
    Apart(Failure),
}

impl Peers<'_> {
    /// Returns the result of this rank if all ranks succeeded.
    fn together<T>(&mut self, mine: anyhow::Result<T>) -> Result<T, Unsaved> {
        let all = (self.all)(mine.is_ok()).map_err(Unsaved::Apart)?;
        let done = mine.map_err(Unsaved::Refused)?;
        if all { Ok(done) } else { Err(Unsaved::Refused(anyhow!("another rank cannot write its part"))) }
    }

    fn is_first(&self) -> bool {
        self.rank == 0
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
    peers: &mut Peers,
) -> Result<anyhow::Result<u64>, Failure> {
    let draft = match Draft::of(place) {
        Ok(draft) => draft,
        Err(error) => return Ok(Err(error.into())),
    };
    match write(&draft, training, trainer, peers) {
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

fn write(draft: &Draft, training: &Training, trainer: &Trainer, peers: &mut Peers) -> Result<u64, Unsaved> {
    let begun = place_in_data(training, trainer).and_then(|samples| {
        if peers.is_first() {
            draft.begin()?;
        }
        Ok(samples)
    });
    let samples = peers.together(begun)?;

    let mut files = Vec::new();
    for (content, prefix, named) in
        [(Content::Model, "model", model(trainer)), (Content::Optimizer, "optimizer", optimizers(trainer))]
    {
        // All ranks have the same pieces and agree after each one, so that no rank waits longer for the
        // first one than a piece takes, and no collective times out.
        for (number, piece) in pieces(&named).into_iter().enumerate() {
            let name = format!("{prefix}-{number}.safetensors");
            let file = peers.is_first().then(|| write_file(draft, name, content, None, piece));
            files.extend(peers.together(file.transpose())?);
        }
    }
    let rank = peers.rank;
    let own = random_states(trainer)
        .and_then(|states| write_file(draft, random_file(rank), Content::Random, Some(rank), &states));
    files.push(peers.together(own)?);

    let mut bytes = files.iter().map(|file| file.bytes).sum();
    let finished = if peers.is_first() {
        finish(draft, training, trainer, samples, files, peers.ranks).map(|manifest| bytes += manifest)
    } else {
        Ok(())
    };
    peers.together(finished)?;
    Ok(bytes)
}

/// Number of samples that all ranks together have taken.
fn place_in_data(training: &Training, trainer: &Trainer) -> anyhow::Result<u64> {
    trainer.data().position().with_context(|| {
        format!(
            "{} cannot be saved: it makes its data by acting, and where its environment is cannot be kept",
            training.workload.name
        )
    })
}

fn write_file(
    draft: &Draft,
    name: String,
    content: Content,
    rank: Option<u32>,
    tensors: &[(String, Tensor)],
) -> anyhow::Result<CheckpointFile> {
    Ok(draft.write(name, content, rank, &encode(tensors)?)?)
}

/// The state of the random generators of this rank.
fn random_states(trainer: &Trainer) -> anyhow::Result<Named> {
    let mut states = vec![(CPU.to_owned(), random_state(Device::Cpu)?)];
    let device = trainer.device();
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
        files.push(draft.adopt(random_file(rank), Content::Random, rank)?);
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
        files,
    })?)
}
