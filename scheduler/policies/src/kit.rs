//! What policies have in common: beliefs about lengths, orders of waiting jobs, where jobs are placed, rounds, leases and moves.

pub mod belief;
pub(crate) mod divided;
pub(crate) mod durations;
pub(crate) mod elastic;
pub(crate) mod gain;
pub(crate) mod greedy;
pub(crate) mod in_order;
pub(crate) mod in_rounds;
pub(crate) mod kinds;
pub(crate) mod leases;
pub mod moves;
pub(crate) mod packs;
pub mod progress;
pub(crate) mod queue;
pub(crate) mod ranking;
pub(crate) mod remaining;
pub(crate) mod round;
pub(crate) mod search;
pub(crate) mod settings;

use std::collections::BTreeSet;

use engine::{
    cluster::{Action, JobId},
    job::Pausing,
    topology::DeviceId,
    view::View,
};
use record::suspension::Suspension;

/// The jobs that a policy examines again at its next decision, because their state may have changed.
#[derive(Debug, Default)]
pub struct Watch {
    jobs: BTreeSet<JobId>,
}

impl Watch {
    /// Takes the jobs out: those that have changed, those that the last decision named, because some of its actions may have been
    /// refused, and those that were added.
    pub fn due(&mut self, view: &View<'_>) -> BTreeSet<JobId> {
        self.jobs.extend(view.changes.iter().filter_map(|change| change.job()));
        std::mem::take(&mut self.jobs)
    }

    pub fn add(&mut self, job: JobId) {
        self.jobs.insert(job);
    }

    pub fn decided(&mut self, actions: &[Action]) {
        self.jobs.extend(actions.iter().map(Action::job));
    }
}

/// Makes the action that starts a job under the plan and with the cores that it asks for.
pub(crate) fn start(view: &View<'_>, job: JobId, devices: Vec<DeviceId>) -> Action {
    let asked = view.request(job);
    Action::Start { job, devices, cpus: asked.cpus, plan: asked.plan }
}

/// The text `3 jobs`, or the name of the job if there is only one.
pub(crate) fn jobs_named(view: &View<'_>, jobs: &[JobId]) -> String {
    match jobs {
        [job] => view.request(*job).name.clone(),
        jobs => format!("{} jobs", jobs.len()),
    }
}

/// Whether a job can be suspended in the way of the run and go on later without a loss of work.
pub(crate) fn can_suspend(view: &View<'_>, job: JobId) -> bool {
    let asked = view.request(job);
    match view.suspension {
        Suspension::Checkpoint => asked.takes_no_checkpoint.is_none(),
        // It moves the memory of one process, which is held between two steps.
        Suspension::CudaCheckpoint => asked.devices == 1 && !matches!(asked.pausing, Pausing::Freezes(_)),
        Suspension::StepGate | Suspension::Pause => true,
    }
}
