//! Who hears of the turns of a run: a file, a test, a live view.

use std::path::Path;

use rig::output;
use schema::{
    decision::{Refused, Turn, TurnWriter},
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

/// `decisions.jsonl` of a run. Refused actions are also printed on stderr.
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
            let (action, name) = (&refused.action, name(refused, view));
            output::note(format_args!(
                "warning: turn {}: refused '{action}' of {name}: {}",
                turn.turn, refused.why
            ));
        }
        Ok(self.0.write(&turn)?)
    }
}

/// Keeps in mind what was refused first, and hands every turn on. Where nothing goes on any more, that says why.
pub struct FirstRefusal<'a> {
    journal: &'a mut dyn Journal,
    first: Option<String>,
}

impl<'a> FirstRefusal<'a> {
    pub fn new(journal: &'a mut dyn Journal) -> FirstRefusal<'a> {
        FirstRefusal { journal, first: None }
    }

    /// `; JOB: WHY`, or nothing where nothing was refused.
    pub fn told(&self) -> String {
        self.first.as_ref().map(|first| format!("; {first}")).unwrap_or_default()
    }
}

impl Journal for FirstRefusal<'_> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        if let Some(refused) = turn.refused.first() {
            self.first.get_or_insert_with(|| format!("{}: {}", name(refused, view), refused.why));
        }
        self.journal.record(turn, view)
    }
}

/// The job that a refused action is of; a policy may name one that is not there.
fn name<'a>(refused: &Refused, view: &View<'a>) -> &'a str {
    view.asked.get(refused.action.job().0 as usize).map_or("no job", |asked| &asked.name)
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
