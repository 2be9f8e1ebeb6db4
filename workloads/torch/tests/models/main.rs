//! The models against published values and other implementations.

mod bert;
mod catalog;
mod dcgan;
mod deepspeech;
mod espcn;
mod exact;
mod gpt2;
mod llama;
mod mobile;
mod operations;
mod pointnet;
mod ppo;
mod reference;
mod resnet;
mod roberta;
mod support;
mod t5;
mod td3;
mod torchvision;
mod transformer;
mod vae;
mod vgg;
mod vit;
