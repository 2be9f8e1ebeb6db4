//! The seam: what a cluster does for the engine, and what happens on it. `Sim`, `Testbed` and `Replay` stand behind it, and
//! nothing on this side of it can tell which.

pub use schema::decision::{Action, DeviceId, Happened, JobId, Settled};
use schema::units::Nanos;

/// Where jobs run: on devices of this machine in real time, or nowhere in virtual time.
///
/// A switch takes time. `apply` begins it and returns; it is over with a [`Happened::Settled`]. Actions on a device take place in the
/// order they were given: a job that is started where another is leaving (pausing, stopping) begins when that one has left.
pub trait Cluster {
    /// From the start of the run.
    fn now(&self) -> Nanos;

    /// # Errors
    /// What cannot be done here, though the engine found nothing wrong with it. The cluster is as before.
    fn apply(&mut self, action: &Action) -> Result<(), ActionError>;

    /// Waits or jumps to the next event, at most to `deadline`. What happens at the deadline itself comes before it; of two events
    /// of one instant the one with the smaller [`Happened::rank`] comes first.
    ///
    /// # Errors
    /// [`ClusterError::Nothing`] without a deadline where nothing is left that could happen; and whatever keeps the cluster from going on.
    fn next(&mut self, deadline: Option<Nanos>) -> Result<Happened, ClusterError>;
}

/// An action that the engine or the cluster refused; the run goes on without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{action} of job {}: {why}", action.job().0)]
pub struct ActionError {
    pub action: Action,
    pub why: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Jobs wait, none runs, none will arrive, and the policy named no time: it would wait for ever.
    #[error("nothing can happen any more, jobs wait ({waiting}), and the policy starts none of them")]
    Stuck { waiting: usize },
    /// What a cluster says of itself; the engine knows who waits.
    #[error("nothing is left that could happen")]
    Nothing,
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}
