//! Checkpoints: all that a job goes on from, under any plan and by any number of ranks.
//!
//! A checkpoint names tensors and nothing of the plan that it was written under: `model-N.safetensors` hold parameters
//! and buffers under their own names, `optimizer-N.safetensors` what the optimizers remember of them, as
//! `<update>.<kind>.<parameter>` (`all.momentum.conv1.weight`, and `all.step` for the number of updates). Each is one of
//! several pieces, so that saving and restoring take little memory beside the tensors themselves. These are the same in
//! every rank, and the first writes them. `random-R.safetensors` holds where the generators of rank R are, `cpu` and, on a
//! GPU, `cuda`. [`schema::checkpoint`] says what else there is and how a kill is survived.

pub(crate) mod restore;
pub(crate) mod save;
mod tensors;

use tch::Tensor;

use crate::{optimizer::STEP, step::Trainer};

/// Tensors under the names that they have in a checkpoint; they share their memory with those that are trained.
type Named = Vec<(String, Tensor)>;

fn model(trainer: &Trainer) -> Named {
    let state = trainer.workload().parameters().state();
    state.map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone())).collect()
}

fn optimizers(trainer: &Trainer) -> Named {
    let workload = trainer.workload();
    let mut named = Named::new();
    for (update, optimizer) in workload.updates().iter().zip(trainer.optimizers()) {
        let parameters: Vec<_> =
            workload.parameters().trainable(update.parameter_prefix).map(|(name, _)| name).collect();
        for (kind, tensors) in optimizer.state() {
            if kind == STEP {
                named.extend(
                    tensors.iter().map(|count| (format!("{}.{STEP}", update.name), count.shallow_clone())),
                );
                continue;
            }
            assert_eq!(tensors.len(), parameters.len(), "there is one '{kind}' for each parameter");
            named.extend(parameters.iter().zip(tensors).map(|(parameter, tensor)| {
                (format!("{}.{kind}.{parameter}", update.name), tensor.shallow_clone())
            }));
        }
    }
    named
}

/// What the states of generators are called in the files of ranks.
const CPU: &str = "cpu";
const CUDA: &str = "cuda";

/// What the file with the random generators of `rank` is called.
fn random_file(rank: u32) -> String {
    format!("random-{rank}.safetensors")
}

#[cfg(test)]
mod tests;
