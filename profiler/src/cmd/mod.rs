//! The commands, each in a file of its own.

// `output` tolerates a closed pipe, and the macros of the standard library do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod calibrate;
mod colocate;
mod compare;
mod derive;
mod doctor;
mod export;
mod list;
mod options;
mod program;
mod run_list;
mod runs;
mod single;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::{
    command_line::parse,
    quiet::Quiet,
    shell::{Completions, Man},
};
use rig::{Exit, interrupt, limits};

/// Measures deep-learning training jobs on the devices of this machine.
///
/// A job is written as `WORKLOAD[@bN][@PLAN][@on=DEVICE]`, for example `resnet50@b64@bf16@on=cuda:0`. A run leaves a directory
/// under runs/ whose tables pandas can read without options.
///
/// Exit codes: 0 all rows are ok; 1 a row failed or is missing, for example because --ci was not reached within the budget, or
/// --strict and the numbers are not to be quoted; 2 wrong usage, a bad definition, a single job that cannot run here, or a run whose
/// programs the user has not agreed to start; 3 the machine lacks something (`profile doctor` shows what); 4 nothing matched; 5 a file
/// cannot be written or read; 6 a device or its driver does not answer; 130 interrupted, 129 interrupted by a terminal that was closed.
#[derive(Parser)]
#[command(name = "profile", version = revision::LONG_VERSION, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    quiet: Quiet,
}

#[derive(Subcommand)]
enum Command {
    Single(single::Args),
    Colocate(colocate::Args),
    Compare(compare::Args),
    List(list::Args),
    Program(program::Args),
    Doctor(doctor::Args),
    Verify(verify::Args),
    Calibrate(calibrate::Args),
    Derive(derive::Args),
    Runs(run_list::Args),
    Export(export::Args),
    /// Print completions for a shell.
    ///
    /// Example: `profile completions bash > ~/.local/share/bash-completion/completions/profile`
    ///
    /// Example: `profile completions zsh > ~/.zfunc/_profile`
    Completions(Completions),
    /// Write the manual pages.
    ///
    /// Example: `profile man --out ~/.local/share/man/man1`
    Man(Man),
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let Cli { command, quiet } = parse();
    quiet.apply();
    // If this fails, a signal still ends the program, but without a message.
    let _ = interrupt::listen_early();
    // If this fails, a file that is too large ends the program.
    let _ = limits::fail_at_file_size();
    let outcome = match command {
        Command::Single(args) => single::run(&args),
        Command::Colocate(args) => colocate::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::List(args) => list::run(&args),
        Command::Program(args) => program::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Derive(args) => derive::run(&args),
        Command::Runs(args) => run_list::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    };
    Exit::after(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_well_formed_and_shows_an_example() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands_mut() {
            let name = sub.get_name().to_string();
            let help = sub.render_long_help().to_string();
            assert!(help.contains(&format!("profile {name}")) && help.contains("Example"), "{name}: {help}");
        }
    }

    #[test]
    fn a_run_that_goes_on_takes_no_option_of_one_that_begins() {
        let command = Cli::command();
        let taken = ["yes", "budget", "json", "strict", "columns", "wide", "vertical", "verbose"];
        for name in ["single", "colocate"] {
            let sub = command.find_subcommand(name).expect("there is such a command");
            let resume = sub.get_arguments().find(|arg| arg.get_id() == "resume").expect("it goes on");
            let refused = sub.get_arg_conflicts_with(resume);
            for arg in sub.get_arguments().filter(|arg| *arg != resume) {
                let id = arg.get_id().as_str();
                assert_eq!(refused.contains(&arg), !taken.contains(&id), "{name}: {id}");
            }
        }
    }
}
