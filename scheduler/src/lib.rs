//! Schedules training jobs. One engine runs the same policies on the devices of this machine and on a simulated cluster.
//!
//! Start reading at [`cluster`], the interface between the engine and a cluster; [`view`], the input of a policy; [`engine`], the main
//! loop; and [`launch`], the cluster whose jobs are launched as processes or simulated.

pub mod best_plan;
pub mod cluster;
pub mod cmd;
pub mod engine;
pub mod hindsight;
pub mod history;
pub mod inputs;
pub mod job;
pub mod journal;
pub mod launch;
pub mod legal_plans;
pub mod live;
pub mod measured;
pub mod models;
pub mod occupancy;
pub mod online;
pub mod parts;
pub mod policy;
pub mod rank_memory;
pub mod recorded;
pub mod replay;
pub mod sim;
pub mod sources;
pub mod testbed;
pub mod topology;
pub mod trace_generator;
pub mod view;
