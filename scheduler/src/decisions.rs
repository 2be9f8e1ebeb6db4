//! The journal of a run on disk.

use std::path::Path;

use engine::{
    journal::{Journal, name_of_refused},
    view::View,
};
use formats::decision::{Turn, TurnWriter};
use record::rows::RowError;
use rig::output;

/// The file `decisions.jsonl` of a run. Refused actions are also printed on stderr.
pub struct Decisions(TurnWriter);

impl Decisions {
    /// Opens the file to append to it.
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn open(path: &Path) -> Result<Decisions, RowError> {
        TurnWriter::open(path).map(Decisions)
    }

    /// Collects the turns of a simulation, which may have a million, and writes them in blocks.
    pub fn in_blocks(self) -> Decisions {
        Decisions(self.0.in_blocks())
    }

    /// Writes the turns that are not on file yet.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn finish(&mut self) -> Result<(), RowError> {
        self.0.finish()
    }
}

impl Journal for Decisions {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        for refused in &turn.refused {
            let (action, name) = (&refused.action, name_of_refused(refused, view));
            output::note(format_args!(
                "warning: turn {}: refused '{action}' of {name}: {}",
                turn.turn, refused.why
            ));
        }
        Ok(self.0.write(&turn)?)
    }
}
