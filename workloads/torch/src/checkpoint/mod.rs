//! Checkpoints, from which a job continues under any plan and with any number of ranks.
//!
//! A checkpoint names tensors but nothing of the plan that it was written under. `model-N.safetensors` hold
//! parameters and buffers under their own names. `optimizer-N.safetensors` hold the optimizers' state as
//! `<update>.<kind>.<parameter>` (`all.momentum.conv1.weight`, and `all.step` for the number of updates).
//! Both are split into pieces, so that saving and restoring take little memory besides the tensors
//! themselves. Their content is the same in every rank, and the first rank writes it.
//! `random-R.safetensors` holds the state of the generators of rank R, `cpu` and, on a GPU, `cuda`.
//! [`schema::checkpoint`] describes the other files and how a checkpoint survives a kill.

pub(crate) mod restore;
pub(crate) mod save;
mod tensors;

use tch::Tensor;

use crate::{nn::parameters::Entry, optimizer::STEP, step::Trainer};

/// Tensors under their names in a checkpoint. They share their memory with the trained ones.
type Named = Vec<(String, Tensor)>;

fn model(trainer: &Trainer) -> Named {
    let state = trainer.workload().parameters().state();
    state.map(|entry| (entry.name().to_owned(), entry.tensor().shallow_clone())).collect()
}

fn optimizers(trainer: &Trainer) -> Named {
    let workload = trainer.workload();
    let mut named = Named::new();
    for (update, optimizer) in workload.updates().iter().zip(trainer.optimizers()) {
        let parameters: Vec<_> =
            workload.parameters().trainable(update.parameter_prefix).map(Entry::name).collect();
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

/// Names of generator states in the files of ranks.
const CPU: &str = "cpu";
const CUDA: &str = "cuda";

/// The name of the file with the random generators of `rank`.
fn random_file(rank: u32) -> String {
    format!("random-{rank}.safetensors")
}

#[cfg(test)]
mod tests;
