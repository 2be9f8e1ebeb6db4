//! The commands of `sched`. Each has a file of its own.

// `output` handles a reader that is gone. The macros do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod explain;
mod fidelity;
mod fit;
mod forward;
mod plan;
mod policies;
mod predict;
mod replay;
mod rules;
mod run;
mod sim;
mod trace;

use std::{path::Path, process::ExitCode, time::Duration};

use clap::{CommandFactory as _, Parser, Subcommand};
use cli::{
    agree::{Consent, Yes},
    command_line::parse,
    progress,
    quiet::Quiet,
    shell::{Completions, Man},
};
use formats::decision::{self, Turn};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use record::{manifest::Manifest, run_dir::RunDir};
use rig::{Exit, interrupt, limits};

use self::policies::PolicyNames;
use crate::{
    online::{self, RunInputs},
    policy,
};

/// Schedules training jobs, simulated and on the devices of this machine.
///
/// Jobs come from a trace, a CSV file with one line for each job, in which they are spelled as for `profile`. The same policies
/// decide for real jobs and on a simulated cluster, so that the result of a run can be compared with its prediction.
///
/// Exit codes: 0 all rows are ok; 1 some row failed, jobs wait for ever, a turn was decided otherwise (`replay`), the error is
/// larger than the limits (`fidelity --again`), or a workload has too few rows (`fit`); 2 usage, a file that does not exist, a bad
/// definition, a bad trace, or a run whose programs the user has not agreed to start; 3 the machine lacks something (`profile doctor`
/// says what); 4 there are no jobs, no decisions yet, nothing that gives the answer (`predict`), or no plan that fits (`plan`); 5 a
/// file cannot be written or read; 6 a device or its driver does not answer; 130 interrupted, 129 by a terminal that was closed.
#[derive(Parser)]
#[command(name = "sched", version = revision::LONG_VERSION, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    quiet: Quiet,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Sim(sim::Args),
    Replay(replay::Args),
    Explain(explain::Args),
    Fidelity(fidelity::Args),
    Trace(trace::Args),
    Fit(fit::Args),
    Predict(predict::Args),
    Plan(plan::Args),
    Policies(policies::Args),
    /// Print completions for a shell.
    ///
    /// Example: `sched completions bash > ~/.local/share/bash-completion/completions/sched`
    ///
    /// Example: `sched completions zsh > ~/.zfunc/_sched`
    Completions(Completions),
    /// Write the manual pages.
    ///
    /// Example: `sched man --out ~/.local/share/man/man1`
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
        Command::Run(args) => run::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Fidelity(args) => fidelity::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Predict(args) => predict::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Policies(args) => policies::run(&args),
        Command::Completions(completions) => completions.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    };
    Exit::after(outcome)
}

/// Checks that the trace has jobs.
///
/// # Errors
/// Fails if the trace has no jobs.
fn some_jobs(inputs: &RunInputs, trace: &Path) -> anyhow::Result<()> {
    match inputs.asked.is_empty() {
        true => Err(Exit::NothingMatched.because(format!("{} has no jobs", trace.display()))),
        false => Ok(()),
    }
}

/// Reads the inputs and the decisions of a run, of which there is at least one.
///
/// # Errors
/// Fails if the path is no run of `sched`, if one of its files cannot be read, and if the run has no decisions.
fn recorded(path: &Path) -> anyhow::Result<(RunInputs, Vec<Turn>)> {
    let run = RunDir::open(path)?;
    let inputs = RunInputs::read(&run)?;
    if !run.decisions_path().is_file() {
        let is_simulated = online::scheduling(&inputs.manifest)?.simulated.is_some();
        let again = if is_simulated { "simulate its trace again with --journal" } else { "put it back" };
        return Err(Exit::NothingMatched.because(format!(
            "{} has no decisions.jsonl; {again}, or name a run that has one",
            path.display()
        )));
    }
    let turns = decision::read(&run.decisions_path())?;
    match turns.is_empty() {
        true => Err(Exit::NothingMatched.because(format!("{} has no decisions yet", path.display()))),
        false => Ok((inputs, turns)),
    }
}

/// The context of an error of a replay, with the files that it may come from.
fn not_repeated(run: &Path) -> String {
    format!("{}: the decisions in decisions.jsonl cannot be made again from inputs/trace.csv", run.display())
}

/// Asks for the consent to start the policy of a run, if that is a program.
///
/// # Errors
/// Fails if it is not a run of `sched`, and if the user does not agree.
fn consent(yes: &Yes, manifest: &Manifest) -> anyhow::Result<Consent> {
    let policy = policy::program(&online::scheduling(manifest)?.policy);
    yes.to_start(policy.map(str::to_owned).into_iter())
}

/// Shows a spinner with a message on a terminal until it is dropped.
fn busy(with: String) -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, progress::target());
    let spinner = spinner
        .with_style(ProgressStyle::default_spinner())
        .with_message(with)
        .with_finish(ProgressFinish::AndClear);
    progress::tick(&spinner);
    spinner
}

/// Parses an argument that is a number above 0.
fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| format!("'{text}' is not a number above 0"))
}

/// Parses an argument that is a time above 0.
fn above_zero(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err("write a time above 0, such as 30s".into()),
        Err(error) => Err(error.to_string()),
    }
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
            assert!(help.contains(&format!("sched {name}")) && help.contains("Example"), "{name}: {help}");
        }
    }

    #[test]
    fn a_run_that_goes_on_takes_no_option_of_one_that_begins() {
        let command = Cli::command();
        for (name, taken) in [("run", ["yes", "json", "columns", "wide", "vertical"])] {
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
