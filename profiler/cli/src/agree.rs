//! Consent to start programs that a file names. The file may come from another person, and a program can do anything that the
//! user can.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _},
};

use anyhow::{bail, ensure};
use record::manifest::Manifest;
use rig::output;
use schema::surroundings::Surroundings;

use crate::heading;

/// The programs that the user agrees to start. A function that starts a program of a file takes this value, so that no caller can forget
/// to ask.
#[derive(Debug, Default)]
pub struct Consent {
    programs: BTreeSet<String>,
}

impl Consent {
    /// No program may be started.
    pub fn none() -> Consent {
        Consent::default()
    }

    /// The programs of a command that the user has typed: those on the command line, and those of a trace that it names to be run.
    pub fn typed(programs: impl IntoIterator<Item = String>) -> Consent {
        Consent { programs: programs.into_iter().collect() }
    }

    /// Checks that the user agrees to start a program.
    ///
    /// # Errors
    /// The user was not asked about this program.
    pub fn check(&self, program: &str) -> anyhow::Result<()> {
        ensure!(
            self.programs.contains(program),
            "the program '{}' is not started without the user's consent; check the program, and repeat the command with --yes",
            program.escape_debug()
        );
        Ok(())
    }
}

/// The option that answers the question in advance. Its field is private, so that only a command line can set it.
#[derive(clap::Args)]
pub struct Yes {
    /// Start the programs that a run on file names without asking: its policy, if that is a program, and its jobs. Programs that you type
    /// need no such consent.
    #[arg(long, help_heading = heading::RUN)]
    yes: bool,
}

impl Yes {
    /// Refuses the option where it would have no effect.
    ///
    /// # Errors
    /// `--yes` was given, which applies to the option `only` alone.
    pub fn check_absent(&self, only: &str) -> anyhow::Result<()> {
        ensure!(!self.yes, "--yes applies to {only} only; remove it");
        Ok(())
    }

    /// Lists the programs that a run names, and asks whether to start them, unless the option was given.
    ///
    /// # Errors
    /// The answer is no, or there is no terminal to ask on.
    pub fn to_start(&self, programs: impl Iterator<Item = String>) -> anyhow::Result<Consent> {
        let programs: Vec<String> = programs.collect();
        let Some(first) = programs.first() else { return Ok(Consent::none()) };
        if !self.yes {
            output::note("the run starts these programs:");
            for program in &programs {
                output::note(format_args!("  {}", program.escape_debug()));
            }
            let others = match programs.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            ask("start them?", || {
                format!("the run would start '{}'{others}; check what it starts", first.escape_debug())
            })?;
        }
        Ok(Consent::typed(programs))
    }

    /// Tells of a doubt about the run, and asks whether to go on, unless the option was given.
    ///
    /// # Errors
    /// The answer is no, or there is no terminal to ask on.
    pub fn to_go_on(&self, doubt: &str) -> anyhow::Result<()> {
        if self.yes || io::stdin().is_terminal() {
            output::note(format_args!("warning: {doubt}"));
        }
        if self.yes {
            Ok(())
        } else {
            ask("go on here?", || format!("{doubt}; check that it can go on here"))
        }
    }
}

/// Asks a question, and returns if the user agrees. Without a terminal nothing can be asked, and the error is `refusal` with the
/// option that answers in advance.
fn ask(question: &str, refusal: impl FnOnce() -> String) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!("{}, and repeat the command with --yes", refusal());
    }
    output::note(format_args!("{question} [y/N]"));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    ensure!(matches!(answer.trim(), "y" | "yes"), "nothing was started");
    Ok(())
}

/// The user's programs that the cells of a run start, in readable form.
pub fn programs_of(manifest: &Manifest) -> impl Iterator<Item = String> {
    let options = manifest.settings.surroundings.as_ref();
    manifest.cells.iter().filter_map(move |cell| {
        let surroundings = Surroundings::with_folder(options, cell.folder.as_ref());
        Some(cell.command.as_ref()?.join(" ") + &described(surroundings.as_ref()))
    })
}

/// The folder and the variables that programs are given, which can change what they do, and the commands before and after them.
fn described(surroundings: Option<&Surroundings>) -> String {
    let Some(Surroundings { cwd, environment, prepare, cleanup }) = surroundings else {
        return String::new();
    };
    let folder = cwd.iter().map(|cwd| format!("in {cwd}"));
    let variables = environment.iter().map(|(name, value)| format!("with {name}={value}"));
    let before = prepare.iter().map(|text| format!("prepared by {text}"));
    let after = cleanup.iter().map(|text| format!("cleaned up by {text}"));
    folder.chain(variables).chain(before).chain(after).map(|words| format!(", {words}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_holds_for_the_programs_that_were_named_and_for_no_other() {
        let typed = Consent::typed(["sh a".to_owned()]);
        assert!(typed.check("sh a").is_ok());
        for (consent, program) in [(&typed, "sh b"), (&typed, ""), (&Consent::none(), "sh a")] {
            let error = consent.check(program).unwrap_err().to_string();
            assert!(
                error.contains(&format!("'{program}' is not started")) && error.contains("--yes"),
                "{error}"
            );
        }
        assert!(Yes { yes: false }.to_start(std::iter::empty()).unwrap().check("sh a").is_err());
        assert!(Yes { yes: true }.to_start(["sh b".to_owned()].into_iter()).unwrap().check("sh b").is_ok());
    }
}
