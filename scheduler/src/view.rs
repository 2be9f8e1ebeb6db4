//! What a policy is shown: the state of all jobs and devices, what changed since its last turn, and a model it may believe.

use model::Throughput;
use schema::{sharing::Sharing, units::Nanos};

use crate::{
    cluster::JobId,
    job::{Job, JobRequest},
    occupancy::Occupancy,
    topology::{DeviceId, Topology},
};

/// One moment of a run. Looking at it costs nothing that grows with the number of jobs: whoever keeps an order of them keeps it up to
/// date from `changes`.
pub struct View<'a> {
    pub now: Nanos,
    pub topology: &'a Topology,
    pub sharing: &'a Sharing,
    /// By [`JobId`]; those that have not arrived yet are not to be looked at.
    pub asked: &'a [JobRequest],
    pub jobs: &'a [Job],
    pub occupancy: &'a Occupancy,
    /// What happened since the last turn, in order.
    pub changes: &'a [Change],
    /// What the policy may believe. It need not be what the cluster runs on.
    pub model: &'a dyn Throughput,
}

impl View<'_> {
    /// What a job asked for that has arrived.
    pub fn asked_by(&self, job: JobId) -> &JobRequest {
        &self.asked[job.0 as usize]
    }

    /// What has become of a job that has arrived.
    pub fn job(&self, job: JobId) -> &Job {
        &self.jobs[job.0 as usize]
    }
}

/// What a policy that keeps orders of its own must hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The job wants devices: it arrived, was stopped, or failed and is given another chance.
    Waits(JobId),
    /// It was given devices.
    Placed(JobId),
    /// A switch is over.
    Settled(JobId),
    /// More of its steps are known.
    Progressed(JobId),
    /// It will never want anything again.
    Ended(JobId),
    Lost(DeviceId),
    Back(DeviceId),
    /// The two did not fit on a device together.
    DoNotFit(JobId, JobId),
}

impl Change {
    /// The one job that it is about.
    pub fn job(&self) -> Option<JobId> {
        match *self {
            Change::Waits(job)
            | Change::Placed(job)
            | Change::Settled(job)
            | Change::Progressed(job)
            | Change::Ended(job) => Some(job),
            Change::Lost(_) | Change::Back(_) | Change::DoNotFit(..) => None,
        }
    }
}
