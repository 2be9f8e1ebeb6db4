//! The models against what is published of them, and against other implementations.

mod catalog;
mod dcgan;
mod gpt2;
mod llama;
mod mobile;
mod reference;
mod resnet;
mod support;
mod torchvision;
mod vgg;
