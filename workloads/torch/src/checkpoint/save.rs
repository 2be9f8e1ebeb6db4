//! Writing a checkpoint.

use std::path::Path;

use anyhow::{Context, anyhow};
use schema::{
    FORMAT,
    checkpoint::{Checkpoint, CheckpointFile, Content, Draft},
    spec::Training,
};
use tch::Device;

use super::{
    CPU, CUDA, model, optimizers, random_file,
    tensors::{encode, pieces},
};
use crate::{failure::Failure, shim::random::random_state, step::Trainer};

/// One rank of a job, and how the ranks agree.
pub(crate) struct Peers<'a> {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Waits until every rank has come this far; whether all of them said yes.
    pub(crate) all: &'a mut dyn FnMut(bool) -> Result<bool, Failure>,
}

impl Peers<'_> {
    /// What this rank did, if all ranks did theirs.
    fn together<T>(&mut self, mine: anyhow::Result<T>) -> Result<anyhow::Result<T>, Failure> {
        let all = (self.all)(mine.is_ok())?;
        Ok(mine
            .and_then(|done| if all { Ok(done) } else { Err(anyhow!("another rank cannot write its part")) }))
    }

    fn is_first(&self) -> bool {
        self.rank == 0
    }
}

/// Writes a checkpoint of a job at rest to `place`, where nothing may be yet; all ranks call this together. Gives the bytes
/// that this rank has written, when the disk has the whole checkpoint. Where there is none in the end, the inner error says
/// why, and nothing has changed.
///
/// # Errors
/// When the ranks cannot agree, as one has gone: the job is at its end then.
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
    let saved = attempt(&draft, training, trainer, peers)?;
    if saved.is_err() && peers.is_first() {
        draft.discard();
    }
    Ok(saved)
}

fn attempt(
    draft: &Draft,
    training: &Training,
    trainer: &Trainer,
    peers: &mut Peers,
) -> Result<anyhow::Result<u64>, Failure> {
    let begun = place_in_data(training, trainer).and_then(|samples| {
        if peers.is_first() {
            draft.begin()?;
        }
        Ok(samples)
    });
    let samples = match peers.together(begun)? {
        Ok(samples) => samples,
        Err(error) => return Ok(Err(error)),
    };
    let written = match peers.together(write_part(draft, trainer, peers.rank))? {
        Ok(files) => files,
        Err(error) => return Ok(Err(error)),
    };
    let mut bytes = written.iter().map(|file| file.bytes).sum();
    let finished = if peers.is_first() {
        finish(draft, training, trainer, samples, written, peers.ranks).map(|manifest| bytes += manifest)
    } else {
        Ok(())
    };
    Ok(peers.together(finished)?.map(|()| bytes))
}

/// Samples that all ranks together have taken.
fn place_in_data(training: &Training, trainer: &Trainer) -> anyhow::Result<u64> {
    trainer.data().position().with_context(|| {
        format!(
            "{} cannot be saved: it makes its data by acting, and where its environment is cannot be kept",
            training.workload.name
        )
    })
}

/// Writes what this rank alone has, and for all what all have.
fn write_part(draft: &Draft, trainer: &Trainer, rank: u32) -> anyhow::Result<Vec<CheckpointFile>> {
    let mut files = Vec::new();
    if rank == 0 {
        for (content, prefix, named) in [
            (Content::Model, "model", model(trainer)),
            (Content::Optimizer, "optimizer", optimizers(trainer)),
        ] {
            for (number, piece) in pieces(&named).into_iter().enumerate() {
                let name = format!("{prefix}-{number}.safetensors");
                files.push(draft.write(name, content, None, &encode(piece)?)?);
            }
        }
    }
    let mut states = vec![(CPU.to_owned(), random_state(Device::Cpu)?)];
    let device = trainer.device();
    if device.is_cuda() {
        states.push((CUDA.to_owned(), random_state(device)?));
    }
    files.push(draft.write(random_file(rank), Content::Random, Some(rank), &encode(&states)?)?);
    Ok(files)
}

/// Writes the manifest, with the other ranks' files in it; gives its bytes.
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
        // A step takes one global batch, whatever the plan.
        steps: samples / u64::from(*global_batch),
        samples,
        files,
    })?)
}
