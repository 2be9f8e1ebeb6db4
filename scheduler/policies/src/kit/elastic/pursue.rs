//! The actions that bring jobs to where a policy wants them.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    cluster::{Action, JobId},
    job::{Placed, State},
    topology::{DeviceId, NodeId},
    view::View,
};
use schema::plan::Plan;

use super::roster::on_nodes;
use crate::kit::moves::Moves;

/// Where and how a job is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The devices on each node.
    pub(crate) nodes: Vec<(NodeId, u32)>,
    pub(crate) plan: Option<Plan>,
    pub(crate) cpus: Option<u16>,
}

impl Target {
    /// Where and how a job runs now.
    pub(crate) fn of(view: &View<'_>, placed: &Placed) -> Target {
        Target { nodes: on_nodes(view, placed), plan: placed.plan, cpus: placed.cpus }
    }

    /// Whether a job runs there and in this way.
    pub(crate) fn is_of(&self, view: &View<'_>, placed: &Placed) -> bool {
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable();
        nodes == on_nodes(view, placed) && self.plan == placed.plan && self.cpus == placed.cpus
    }
}

/// Makes the actions that bring jobs to their targets. A job without one is stopped, or goes on waiting. A job that runs as it should
/// is left alone. Jobs that are stopped come first, then those that move, and then those that start; a job that moves starts at
/// its destination when it has left its devices, some turns later.
///
/// The targets are of jobs that wait, or that run and may be stopped. Where they do not fit together, because cores are scarce, a job
/// that runs goes on as it is, and one that waits goes on waiting.
pub(crate) fn pursue(
    view: &View<'_>,
    moves: &mut Moves,
    targets: &BTreeMap<JobId, Option<Target>>,
) -> Vec<Action> {
    let mut stay = BTreeSet::new();
    let found = loop {
        match destinations(view, moves, targets, &stay) {
            Ok(found) => break found,
            Err(job) => stay.insert(job),
        };
    };
    let is_stopped =
        |(job, target): &(&JobId, &Option<Target>)| target.is_none() && view.job(**job).placed().is_some();
    let stopped = targets.iter().filter(is_stopped);
    let stopped: Vec<Action> = stopped.map(|(job, _)| Action::Stop { job: *job, checkpoint: true }).collect();
    let (mut moved, mut started) = (Vec::new(), Vec::new());
    for (job, &Target { plan, cpus, .. }, devices) in found {
        match view.job(job).placed() {
            Some(_) => moved.push(moves.begin(job, devices, plan, cpus)),
            None => started.push(Action::Start { job, devices, cpus, plan }),
        }
    }
    stopped.into_iter().chain(moved).chain(started).collect()
}

/// A job, where and how it is to run, and the devices for it.
type Destination<'a> = (JobId, &'a Target, Vec<DeviceId>);

/// The devices of the jobs that are to start or to move, except those in `stay`.
///
/// # Errors
/// Returns a job that runs and for which there is no room where it is to run.
fn destinations<'a>(
    view: &View<'_>,
    moves: &Moves,
    targets: &'a BTreeMap<JobId, Option<Target>>,
    stay: &BTreeSet<JobId>,
) -> Result<Vec<Destination<'a>>, JobId> {
    let mut draft = view.draft();
    moves.hold(&mut draft);
    let mut changed: Vec<Destination<'_>> = Vec::new();
    for (&job, target) in targets.iter().filter(|(job, _)| !stay.contains(job)) {
        match (&view.job(job).state, target) {
            (State::Placed(placed), None) => draft.give_back(job, &placed.devices, placed.cpus),
            (State::Placed(placed), Some(target)) if !target.is_of(view, placed) => {
                draft.give_back(job, &placed.devices, placed.cpus);
                changed.push((job, target, kept(view, placed, target)));
            }
            (State::Waiting { .. }, Some(target)) => changed.push((job, target, Vec::new())),
            _ => {}
        }
    }
    changed.iter().for_each(|(_, _, kept)| draft.hold(kept));
    let mut found = Vec::new();
    for (job, target, kept) in changed {
        let mut devices = Vec::new();
        for &(node, count) in &target.nodes {
            let mut here: Vec<DeviceId> =
                kept.iter().copied().filter(|device| view.topology.node_of(*device) == node).collect();
            here.extend(draft.take_on(node, count - here.len() as u32));
            here.sort_unstable();
            devices.extend(here);
        }
        let wanted: u32 = target.nodes.iter().map(|(_, count)| count).sum();
        if devices.len() == wanted as usize && draft.has_cpus(&devices, target.cpus) {
            draft.take_cpus(&devices, target.cpus);
            found.push((job, target, devices));
        } else if view.job(job).placed().is_some() {
            return Err(job);
        }
    }
    Ok(found)
}

/// The devices that a job has where it is to run, as many as it is to have there.
fn kept(view: &View<'_>, placed: &Placed, target: &Target) -> Vec<DeviceId> {
    let mut kept = Vec::new();
    for &(node, count) in &target.nodes {
        let here = placed.devices.iter().filter(|device| view.topology.node_of(**device) == node);
        let stays = here.filter(|device| !view.occupancy.is_lost(**device));
        kept.extend(stays.take(count as usize).copied());
    }
    kept
}
