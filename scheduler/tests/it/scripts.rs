//! Scripted policies, and their results.

use engine::{
    cluster::{Action, ClusterError, DeviceId, JobId},
    policy::{Decision, Policy},
    view::View,
};
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use schema::units::Nanos;

use crate::support::World;

pub(crate) const MS: u64 = 1_000_000;

/// Starts a job without a plan.
pub(crate) fn start(job: u32, devices: &[u32]) -> Action {
    let devices = devices.iter().map(|device| DeviceId(*device)).collect();
    Action::Start { job: JobId(job), devices, cpus: None, plan: None }
}

pub(crate) fn end(job: u32) -> Action {
    Action::End { job: JobId(job) }
}

/// Requests scripted actions, turn by turn.
pub(crate) struct Script(pub(crate) Vec<Vec<Action>>);

impl Policy for Script {
    fn decide(&mut self, _view: &View<'_>) -> Decision {
        let actions = if self.0.is_empty() { Vec::new() } else { self.0.remove(0) };
        Decision { actions, ..Decision::default() }
    }
}

/// Requests the actions that a function computes from the view.
pub(crate) struct FromView<F>(pub(crate) F);

impl<F: FnMut(&View<'_>) -> Vec<Action>> Policy for FromView<F> {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        Decision { actions: (self.0)(view), ..Decision::default() }
    }
}

/// All events of a run, with the times of their turns.
pub(crate) fn events(turns: &[Turn]) -> impl Iterator<Item = (Nanos, &ClusterEvent)> {
    turns.iter().flat_map(|turn| turn.events.iter().map(|happened| (turn.at_ns, happened)))
}

/// The turns of a run, its outcomes so far, and its error.
pub(crate) fn turns(
    world: &World<'_>,
    policy: &mut dyn Policy,
) -> (Vec<Turn>, Vec<Outcome>, Option<ClusterError>) {
    let (mut engine, mut turns) = (world.engine(), Vec::new());
    let error = engine::run(&mut engine, &mut world.sim(), policy, &mut turns).err();
    (turns, engine.outcomes().collect(), error)
}
