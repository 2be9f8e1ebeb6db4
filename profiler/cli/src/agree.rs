//! Asks before a run that was begun earlier starts the programs that its files name: its directory may come from somebody else.

use std::io::{self, IsTerminal as _};

use anyhow::bail;
use rig::output;
use schema::manifest::Manifest;

/// The programs of the users' that the cells of a run start, as people read them.
pub fn programs_of(manifest: &Manifest) -> impl Iterator<Item = String> {
    manifest.cells.iter().filter_map(|cell| Some(cell.command.as_ref()?.join(" ")))
}

/// Lists the programs and asks whether to start them; `yes` is the answer of a user who was asked before.
///
/// # Errors
/// The answer is no, or there is no terminal to ask at.
pub fn to_start(programs: impl Iterator<Item = String>, yes: bool) -> anyhow::Result<()> {
    let mut programs = programs.peekable();
    if yes || programs.peek().is_none() {
        return Ok(());
    }
    output::note("the run starts these programs:");
    for program in programs {
        output::note(format_args!("  {}", program.escape_debug()));
    }
    if !io::stdin().is_terminal() {
        bail!("the run starts programs; look at them, and give the command once more with --yes");
    }
    output::note("start them? [y/N]");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was started"),
    }
}
