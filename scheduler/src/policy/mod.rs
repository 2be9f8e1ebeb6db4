//! Scheduling policies. A policy is a function of its view: it does no I/O, reads no clock and draws no random numbers.
//!
//! To add one, write a file that implements [`Policy`], declare its module below, and add a line to `list.rs`. No other code
//! depends on the list of policies.
//!
//! A policy is built before the inputs of a run are read. It prepares itself on its first view, which has all that is known before
//! the run: the topology, the model (`View::model`), the costs of switches and the jobs of an earlier run (`View::known`). These
//! do not change during a run, but for a model that learns: `Change::Believed` names the jobs for which it predicts other times. A
//! policy therefore makes its estimators once, keeps them in an `Option` that is empty before the first decision, and asks the view
//! again for everything else, because it cannot keep references to it.

mod antman;
mod belief;
mod divided;
mod durations;
mod elastic;
mod elastic_fifo;
mod exec;
mod fifo;
mod gain;
mod gandiva;
mod gavel;
mod gittins;
mod greedy;
mod horus;
mod in_order;
mod in_rounds;
mod kinds;
mod las;
mod leases;
mod list;
mod lucid;
mod moves;
mod optimus;
mod packing_fifo;
mod packs;
mod pollux_fixed_batch;
mod qssf;
mod queue;
mod ranking;
mod round;
mod rubick;
mod search;
mod settings;
mod sia;
mod sjf;
mod srsf;
mod srtf;
mod synergy;
mod themis;
mod timed;
mod tiresias;

use std::collections::BTreeSet;

pub use list::{build, names, program, resizes, typed};
pub use moves::{Move, Moves};
use schema::units::Nanos;
pub use timed::Timed;

use crate::{
    cluster::{Action, JobId},
    topology::DeviceId,
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

/// The jobs that a policy examines again at its next decision, because their state may have changed.
#[derive(Debug, Default)]
struct Watch {
    jobs: BTreeSet<JobId>,
}

impl Watch {
    /// Takes the jobs out: those that have changed, those that the last decision named, because some of its actions may have been
    /// refused, and those that were added.
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

/// Makes the action that starts a job under the plan and with the cores that it asks for.
fn start(view: &View<'_>, job: JobId, devices: Vec<DeviceId>) -> Action {
    let asked = view.asked_by(job);
    Action::Start { job, devices, cpus: asked.cpus, plan: asked.plan }
}

/// The text `3 jobs`, or the name of the job if there is only one.
fn jobs_named(view: &View<'_>, jobs: &[JobId]) -> String {
    match jobs {
        [job] => view.asked_by(*job).name.clone(),
        jobs => format!("{} jobs", jobs.len()),
    }
}
