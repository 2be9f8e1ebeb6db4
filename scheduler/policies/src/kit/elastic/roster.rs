//! The jobs that a policy may start, resize or move now, their remaining work, and the devices that are left to them.

use std::collections::BTreeSet;

use crate::kit::moves::Moves;
use engine::{
    cluster::JobId,
    job::{Phase, Placed, State},
    topology::NodeId,
    view::{Change, View},
};
use model::switch_costs::Cost;

/// The jobs that have arrived and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    jobs: BTreeSet<JobId>,
    /// Jobs that share the devices of others and stay there as long as these do. Their devices count as those of the others.
    pub(crate) guests: BTreeSet<JobId>,
}

/// What a policy may do with a job now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Standing<'a> {
    /// The job waits, and may be started.
    Waits,
    /// The job runs, and may be stopped with a checkpoint.
    Runs(&'a Placed),
    /// The job keeps its devices in this decision, because it is in a switch, takes no checkpoint or is a guest.
    Stays(&'a Placed),
    /// The job is on its way to other devices, or leaves the ones that it has.
    IsOnItsWay,
}

impl Roster {
    /// Updates the jobs after the changes of a view.
    pub(crate) fn refresh(&mut self, view: &View<'_>) {
        for change in view.changes {
            match *change {
                Change::Waits(job) => drop(self.jobs.insert(job)),
                Change::Ended(job) => drop(self.jobs.remove(&job)),
                _ => {}
            }
        }
    }

    /// The number of jobs.
    pub(crate) fn count(&self) -> usize {
        self.jobs.len()
    }

    /// The jobs in order of arrival, each with what may be done with it.
    pub(crate) fn jobs<'a>(
        &'a self,
        view: &'a View<'a>,
        moves: &'a Moves,
    ) -> impl Iterator<Item = (JobId, Standing<'a>)> {
        self.jobs.iter().map(move |&job| (job, self.standing(view, moves, job)))
    }

    fn standing<'a>(&self, view: &'a View<'a>, moves: &Moves, job: JobId) -> Standing<'a> {
        match &view.job(job).state {
            _ if moves.has(job) => Standing::IsOnItsWay,
            State::Waiting { .. } => Standing::Waits,
            State::Placed(placed) => match placed.phase {
                Phase::Stopping | Phase::Ending => Standing::IsOnItsWay,
                _ if self.guests.contains(&job) => Standing::Stays(placed),
                Phase::Running if view.request(job).takes_no_checkpoint.is_none() => Standing::Runs(placed),
                _ => Standing::Stays(placed),
            },
            State::Ended { .. } => Standing::IsOnItsWay,
        }
    }

    /// The devices of each node that the jobs have that wait or may be stopped, and those that are free: all that are not lost, not
    /// kept by another job, and not the destination of a move.
    pub(crate) fn room(&self, view: &View<'_>, moves: &Moves) -> Vec<u32> {
        let mut room = vec![0; view.topology.nodes().len()];
        for pool in view.pools() {
            for node in view.occupancy.nodes_in(pool) {
                room[node.0 as usize] = view.occupancy.free_at(node);
            }
        }
        let mut is_destination = BTreeSet::new();
        for (_, to) in moves.under_way() {
            is_destination.extend(to.devices.iter().copied());
        }
        for &device in &is_destination {
            let is_free = view.occupancy.kept_by(device).is_empty() && !view.occupancy.is_lost(device);
            room[view.topology.node_of(device).0 as usize] -= u32::from(is_free);
        }
        for (job, standing) in self.jobs(view, moves) {
            let Standing::Runs(placed) = standing else { continue };
            for &device in &placed.devices {
                let mut hosts =
                    view.occupancy.kept_by(device).iter().filter(|kept| !self.guests.contains(kept));
                let is_its_own = hosts.all(|host| *host == job) && !view.occupancy.is_lost(device);
                let returns = is_its_own && !is_destination.contains(&device);
                room[view.topology.node_of(device).0 as usize] += u32::from(returns);
            }
        }
        room
    }

    /// The cores of each node that the jobs have that may be stopped, and those that no other job has or will have after a move.
    /// `None` if the number of cores of a node is not known.
    pub(crate) fn cpus(&self, view: &View<'_>, moves: &Moves) -> Vec<Option<u32>> {
        let nodes = (0..).take(view.topology.nodes().len()).map(NodeId);
        let mut cpus: Vec<Option<u32>> = nodes.map(|node| view.occupancy.free_cpus(node)).collect();
        let each = |cpus: Option<u16>| u32::from(cpus.unwrap_or_default());
        for (job, to) in moves.under_way() {
            // Once the job starts there, its cores are no longer free.
            let comes = to.devices.iter().filter(|device| !view.occupancy.kept_by(**device).contains(&job));
            for device in comes {
                let free = &mut cpus[view.topology.node_of(*device).0 as usize];
                *free = free.map(|free| free.saturating_sub(each(to.cpus)));
            }
        }
        for (_, standing) in self.jobs(view, moves) {
            let Standing::Runs(placed) = standing else { continue };
            for (node, devices) in on_nodes(view, placed) {
                let free = &mut cpus[node.0 as usize];
                *free = free.map(|free| free + devices * each(placed.cpus));
            }
        }
        cpus
    }
}

/// The numbers of these devices on each node, in order of nodes.
pub(crate) fn on_nodes(view: &View<'_>, placed: &Placed) -> Vec<(NodeId, u32)> {
    let mut nodes: Vec<NodeId> = placed.devices.iter().map(|device| view.topology.node_of(*device)).collect();
    nodes.sort_unstable();
    nodes.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
}

/// The number of steps that a job still has to do, if it goes on at this rate since its last report. Infinite for a job that runs
/// until it ends.
pub(crate) fn steps_left(view: &View<'_>, job: JobId, rate: f64) -> f64 {
    let Some(steps) = view.request(job).steps else { return f64::INFINITY };
    let state = view.job(job);
    let since = match state.placed() {
        Some(placed) if placed.phase == Phase::Running => (view.now - state.steps_at).as_secs_f64(),
        _ => 0.0,
    };
    let done = state.steps as f64 + since * rate;
    (steps as f64 - done).max(1.0)
}

/// The time in seconds that it costs a job to be stopped with a checkpoint and started again. `None` if it is not known.
pub(crate) fn restart_s(view: &View<'_>, job: JobId) -> Option<f64> {
    let asked = view.request(job);
    let placed = view.job(job).placed();
    let (plan, devices) = placed.map_or((asked.plan, asked.devices), |on| (on.plan, on.devices.len() as u32));
    let device_type = placed.and_then(|on| on.devices.first()).map(|device| view.topology.type_of(*device));
    let of = |cost| view.cost(job, plan, (devices, device_type.unwrap_or_default()), cost);
    let costs = [of(Cost::Checkpoint)?, of(Cost::Stop)?, of(Cost::Restart)?];
    Some(costs.iter().map(|cost| cost.as_secs_f64()).sum())
}
