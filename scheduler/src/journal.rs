//! Who hears of the turns of a run: a file, a test, a live view.

use std::path::Path;

use schema::{
    decision::{Turn, TurnWriter},
    rows::RowError,
};

use crate::view::View;

/// Told of every turn when it is over.
pub trait Journal {
    /// `view` is what the turn has left behind.
    ///
    /// # Errors
    /// What keeps it from noting the turn; the run ends there.
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()>;
}

/// `decisions.jsonl` of a run. What was refused is told on stderr as well.
pub struct Decisions(TurnWriter);

impl Decisions {
    /// Goes on where the file ends.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path) -> Result<Decisions, RowError> {
        TurnWriter::open(path).map(Decisions)
    }
}

impl Journal for Decisions {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        for refused in &turn.refused {
            let name = &view.asked.get(refused.action.job().0 as usize).map_or("no job", |asked| &asked.name);
            eprintln!("warning: turn {}: refused {:?} of {name}: {}", turn.turn, refused.action, refused.why);
        }
        Ok(self.0.write(&turn)?)
    }
}

/// Keeps all turns.
impl Journal for Vec<Turn> {
    fn record(&mut self, turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        self.push(turn);
        Ok(())
    }
}

/// Keeps nothing.
pub struct Unrecorded;

impl Journal for Unrecorded {
    fn record(&mut self, _turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        Ok(())
    }
}
