//! The models of the catalog, each a list of blocks, one file a family.

mod dcgan;
mod gpt2;
mod lstm;
mod neumf;
mod resnet;

use anyhow::bail;
use schema::catalog::{self, Model};
use tch::Device;

use crate::{
    nn::{
        loss::{binary_cross_entropy, cross_entropy},
        parameters::Parameters,
    },
    workload::{Sequential, Supervised, Workload},
};

/// Builds the model of a workload on `device`, with initial weights from torch's generator of the CPU.
///
/// # Errors
/// Out of memory; a size that the architecture does not allow; a model that is not ours to train.
pub fn build(workload: &catalog::Workload, device: Device) -> anyhow::Result<Box<dyn Workload>> {
    let optimizer = workload.optimizer;
    let mut parameters = Parameters::new(device);
    let root = parameters.root();
    let (blocks, criterion): (_, fn(&_, &_) -> _) = match &workload.model {
        Model::Resnet { block, layers, stem, classes, image: _ } => {
            (resnet::blocks(root, *block, *layers, *stem, *classes)?, cross_entropy)
        }
        Model::Gpt2 { vocabulary, context, layers, width, heads } => {
            if !width.is_multiple_of(*heads) {
                bail!("model.gpt2: width {width} is not a multiple of heads {heads}");
            }
            (gpt2::blocks(root, *vocabulary, *context, *layers, *width, *heads)?, cross_entropy)
        }
        Model::LstmLm { vocabulary, context: _, layers, width, dropout } => {
            (lstm::blocks(root, *vocabulary, *layers, *width, *dropout)?, cross_entropy)
        }
        Model::Neumf { users, items, factors, mlp } => {
            (neumf::blocks(root, *users, *items, *factors, mlp)?, binary_cross_entropy)
        }
        Model::Dcgan { .. } => {
            return Ok(Box::new(dcgan::Dcgan::new(parameters, &workload.model, optimizer)?));
        }
        Model::Synthetic(_) => bail!("workload '{}' is one of the program 'synthetic'", workload.name),
    };
    Ok(Box::new(Supervised::new(parameters, Sequential::new(blocks), criterion, optimizer)))
}
