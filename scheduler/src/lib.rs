//! The program `sched`: it schedules training jobs. One engine runs the same policies on the devices of this machine and on a simulated
//! cluster.
//!
//! Start reading at [`online`], a run on the devices of this machine, and `cmd`, one file a command. The crate `engine` has the loop,
//! `policies` what decides, `launches` the cluster of launches and their simulation, and `testbed` launches as processes.

pub mod best_plan;
pub mod cmd;
pub mod decisions;
pub mod hindsight;
pub mod history;
pub mod inputs;
pub mod legal_plans;
pub mod live;
pub mod measured;
pub mod models;
pub mod online;
pub mod parts;
pub mod policy;
pub mod rank_memory;
pub mod sources;
pub mod trace_generator;
