//! The devices of this machine: launches as processes, their checkpoints, the recovery of a run whose scheduler has died, and
//! launches whose steps are skipped.

pub mod checkpoints;
pub mod fast_forward;
pub mod process;
pub mod recovery;
