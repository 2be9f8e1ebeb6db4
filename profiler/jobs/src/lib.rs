//! What a command line or a trace asks for: which jobs, under which plans, on which devices, with an estimate of their memory; and
//! the manifest of the run that is made of them.

pub mod catalog_programs;
pub mod cells;
pub mod command_line;
pub mod cores;
pub mod folder;
mod git;
pub mod launch;
pub mod machine;
pub mod manifest;
pub mod plans;
pub mod pool;
pub mod run;
pub mod software;
pub mod surroundings;
pub mod users_programs;
pub mod vary;
pub mod workload_lookup;
