//! A run that is over, decided again: what happened comes from its journal, and every turn is held against the one recorded.

use schema::{
    decision::{Happened, Turn},
    units::Nanos,
};

use crate::{
    cluster::{Action, ActionError, Cluster, ClusterError},
    engine::{self, Engine},
    journal::Journal,
    policy::Policy,
    view::View,
};

/// Decides every recorded turn again. Afterwards engine and policy are where they were when the journal ended, so that a run which was
/// torn off can go on from there on another cluster.
///
/// # Errors
/// The first turn that was decided otherwise, as [`Difference`] within [`ClusterError::Other`]; and what [`engine::run`] says.
pub fn replay(engine: &mut Engine<'_>, policy: &mut dyn Policy, turns: &[Turn]) -> Result<(), ClusterError> {
    match engine::run(engine, &mut Replay::new(turns), policy, &mut Comparison { turns }) {
        Ok(_) | Err(ClusterError::Nothing | ClusterError::Stuck { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// A turn that was recorded, and what it would be now.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("turn {} was decided otherwise\nrecorded: {recorded}\nnow:      {decided}", recorded.turn)]
pub struct Difference {
    pub recorded: Box<Turn>,
    pub decided: Box<Turn>,
}

/// A cluster on which what was recorded happens.
pub struct Replay<'a> {
    turns: &'a [Turn],
    /// Turns that have begun.
    begun: usize,
    /// How many actions of the present one were applied.
    applied: usize,
}

impl<'a> Replay<'a> {
    pub fn new(turns: &'a [Turn]) -> Replay<'a> {
        Replay { turns, begun: 0, applied: 0 }
    }

    fn present(&self) -> Option<&'a Turn> {
        self.turns.get(self.begun.checked_sub(1)?)
    }
}

impl Cluster for Replay<'_> {
    fn now(&self) -> Nanos {
        self.present().map_or(Nanos::ZERO, |turn| turn.at_ns)
    }

    /// Does what was done, and refuses what was refused. Whatever else is asked for is done, and shows in the turn.
    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        let Some(turn) = self.present() else { return Ok(()) };
        if turn.actions.get(self.applied) == Some(action) {
            self.applied += 1;
            return Ok(());
        }
        match turn.refused.iter().find(|refused| refused.action == *action) {
            Some(refused) => Err(ActionError { action: action.clone(), why: refused.why.clone() }),
            None => Ok(()),
        }
    }

    fn next(&mut self, _deadline: Option<Nanos>) -> Result<Happened, ClusterError> {
        let turn = self.turns.get(self.begun).ok_or(ClusterError::Nothing)?;
        (self.begun, self.applied) = (self.begun + 1, 0);
        Ok(turn.happened.clone())
    }
}

/// Holds each turn against the recorded one.
struct Comparison<'a> {
    turns: &'a [Turn],
}

impl Journal for Comparison<'_> {
    fn record(&mut self, turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        match self.turns.get(turn.turn as usize) {
            Some(recorded) if *recorded == turn => Ok(()),
            Some(recorded) => {
                Err(Difference { recorded: Box::new(recorded.clone()), decided: Box::new(turn) }.into())
            }
            None => Ok(()),
        }
    }
}
