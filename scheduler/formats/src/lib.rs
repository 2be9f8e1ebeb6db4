//! The formats that the scheduler alone writes: traces and imports of published ones, journals, outcomes, fitted models, clusters,
//! and the protocol of policies in other languages. Reports read some of them.
//!
//! An edit here rebuilds neither a worker nor the profiler.

#[cfg(test)]
#[path = "../../../workloads/schema/src/plan/any_plan.rs"]
mod any_plan;
mod covariance;

pub mod activity;
pub mod cluster;
pub mod decision;
pub mod exec;
pub mod fitted;
pub mod history;
pub mod import;
pub mod interference_fit;
pub mod loss_curve;
pub mod rows;
pub mod saved;
pub mod trace;
