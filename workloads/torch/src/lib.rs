//! The worker that trains real models in libtorch.
//!
//! It is told what to train by a [`schema::spec::LaunchSpec`], trains step by step as far as its grant goes, and says
//! what every step took. [`run`] keeps the protocol, [`step`] is what is measured, [`workload`] is what a model must
//! offer to be trained, and [`shim`] is what tch lacks of libtorch.

mod all_reduce;
pub mod capabilities;
mod checkpoint;
pub mod clock;
mod commands;
pub mod cuda;
pub mod data;
pub mod environments;
pub mod export;
pub mod failure;
pub mod footprint;
pub mod group;
pub mod launch;
pub mod models;
pub mod nn;
pub mod optimizer;
pub mod pause;
pub mod recompute;
pub mod run;
pub mod shapes;
pub mod shim;
pub mod step;
mod steps;
pub mod synchronize;
pub mod workload;
