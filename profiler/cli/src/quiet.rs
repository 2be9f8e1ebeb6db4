//! `--quiet`, which all commands of `profile`, `sched` and `report` have.

use rig::output;

/// The option of the program. It may stand before and after the command.
#[derive(clap::Args)]
pub struct Quiet {
    /// Print results, warnings and errors, and no progress.
    #[arg(short, long, global = true, display_order = 900)]
    quiet: bool,
}

impl Quiet {
    /// Hides progress from now on, if the user wants it.
    pub fn apply(&self) {
        if self.quiet {
            output::be_quiet();
        }
    }
}
