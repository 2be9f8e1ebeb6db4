//! Policies: functions of the view they are given, without I/O, clock or chance of their own.
//!
//! A new one is a file that implements [`Policy`], whose module is named below, and a line in `list.rs`. Nothing else knows which there
//! are.

mod belief;
mod exec;
mod fifo;
mod greedy;
mod list;
mod packing_fifo;
mod queue;
mod ranking;
mod sjf;
mod srtf;
mod tiresias;

use std::collections::BTreeSet;

pub use list::{build, names, program, resizes};
use schema::units::Nanos;

use crate::{
    cluster::{Action, JobId},
    topology::DeviceId,
    view::View,
};

/// Decides who runs where.
pub trait Policy {
    /// Called after each event. Actions are checked and applied in order; one that is refused is skipped, recorded, and told on stderr.
    fn decide(&mut self, view: &View<'_>) -> Decision;

    /// Why it can decide nothing any more, told once: the run ends with it. The engine asks after each decision. Only a policy that is
    /// another program has reasons.
    fn failure(&mut self) -> Option<anyhow::Error> {
        None
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub actions: Vec<Action>,
    /// When to be asked again if nothing happens before.
    pub wake_at: Option<Nanos>,
    /// The reason in a few words, for readers of the journal. Empty where nothing was done.
    pub reason: String,
}

/// Which jobs a policy must look at again at its next turn, because what it knows of them may be no longer so.
#[derive(Debug, Default)]
struct Watch {
    jobs: BTreeSet<JobId>,
}

impl Watch {
    /// Those that something happened to, those that the last decision named, as some of it may have been refused, and those that were
    /// added.
    fn due(&mut self, view: &View<'_>) -> BTreeSet<JobId> {
        self.jobs.extend(view.changes.iter().filter_map(|change| change.job()));
        std::mem::take(&mut self.jobs)
    }

    fn add(&mut self, job: JobId) {
        self.jobs.insert(job);
    }

    fn decided(&mut self, actions: &[Action]) {
        self.jobs.extend(actions.iter().map(Action::job));
    }
}

/// Starts a job as it asks to be.
fn start(view: &View<'_>, job: JobId, devices: Vec<DeviceId>) -> Action {
    Action::Start { job, devices, cpus: None, plan: view.asked_by(job).plan }
}

/// `3 jobs`, or the name of the only one.
fn jobs_named(view: &View<'_>, jobs: &[JobId]) -> String {
    match jobs {
        [job] => view.asked_by(*job).name.clone(),
        jobs => format!("{} jobs", jobs.len()),
    }
}
