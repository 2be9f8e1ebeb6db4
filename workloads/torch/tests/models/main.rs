//! The models against what is published of them, and against other implementations.

mod catalog;
mod dcgan;
mod deepspeech;
mod espcn;
mod gpt2;
mod llama;
mod mobile;
mod operations;
mod pointnet;
mod reference;
mod resnet;
mod support;
mod torchvision;
mod vae;
mod vgg;
mod vit;
