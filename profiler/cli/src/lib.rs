//! What the command lines of `profile` and `sched` have in common.

pub mod agree;
pub mod command_line;
pub mod heading;
pub mod options;
pub mod progress;
pub mod quiet;
pub mod shell;
pub mod table;
