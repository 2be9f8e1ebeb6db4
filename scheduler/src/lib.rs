//! One engine, many worlds: the same policy decides for real jobs on this machine's devices and for a simulated cluster.
//!
//! Start reading at [`cluster`], the seam between the two; [`view`], all that a policy is shown; and [`engine`], the one loop.

pub mod cluster;
pub mod engine;
pub mod job;
pub mod journal;
pub mod occupancy;
pub mod policy;
pub mod replay;
pub mod sim;
pub mod topology;
pub mod view;
