//! Measures training jobs: starts them, observes them and their devices, and writes the results.

pub mod blocks;
pub mod calibrate;
pub mod cmd;
pub mod core_contention;
pub mod cores;
pub mod definition;
pub mod derive;
pub mod export;
pub mod fastest;
pub mod follow;
pub mod groups;
pub mod measure;
pub mod operators_table;
pub mod order;
pub mod overhead;
pub mod progress;
pub mod readings;
pub mod run_tables;
pub(crate) mod running;
pub mod transfers;
pub mod warnings;
pub mod window;
