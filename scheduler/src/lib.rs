//! One engine, many worlds: the same policy decides for real jobs on this machine's devices and for a simulated cluster.
//!
//! Start reading at [`cluster`], the seam between the two, and [`view`], all that a policy is shown.

pub mod cluster;
pub mod cmd;
pub mod inputs;
pub mod job;
pub mod make;
pub mod occupancy;
pub mod policy;
pub mod topology;
pub mod view;
