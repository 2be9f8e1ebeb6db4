//! What a workload takes, from the shapes of its tensors alone: nothing is drawn, computed or held, so a model that no
//! machine at hand can train is counted like any other.

use std::path::Path;

use anyhow::{bail, ensure};
use schema::{
    catalog::Workload,
    run_dir::read_spec,
    shapes::Shapes,
    spec::{LaunchSpec, Program},
};
use tch::{Device, TchError, Tensor};

use crate::{data, models, nn::flops, shim::meta, workload::Batch};

/// Counts the workload of a launch's spec.
///
/// # Errors
/// A file that is no spec; a command; else as [`of`].
pub fn of_launch(spec: &Path) -> anyhow::Result<Shapes> {
    let LaunchSpec { program, .. } = read_spec(spec)?;
    let Program::Training(training) = program else {
        bail!("{}: a command has no shapes; name the launch of a workload", spec.display());
    };
    of(&training.workload)
}

/// Builds the model and takes one sample through each of its losses.
///
/// # Errors
/// A model that is not ours to train, or an operation that does not allow the shapes it is given.
pub fn of(workload: &Workload) -> anyhow::Result<Shapes> {
    let model = models::build_shapes(workload)?;
    let batch = sample(workload)?;
    let mut forward = Vec::new();
    for update in 0..model.updates().len() {
        let (loss, operations) = flops::count(|| tch::no_grad(|| model.loss(update, &batch)));
        let shape = loss?.size();
        ensure!(shape.is_empty(), "the loss of '{}' is no scalar but {shape:?}", workload.name);
        forward.push(operations);
    }
    let parameters = model.parameters();
    Ok(Shapes {
        parameters: parameters.count(),
        buffers: parameters.buffers(),
        model_bytes: parameters.bytes(),
        flops_per_sample: step_operations(&forward)?,
    })
}

/// The shapes of one sample: the stream makes one, which is small, and its values are forgotten.
fn sample(workload: &Workload) -> anyhow::Result<Batch> {
    const ANY_SEED: u64 = 0;
    let sample = data::open(workload.model.samples(), None, ANY_SEED, Device::Cpu)?.next(1)?;
    let shape = |tensor: &Tensor| -> Result<Tensor, TchError> { meta::empty(&tensor.size(), tensor.kind()) };
    Ok(Batch { inputs: shape(&sample.inputs)?, targets: shape(&sample.targets)? })
}

/// The operations of a step, from those of the forward pass of each update.
fn step_operations(forward: &[u64]) -> anyhow::Result<u64> {
    match *forward {
        // A backward pass costs two forward passes.
        [forward] => Ok(3 * forward),
        // The first update runs D twice and G once, the second runs D on the same fake image; what else is
        // differentiated is written down in the model's file.
        [both, discriminator] => Ok(8 * discriminator + 3 * (both - 2 * discriminator)),
        _ => bail!("there is no formula for the operations of {} updates", forward.len()),
    }
}
