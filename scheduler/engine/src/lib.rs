//! The loop of a scheduler, and what it works on.
//!
//! Start reading at [`cluster`], the interface between the engine and a cluster; [`view`], the input of a policy; [`policy`], the trait
//! of a policy; and [`Engine`], the loop.

pub mod cluster;
pub mod history;
pub mod job;
pub mod journal;
pub mod legal_plans;
pub mod occupancy;
pub mod policy;
pub mod replay;
mod run;
pub mod topology;
pub mod view;

pub use run::{Engine, Settings, run};
