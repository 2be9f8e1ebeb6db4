//! The worker that trains real models in libtorch.
//!
//! A [`schema::spec::LaunchSpec`] defines the training. The worker trains step by step within its grant, and reports
//! the time of every step. [`run`] keeps the protocol, [`step`] is what is measured, [`workload`] is what a model must
//! offer to be trained, and [`shim`] has the parts of libtorch that tch lacks.

mod all_reduce;
pub mod capabilities;
pub mod chain;
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
mod parallel;
pub mod pause;
mod pipeline;
pub mod recompute;
pub mod run;
pub mod shapes;
pub mod shim;
pub mod step;
mod steps;
pub mod stream_state;
pub mod synchronize;
mod ties;
pub mod workload;
pub mod world;
mod zero;

/// The name of this program, under which the catalog lists what it trains.
pub(crate) const NAME: &str = "torch-worker";
