//! The trait of a policy, and its decisions.

use std::collections::BTreeMap;

use schema::units::Nanos;

use crate::{
    cluster::{Action, JobId},
    view::View,
};

/// Decides which jobs run on which devices.
pub trait Policy {
    /// Decides after the events of an instant. The engine checks and applies the actions in order. It skips a refused action,
    /// records it, and reports it on stderr.
    fn decide(&mut self, view: &View<'_>) -> Decision;

    /// Explains in a few words why a job that has arrived waits, or has its devices, after the last decision. Empty if the policy
    /// has nothing to say beyond its reasons.
    fn explain(&self, _view: &View<'_>, _job: JobId) -> String {
        String::new()
    }

    /// Returns, once, what the last decision says of single jobs, for the journal. Only a policy that is another program says it there,
    /// because it is not asked again. All others explain a job from their state.
    fn explanations(&mut self) -> BTreeMap<JobId, String> {
        BTreeMap::new()
    }

    /// Returns, once, the error for which the policy can no longer decide. The engine calls this after each decision, and an error
    /// ends the run. Only a policy that is another program fails.
    fn failure(&mut self) -> Option<anyhow::Error> {
        None
    }
}

/// The answer of a policy to the events of an instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// The time at which the policy decides again if no event occurs before.
    pub wake_at: Option<Nanos>,
    /// The reason in a few words, for readers of the journal. Empty if there is nothing to explain.
    pub reason: String,
}
