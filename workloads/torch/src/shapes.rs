//! The sizes of a workload from the shapes of its tensors alone. Nothing is computed or allocated, so that
//! a model is counted even if no available machine can train it.

use std::path::Path;

use anyhow::{bail, ensure};
use schema::{
    catalog::{Samples, Workload},
    shapes::Shapes,
    spec::{LaunchSpec, Program, read_spec},
};
use tch::{Device, TchError, Tensor};

use crate::{data, models, nn::flops, shim::meta, workload::Batch};

/// Counts the workload of a launch's spec.
///
/// # Errors
/// A file that is no spec, or one of a launch that trains nothing; else as [`of`].
pub fn of_launch(spec: &Path) -> anyhow::Result<Shapes> {
    let LaunchSpec { program, .. } = read_spec(spec)?;
    let Program::Training(training) = program else {
        bail!("{}: it trains nothing that has shapes; name the launch of a workload", spec.display());
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
        flops_per_sample: model.step_operations(&forward),
    })
}

/// The shapes of a micro-batch's inputs.
pub(crate) fn inputs(workload: &Workload, samples: i64) -> anyhow::Result<Tensor> {
    let Batch { inputs, .. } = sample(workload)?;
    let mut shape = inputs.size();
    shape[0] = samples;
    Ok(meta::empty(&shape, inputs.kind())?)
}

/// The shapes of one sample. The stream makes one, which is small, and its values are dropped.
fn sample(workload: &Workload) -> anyhow::Result<Batch> {
    const ANY_SEED: u64 = 0;
    let samples = workload.model.samples();
    let mut stream = if samples == Samples::Transitions {
        // Samples of a model that acts require a model with values; these models are small.
        data::of(&*models::build(workload, Device::Cpu)?, samples, None, ANY_SEED, Device::Cpu)?
    } else {
        data::open(samples, None, ANY_SEED, Device::Cpu)?
    };
    let sample = stream.next(1)?;
    let shape = |tensor: &Tensor| -> Result<Tensor, TchError> { meta::empty(&tensor.size(), tensor.kind()) };
    Ok(Batch { inputs: shape(&sample.inputs)?, targets: shape(&sample.targets)? })
}
