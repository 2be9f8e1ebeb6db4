//! Exports the initial state of a launch, so that another program can train the same model on the same
//! data.

use std::path::Path;

use anyhow::Context;
use schema::mesh::{Coordinates, Mesh};
use tch::Tensor;

use crate::{
    launch::{Built, Launch},
    world::World,
};

/// Writes the initial parameters and buffers to `initial`, and the micro-batches of the first steps to `data`.
///
/// Both come from the code and the seed of the training itself. For a launch of several ranks, the data is that of `rank`.
///
/// # Errors
/// The launch cannot run here, or a file cannot be written.
pub fn export(
    spec: &Path,
    rank: u32,
    initial: Option<&Path>,
    data: Option<(&Path, u64)>,
) -> anyhow::Result<()> {
    let mut launch = Launch::read(spec, rank)?;
    // The whole model, and the samples of the rank: what the plan divides otherwise does not matter here.
    launch.execution.zero = 0;
    let Coordinates { data: rank, .. } = launch.mesh.coordinates(rank);
    let world = World::absent(Mesh { tensor: 1, stages: 1, ..launch.mesh }, rank);
    let Built { mut trainer, .. } = launch.build(world)?;
    if let Some(file) = initial {
        let state = trainer.workload().parameters().state();
        let tensors: Vec<_> =
            state.map(|entry| (entry.name().to_owned(), entry.tensor().contiguous())).collect();
        write(file, &tensors)?;
    }
    if let Some((file, steps)) = data {
        let mut tensors = Vec::new();
        for index in 0..steps * launch.execution.micro_batches as u64 {
            let batch = trainer.next_batch()?;
            tensors.push((format!("inputs.{index}"), batch.inputs.contiguous()));
            tensors.push((format!("targets.{index}"), batch.targets.contiguous()));
        }
        write(file, &tensors)?;
    }
    Ok(())
}

fn write(file: &Path, tensors: &[(String, Tensor)]) -> anyhow::Result<()> {
    Tensor::write_safetensors(tensors, file).with_context(|| format!("cannot write {}", file.display()))
}
