//! Asks for a confirmation before a resumed run starts the programs in its manifest, because its directory may come from
//! another person.

use std::io::{self, IsTerminal as _};

use anyhow::bail;
use rig::output;
use schema::manifest::Manifest;

/// The user's programs that the cells of a run start, in readable form.
pub fn programs_of(manifest: &Manifest) -> impl Iterator<Item = String> {
    manifest.cells.iter().filter_map(|cell| Some(cell.command.as_ref()?.join(" ")))
}

/// Lists the programs and asks whether to start them; `yes` answers the question in advance.
///
/// # Errors
/// The answer is no, or there is no terminal to ask on.
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
        bail!("the run starts programs; check them, and repeat the command with --yes");
    }
    output::note("start them? [y/N]");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was started"),
    }
}
