//! The models of the catalog, each a list of blocks, one file a family.

mod bert;
mod dcgan;
mod deepspeech;
mod efficientnet;
mod espcn;
mod gpt2;
mod inverted_residual;
mod llama;
mod lstm_lm;
mod mobilenet_v2;
mod mobilenet_v3;
mod neumf;
mod pointnet;
mod post_norm;
mod ppo;
mod pre_norm;
mod resnet;
mod roberta;
mod t5;
mod td3;
mod transformer;
mod vae;
mod vgg;
mod vit;

use anyhow::bail;
use schema::catalog::{self, Model};
use tch::Device;

use crate::{nn::parameters::Parameters, workload::Workload};

/// Builds the model of a workload on `device`, with initial weights from torch's generator of the CPU.
///
/// # Errors
/// Out of memory; a size that the architecture does not allow; a model that is not ours to train.
pub fn build(workload: &catalog::Workload, device: Device) -> anyhow::Result<Box<dyn Workload>> {
    build_in(workload, Parameters::new(device))
}

/// Builds the model of a workload without memory and without values, however large it is.
///
/// # Errors
/// A size that the architecture does not allow; a model that is not ours to train.
pub fn build_shapes(workload: &catalog::Workload) -> anyhow::Result<Box<dyn Workload>> {
    build_in(workload, Parameters::shapes_only())
}

/// Builds the model of a workload, or the part of it that a rank holds, in an empty registry.
///
/// # Errors
/// As [`build`].
pub fn build_in(workload: &catalog::Workload, parameters: Parameters) -> anyhow::Result<Box<dyn Workload>> {
    if let Some(problem) = workload.model.problem() {
        bail!(problem);
    }
    let optimizer = workload.optimizer;
    Ok(match &workload.model {
        Model::Bert(model) => Box::new(bert::build(model, parameters, optimizer)?),
        Model::Dcgan(model) => Box::new(dcgan::build(model, parameters, optimizer)?),
        Model::Deepspeech(model) => Box::new(deepspeech::build(model, parameters, optimizer)?),
        Model::Efficientnet(model) => Box::new(efficientnet::build(model, parameters, optimizer)?),
        Model::Espcn(model) => Box::new(espcn::build(model, parameters, optimizer)?),
        Model::Gpt2(model) => Box::new(gpt2::build(model, parameters, optimizer)?),
        Model::Llama(model) => Box::new(llama::build(model, parameters, optimizer)?),
        Model::LstmLm(model) => Box::new(lstm_lm::build(model, parameters, optimizer)?),
        Model::MobilenetV2(model) => Box::new(mobilenet_v2::build(model, parameters, optimizer)?),
        Model::MobilenetV3(model) => Box::new(mobilenet_v3::build(model, parameters, optimizer)?),
        Model::Neumf(model) => Box::new(neumf::build(model, parameters, optimizer)?),
        Model::Pointnet(model) => Box::new(pointnet::build(model, parameters, optimizer)?),
        Model::Ppo(model) => Box::new(ppo::build(model, parameters, optimizer)?),
        Model::Resnet(model) => Box::new(resnet::build(model, parameters, optimizer)?),
        Model::Roberta(model) => Box::new(roberta::build(model, parameters, optimizer)?),
        Model::Td3(model) => Box::new(td3::build(model, parameters, optimizer)?),
        Model::Vae(model) => Box::new(vae::build(model, parameters, optimizer)?),
        Model::Vgg(model) => Box::new(vgg::build(model, parameters, optimizer)?),
        Model::Vit(model) => Box::new(vit::build(model, parameters, optimizer)?),
        Model::Stress(_) | Model::Synthetic(_) => {
            bail!("workload '{}' is one of the program 'synthetic'", workload.name)
        }
        Model::T5(model) => Box::new(t5::build(model, parameters, optimizer)?),
        Model::Transformer(model) => Box::new(transformer::build(model, parameters, optimizer)?),
    })
}
