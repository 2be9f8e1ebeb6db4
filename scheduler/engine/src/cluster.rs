//! The interface between the engine and a cluster: the engine passes actions to it and receives events from it. `LaunchCluster`
//! and `Replay` implement it. The engine and the policies do not know which of them is used.

pub use formats::decision::{Action, ClusterEvent, DeviceId, JobId, Settled, Share};
use schema::units::Nanos;

/// A cluster on which jobs run: the devices of this machine in real time, or simulated devices in virtual time.
///
/// A switch takes time. `apply` begins it and returns; [`ClusterEvent::Settled`] ends it. Actions on a device take effect in the order
/// in which they were given: a job that is started where another is leaving (pausing or stopping) begins when the other has left.
pub trait Cluster {
    /// The time since the start of the run.
    fn now(&self) -> Nanos;

    /// Begins an action that the engine has checked.
    ///
    /// # Errors
    /// Fails if the action cannot be done on this cluster. The state of the cluster is then unchanged.
    fn apply(&mut self, action: &Action) -> Result<(), ActionError>;

    /// Waits or jumps to the next instant with an event, or to `deadline` if that is earlier. Returns all events of the instant in
    /// the order in which they take effect: an event that is the effect of another comes after it, and of others the one with the
    /// smaller [`ClusterEvent::rank`] comes first. Returns [`ClusterEvent::Deadline`] alone if there is no event up to the deadline.
    ///
    /// # Errors
    /// Returns [`ClusterError::Nothing`] if no event is left and there is no deadline. Fails if the cluster cannot go on.
    fn next(&mut self, deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError>;
}

/// The error of an action that the engine or the cluster refused. The run goes on without the action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{action} of job {}: {why}", action.job().0)]
pub struct ActionError {
    pub action: Action,
    pub why: String,
}

/// The error that ends a run.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Jobs wait, none runs, none will arrive, and the policy did not ask to be woken. The run would never end.
    #[error("no event is left, jobs wait ({waiting}), and the policy starts none of them")]
    Stuck { waiting: usize },
    /// The cluster has no further event. The engine makes [`ClusterError::Stuck`] of it.
    #[error("no event is left")]
    Nothing,
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}
