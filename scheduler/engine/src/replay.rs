//! Replays a run: the events come from its journal, the policy decides again, and each turn is compared with the recorded one.

use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use schema::units::Nanos;

use crate::{
    Engine,
    cluster::{Action, ActionError, Cluster, ClusterError},
    journal::{Journal, Unrecorded},
    policy::{Decision, Policy},
    view::View,
};

/// Decides every recorded turn again. Afterwards the engine and the policy are in the state at the end of the journal, so that an
/// interrupted run can go on from there on another cluster.
///
/// # Errors
/// Returns the first turn that was decided otherwise as a [`Difference`] in [`ClusterError::Other`], and errors of [`Engine::run`].
pub fn replay(engine: &mut Engine<'_>, policy: &mut dyn Policy, turns: &[Turn]) -> Result<(), ClusterError> {
    match engine.run(&mut Replay::new(turns), policy, &mut Comparison { turns }) {
        Ok(()) | Err(ClusterError::Nothing | ClusterError::Stuck { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// The outcomes at the end of a journal. Its actions are done as they were recorded, so that no policy decides again.
///
/// # Errors
/// Returns the errors of [`Engine::run`], as for a journal that does not fit the jobs of the engine.
pub fn outcomes(engine: &mut Engine<'_>, turns: &[Turn]) -> Result<Vec<Outcome>, ClusterError> {
    let mut recorded = Recorded(turns.iter());
    match engine.run(&mut Replay::new(turns), &mut recorded, &mut Unrecorded) {
        Ok(()) | Err(ClusterError::Nothing | ClusterError::Stuck { .. }) => Ok(engine.outcomes().collect()),
        Err(other) => Err(other),
    }
}

/// A policy that decides what a journal says.
struct Recorded<'a>(std::slice::Iter<'a, Turn>);

impl Policy for Recorded<'_> {
    fn decide(&mut self, _view: &View<'_>) -> Decision {
        let recorded = |turn: &Turn| Decision {
            actions: turn.actions.clone(),
            wake_at: turn.wake_at_ns,
            reason: String::new(),
        };
        self.0.next().map(recorded).unwrap_or_default()
    }
}

/// A recorded turn, and the different turn that was decided now.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("turn {} was decided otherwise\nrecorded: {recorded}\nnow:      {decided}", recorded.turn)]
pub struct Difference {
    pub recorded: Box<Turn>,
    pub decided: Box<Turn>,
}

/// A cluster whose events are those of a journal.
pub struct Replay<'a> {
    turns: &'a [Turn],
    /// The number of turns that have begun.
    begun: usize,
    /// The number of actions of the present turn that were applied.
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

    /// Accepts recorded actions, and refuses recorded refusals with the same reason. Any other action is accepted, and the
    /// comparison of the turn finds it.
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

    fn next(&mut self, _deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError> {
        let turn = self.turns.get(self.begun).ok_or(ClusterError::Nothing)?;
        (self.begun, self.applied) = (self.begun + 1, 0);
        Ok(turn.events.clone())
    }
}

/// Compares each turn with the recorded one. Reasons and explanations are words for readers, which may differ between versions, and are
/// not compared.
struct Comparison<'a> {
    turns: &'a [Turn],
}

impl Journal for Comparison<'_> {
    fn record(&mut self, turn: Turn, _view: &View<'_>) -> anyhow::Result<()> {
        let Some(recorded) = self.turns.get(turn.turn as usize) else { return Ok(()) };
        let (reason, explain) = (recorded.reason.clone(), recorded.explain.clone());
        if *recorded == (Turn { reason, explain, ..turn.clone() }) {
            return Ok(());
        }
        Err(Difference { recorded: Box::new(recorded.clone()), decided: Box::new(turn) }.into())
    }
}
