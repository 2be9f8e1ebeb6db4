//! One engine, many worlds: the same policy decides for real jobs on this machine's devices and for a simulated cluster.
//!
//! Start reading at [`cluster`], the seam between the two; [`view`], all that a policy is shown; and [`engine`], the one loop.

pub mod cluster;
pub mod cmd;
pub mod engine;
pub mod fidelity;
pub mod inputs;
pub mod job;
pub mod journal;
pub mod live;
pub mod occupancy;
pub mod online;
pub mod policy;
pub mod replay;
pub mod sim;
pub mod testbed;
pub mod topology;
pub mod totals;
pub mod trace_generator;
pub mod view;
