//! Receivers of the turns of a run: the file `decisions.jsonl`, a live view, or a list in a test.

use formats::decision::{Refused, Turn};

use crate::view::View;

/// Receives each turn at its end.
pub trait Journal {
    /// Records a turn. `view` is the state after it.
    ///
    /// # Errors
    /// Fails if the turn cannot be recorded. This ends the run.
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()>;

    /// Whether turns need their `view_hash`, which takes a part of the time of a simulation.
    fn needs_hashes(&self) -> bool {
        true
    }
}

/// Passes each turn on, and stores the first refusal. If a run gets stuck, that refusal explains it.
pub struct FirstRefusal<'a> {
    journal: &'a mut dyn Journal,
    first: Option<String>,
}

impl<'a> FirstRefusal<'a> {
    pub fn new(journal: &'a mut dyn Journal) -> FirstRefusal<'a> {
        FirstRefusal { journal, first: None }
    }

    /// The first refusal as `; JOB: WHY`, to append to an error. Empty if no action was refused.
    pub fn told(&self) -> String {
        self.first.as_ref().map(|first| format!("; {first}")).unwrap_or_default()
    }
}

impl Journal for FirstRefusal<'_> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        if let Some(refused) = turn.refused.first() {
            self.first.get_or_insert_with(|| format!("{}: {}", name_of_refused(refused, view), refused.why));
        }
        self.journal.record(turn, view)
    }

    fn needs_hashes(&self) -> bool {
        self.journal.needs_hashes()
    }
}

/// The name of the job of a refused action. A policy may name a job that does not exist.
pub fn name_of_refused<'a>(refused: &Refused, view: &View<'a>) -> &'a str {
    view.asked.get(refused.action.job().0 as usize).map_or("no job", |asked| &asked.name)
}

/// Stores all turns.
impl Journal for Vec<Turn> {
    fn record(&mut self, turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        self.push(turn);
        Ok(())
    }
}

/// Discards all turns.
pub struct Unrecorded;

impl Journal for Unrecorded {
    fn record(&mut self, _turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn needs_hashes(&self) -> bool {
        false
    }
}
