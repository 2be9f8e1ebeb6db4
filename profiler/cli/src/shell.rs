//! Completions for shells and manual pages, made from a program's own options.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use rig::{Exit, output};

/// The options of `completions`.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell to print completions for.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    /// Prints the completions of `program`.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn run(&self, mut program: Command) -> anyhow::Result<Exit> {
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        output::print_with(|stdout| stdout.write_all(&script))?;
        Ok(Exit::Ok)
    }
}

/// The options of `man`.
#[derive(clap::Args)]
pub struct Man {
    /// The folder for the pages: one for the program and one for each command.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Man {
    /// Writes the pages of `program`.
    ///
    /// # Errors
    /// The folder or a page cannot be written.
    pub fn run(&self, program: Command) -> anyhow::Result<Exit> {
        let place = || self.out.display().to_string();
        fs::create_dir_all(&self.out).with_context(place)?;
        clap_mangen::generate_to(program, &self.out).with_context(place)?;
        output::news(format_args!("manual pages: {}", place()));
        Ok(Exit::Ok)
    }
}
