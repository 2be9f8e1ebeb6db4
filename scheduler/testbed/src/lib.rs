//! The devices of this machine: launches as processes, their checkpoints, and the recovery of a run whose scheduler has died.

pub mod checkpoints;
pub mod process;
pub mod recovery;
