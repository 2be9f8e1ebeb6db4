//! The input of a policy: the state of all jobs and devices, the changes since its last decision, and a model that it may query.

use formats::history::PastJob;
use model::{
    PackingClasses, Throughput,
    switch_costs::{Cost, SwitchCosts},
};
use record::{placement::Placement, suspension::Suspension};
use schema::{plan::Plan, sharing::Sharing, units::Nanos};

use crate::{
    cluster::JobId,
    job::{Job, JobRequest},
    legal_plans::{LegalPlan, LegalPlans},
    occupancy::{Draft, Occupancy, Pools},
    topology::{DeviceId, Topology, VirtualClusterId},
};

/// The state of a run at one moment. To make a view takes time that does not grow with the number of jobs. A policy that keeps jobs
/// in an order updates it from `changes`.
pub struct View<'a> {
    pub now: Nanos,
    pub topology: &'a Topology,
    pub sharing: &'a Sharing,
    /// How a policy that suspends jobs does it: with a pause, or with a stop and a start.
    pub suspension: Suspension,
    /// The maximum number of jobs on a device.
    pub jobs_per_device: u32,
    /// The nodes on which the policy is to place jobs. The engine does not check it.
    pub placement: Placement,
    /// The virtual cluster for which the policy decides. `None` if it decides for the whole cluster.
    pub virtual_cluster: Option<VirtualClusterId>,
    /// The requests of jobs, by [`JobId`]: for a policy, of those that have arrived.
    pub asked: &'a [JobRequest],
    /// The states of the same jobs.
    pub jobs: &'a [Job],
    pub occupancy: &'a Occupancy,
    /// The changes since the last decision, in order.
    pub changes: &'a [Change],
    /// The model that the policy may query. A simulated cluster may use a different one.
    pub model: &'a dyn Throughput,
    /// The costs of switches, the legal plans of jobs, the jobs of an earlier run, and the classes of jobs, as far as they are known.
    pub known: PolicyContext<'a>,
}

/// What is known before a run, besides step times.
#[derive(Clone, Copy, Default)]
pub struct PolicyContext<'a> {
    pub costs: Option<&'a dyn SwitchCosts>,
    pub plans: Option<&'a LegalPlans>,
    /// The jobs of an earlier run, in the order of their file. Empty if the user has named none.
    pub history: &'a [PastJob],
    /// How much jobs suffer beside others.
    pub classes: Option<&'a dyn PackingClasses>,
}

impl View<'_> {
    /// The request of a job that has arrived.
    pub fn request(&self, job: JobId) -> &JobRequest {
        &self.asked[job.0 as usize]
    }

    /// The free devices, for a decision that starts several jobs.
    pub fn draft(&self) -> Draft<'_> {
        Draft::new(self.occupancy, self.placement, self.pools())
    }

    /// The pools of the devices for which the policy decides.
    pub fn pools(&self) -> Pools {
        match self.virtual_cluster {
            Some(virtual_cluster) => self.occupancy.pools_of(virtual_cluster),
            None => self.occupancy.pools(),
        }
    }

    /// The time that a switch of a job takes under a plan, on this number of devices of this type, without chance. `None` if it is
    /// not known.
    pub fn cost(
        &self,
        job: JobId,
        plan: Option<Plan>,
        (devices, device_type): (u32, &str),
        of: Cost,
    ) -> Option<Nanos> {
        let asked = self.request(job);
        let workload = asked.what.workload();
        let subject = asked.subject(&workload, plan, self.topology, device_type);
        self.known.costs?.cost(&subject, devices, of, &mut || 0.0)
    }

    /// The plans under which an elastic job may run, for each type of device of its virtual cluster.
    pub fn plans(&self, job: JobId) -> impl Iterator<Item = LegalPlan<'_>> {
        let asked = self.request(job);
        let most = |device_type| self.topology.most_for(&asked.virtual_cluster, Some(device_type));
        let legal = self.known.plans.into_iter().flat_map(move |plans| plans.of(asked));
        legal.filter(move |legal| legal.plan.ranks() <= most(legal.device_type))
    }

    /// The state of a job that has arrived.
    pub fn job(&self, job: JobId) -> &Job {
        &self.jobs[job.0 as usize]
    }
}

/// A change since the last decision. A policy that keeps jobs in an order of its own updates it from these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A job waits for devices: it arrived, was stopped, or failed and is to be started again.
    Waits(JobId),
    /// A job was given devices.
    Placed(JobId),
    /// A switch of a job has ended.
    Settled(JobId),
    /// A job reported its steps.
    Progressed(JobId),
    /// The model predicts other step times of a job than before, because it has learned.
    Believed(JobId),
    /// A job has ended and will not run again.
    Ended(JobId),
    /// A device was lost.
    Lost(DeviceId),
    /// A lost device came back.
    Back(DeviceId),
    /// Two jobs did not fit on a device together.
    DoNotFit(JobId, JobId),
    /// A job ran out of memory under a plan or on a number of devices that it did not ask for. It waits, and is not started again
    /// under this plan on devices of this type.
    TooLarge { job: JobId, plan: Option<Plan> },
    /// An action on a job was refused in the last decision.
    Refused(JobId),
}

impl Change {
    /// The job that has changed. `None` for changes of devices and for [`Change::DoNotFit`].
    pub fn job(&self) -> Option<JobId> {
        match *self {
            Change::Waits(job)
            | Change::Placed(job)
            | Change::Settled(job)
            | Change::Progressed(job)
            | Change::Believed(job)
            | Change::Ended(job)
            | Change::TooLarge { job, .. }
            | Change::Refused(job) => Some(job),
            Change::Lost(_) | Change::Back(_) | Change::DoNotFit(..) => None,
        }
    }
}
