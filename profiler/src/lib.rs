//! Measures training jobs: starts them, watches them and their devices, and writes what it saw.

pub mod blocks;
pub mod cells;
pub mod cmd;
pub mod derive;
pub mod device;
pub mod interrupt;
mod launch;
pub mod leash;
pub mod machine;
pub mod measure;
pub mod order;
pub mod overhead;
pub mod plans;
pub mod pool;
pub mod processes;
pub mod programs;
pub mod progress;
pub mod rig;
pub mod run;
pub mod sampler;
pub mod spin;
pub mod table;
pub mod usage;
pub mod warnings;
pub mod window;
