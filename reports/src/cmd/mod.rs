//! The commands, each in a file of its own.

// `output` tolerates a closed pipe, and the macros of the standard library do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod compare;
mod history;
mod html;
mod progress;
mod serve;
mod splice;
mod table;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::{
    command_line::parse,
    quiet::Quiet,
    shell::{Completions, Man},
};
use rig::{Exit, limits};

/// Draws runs of `profile` and `sched`: a page, pictures, and the numbers behind them.
///
/// `report RUN...` writes a folder with an index.html that opens without a network, each figure as SVG and PNG, and the CSV behind
/// each. Several runs are shown together: those of the scheduler are compared with each other. A RUN that is a folder of runs stands
/// for all runs below it. A model of `sched fit --out`, and the table of `sched fit --duration`, are drawn, too.
///
/// Example: `report runs/pairs`
///
/// Example: `report runs/fifo runs/tiresias --out comparison`
///
/// Example: `report MODEL.json --out model`
///
/// Example: `report shapes.csv --out durations`
///
/// Exit codes: 0 all went well; 1 a cell is worse than `report compare --fail-above` allows, or `report splice --check` found a
/// difference; 2 wrong usage, or a directory that is no run; 4 nothing matched; 5 a file cannot be written or read; 7 the
/// measurements cannot tell whether every row is within `report compare --fail-above`; 130 interrupted.
#[derive(Parser)]
#[command(name = "report", version = revision::LONG_VERSION, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    html: html::Args,
    #[command(flatten)]
    quiet: Quiet,
}

#[derive(Subcommand)]
enum Command {
    Table(table::Args),
    Compare(compare::Args),
    History(history::Args),
    Splice(splice::Args),
    Serve(serve::Args),
    /// Print completions for a shell.
    ///
    /// Example: `report completions bash > ~/.local/share/bash-completion/completions/report`
    Completions(Completions),
    /// Write the manual pages.
    ///
    /// Example: `report man --out ~/.local/share/man/man1`
    Man(Man),
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let cli = parse::<Cli>();
    cli.quiet.apply();
    // If this fails, a file that is too large ends the program.
    let _ = limits::fail_at_file_size();
    let outcome = match cli.command {
        None => html::run(&cli.html),
        Some(Command::Table(args)) => table::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::History(args)) => history::run(&args),
        Some(Command::Splice(args)) => splice::run(&args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Completions(completions)) => completions.run(Cli::command()),
        Some(Command::Man(man)) => man.run(Cli::command()),
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
        assert!(command.render_long_help().to_string().contains("Example: `report runs/"));
        for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let name = sub.get_name().to_string();
            let help = sub.render_long_help().to_string();
            assert!(help.contains(&format!("report {name}")) && help.contains("Example"), "{name}: {help}");
        }
    }
}
