//! Checkpoints, from which a job continues under any plan and with any number of ranks.
//!
//! A checkpoint holds the tensors of the whole model under their names. A rank that holds a part of a tensor writes this part,
//! and the manifest says which one it is. Each number is written by one rank: see [`held`].
//!
//! `model-R-N.safetensors` hold parameters and buffers that rank R has written. `optimizer-R-N.safetensors` hold the
//! optimizers' state as `<update>.<kind>.<parameter>` (`all.momentum.conv1.weight`, and `all.step` for the number of updates).
//! Both are split into pieces, so that saving and restoring take little memory besides the tensors themselves.
//! `random-R.safetensors` holds the state of the generators of rank R, `cpu` and, on a GPU, `cuda`.
//! `data-0.safetensors` holds the state of a stream that a model makes by acting.
//! [`schema::checkpoint`] describes the manifest and how a checkpoint survives a kill.

mod held;
mod region;
pub(crate) mod restore;
pub(crate) mod save;
mod table;
mod targets;
mod tensors;

/// Names of generator states in the files of ranks.
const CPU: &str = "cpu";
const CUDA: &str = "cuda";

#[cfg(test)]
mod tests;
