//! Moves: a job is stopped with a checkpoint, and started again on other devices, under another plan, or both. Gandiva's migration
//! and Rubick's reconfiguration are moves.
//!
//! A stopped job starts again only after it has left its devices, some turns later. A policy leaves this to [`Moves`].

use std::collections::BTreeMap;

use engine::{
    cluster::{Action, JobId},
    job::{Phase, State},
    occupancy::Draft,
    topology::DeviceId,
    view::{Change, View},
};
use schema::plan::Plan;

/// The moves of a policy that are under way.
///
/// At each turn the policy first takes the actions of [`Moves::refresh`], lets [`Moves::hold`] take the destinations out of its
/// draft, and then leaves the jobs alone of which [`Moves::has`] is true, though they may wait. A move that is dropped leaves a
/// job that waits, runs or has ended. Its job is among the changes of that turn or, if the job is still leaving, of a later one,
/// so that the policy goes on with it as with any other.
#[derive(Debug, Default)]
pub struct Moves {
    under_way: BTreeMap<JobId, Move>,
}

/// A move that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The destination, in the order of ranks.
    pub devices: Vec<DeviceId>,
    pub plan: Option<Plan>,
    /// Cores of the host for each rank, if the policy chose a number.
    pub cpus: Option<u16>,
    /// Whether the job has left its old devices, so that its start was asked for.
    pub has_left: bool,
}

impl Moves {
    /// Begins a move of a job that runs or is paused. The action stops it with a checkpoint. The devices may still be in use if the
    /// jobs there are leaving by then.
    pub fn begin(
        &mut self,
        job: JobId,
        devices: Vec<DeviceId>,
        plan: Option<Plan>,
        cpus: Option<u16>,
    ) -> Action {
        self.under_way.insert(job, Move { devices, plan, cpus, has_left: false });
        Action::Stop { job, checkpoint: true }
    }

    /// Updates the moves after the changes of a view. Returns the starts of the jobs that have left their devices.
    ///
    /// A move is over when its job runs. It is dropped if the stop or the start was refused, if the job has ended or failed, and if
    /// a device of the destination was lost.
    pub fn refresh(&mut self, view: &View<'_>) -> Vec<Action> {
        let mut starts = Vec::new();
        self.under_way.retain(|&job, to| {
            let is_lost = to.devices.iter().any(|device| view.occupancy.is_lost(*device));
            match &view.job(job).state {
                State::Placed(placed) if !to.has_left => placed.phase == Phase::Stopping && !is_lost,
                State::Placed(placed) => placed.phase == Phase::Starting,
                // A job that has failed waits as well, but its stop has not settled.
                State::Waiting { .. } if !to.has_left && !is_lost => {
                    to.has_left = view.changes.contains(&Change::Settled(job));
                    if to.has_left {
                        let (devices, plan, cpus) = (to.devices.clone(), to.plan, to.cpus);
                        starts.push(Action::Start { job, devices, cpus, plan });
                    }
                    to.has_left
                }
                State::Waiting { .. } | State::Ended { .. } => false,
            }
        });
        starts
    }

    /// Takes the destinations out of a draft, so that no other job is placed there.
    pub fn hold(&self, draft: &mut Draft<'_>) {
        for (&job, to) in &self.under_way {
            draft.hold(&to.devices);
            // Once it starts there, its cores are counted.
            if !draft.is_kept_by(to.devices[0], job) {
                draft.take_cpus(&to.devices, to.cpus);
            }
        }
    }

    /// Whether a job is moving.
    pub fn has(&self, job: JobId) -> bool {
        self.under_way.contains_key(&job)
    }

    /// The moves that are under way, in order of jobs.
    pub fn under_way(&self) -> impl Iterator<Item = (JobId, &Move)> {
        self.under_way.iter().map(|(job, to)| (*job, to))
    }
}
