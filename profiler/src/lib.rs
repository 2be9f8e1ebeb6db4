//! Measures training jobs: starts them, watches them and their devices, and writes what it saw.

pub mod agree;
pub mod blocks;
pub mod calibrate;
pub mod cells;
pub mod cmd;
pub mod cores;
pub mod derive;
pub mod export;
pub mod fastest;
pub mod follow;
pub mod groups;
pub mod machine;
pub mod named;
pub mod order;
pub mod overhead;
pub mod plans;
pub mod pool;
pub mod progress;
pub mod readings;
pub mod run;
pub mod shell;
pub mod spin;
pub mod table;
pub mod transfers;
pub mod warnings;
pub mod window;
