//! The doors: one file a command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
pub use profiler::cmd::Exit;

/// Schedules training jobs, simulated and on the devices of this machine.
#[derive(Parser)]
#[command(name = "sched", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    match Cli::parse().command {}
}
