//! Changes of the cores of running jobs, each of which is a restart on the same devices.

use std::cmp::Reverse;

use engine::{
    cluster::{Action, JobId},
    job::Placed,
    occupancy::Draft,
    topology::DeviceId,
    view::View,
};

use super::{Synergy, demand};
use crate::kit::{
    belief,
    elastic::{restart_s, steps_left},
};

/// A running job that holds more cores for each rank than its share.
struct Peer<'a> {
    job: JobId,
    placed: &'a Placed,
    share: u16,
    above: u16,
}

impl Peer<'_> {
    /// Gives the cores above the share back. The job keeps its devices.
    fn push_back(&self, draft: &mut Draft<'_>) {
        draft.hold(&self.placed.devices);
        draft.give_back(self.job, &self.placed.devices, Some(self.above));
    }
}

impl Synergy {
    /// Pushes jobs back to their share, so that this one starts with its share. `None` if that is not enough.
    pub(super) fn push_back(
        &mut self,
        view: &View<'_>,
        draft: &mut Draft<'_>,
        job: JobId,
        actions: &mut Vec<Action>,
        pushed: &mut Vec<JobId>,
    ) -> Option<(Vec<DeviceId>, Option<u16>)> {
        let count = view.request(job).devices;
        let peers = self.above_share(view);
        for (pool, demand) in self.demands.of(view, job).to_vec() {
            let mut trial = draft.clone();
            peers.iter().for_each(|peer| peer.push_back(&mut trial));
            let Some(devices) = trial.take_with(count, Some(pool), demand.share) else { continue };
            let is_near = |peer: &&Peer<'_>| {
                let node = |device: &DeviceId| view.topology.node_of(*device);
                peer.placed.devices.iter().any(|its| devices.iter().any(|of| node(of) == node(its)))
            };
            for peer in peers.iter().filter(is_near) {
                if draft.has_cpus(&devices, demand.share) {
                    break;
                }
                peer.push_back(draft);
                let Placed { devices, plan, .. } = peer.placed;
                actions.push(self.moves.begin(peer.job, devices.clone(), *plan, Some(peer.share)));
                pushed.push(peer.job);
            }
            draft.hold(&devices);
            draft.take_cpus(&devices, demand.share);
            return Some((devices, demand.share));
        }
        None
    }

    /// Gives jobs their demand where the cores are free and the restart pays.
    pub(super) fn raise(&mut self, view: &View<'_>, draft: &mut Draft<'_>) -> Vec<Action> {
        let mut raised = Vec::new();
        for (job, placed, full) in self.below_demand(view) {
            let more = full - placed.cpus.unwrap_or_default();
            if draft.has_cpus(&placed.devices, Some(more)) && pays(view, job, placed, full) {
                draft.take_cpus(&placed.devices, Some(more));
                draft.hold(&placed.devices);
                raised.push(self.moves.begin(job, placed.devices.clone(), placed.plan, Some(full)));
            }
        }
        raised
    }

    /// Whether the cores of some running job may change at the end of the round.
    pub(super) fn may_change(&mut self, view: &View<'_>, waits: bool) -> bool {
        match waits {
            true => !self.above_share(view).is_empty(),
            false => !self.below_demand(view).is_empty(),
        }
    }

    /// The jobs that may be pushed back, in the order in which they are.
    fn above_share<'a>(&mut self, view: &'a View<'a>) -> Vec<Peer<'a>> {
        let running = self.running(view);
        let peer = |(job, placed): (JobId, &'a Placed)| {
            let demand = self.demands.on(view, job, view.occupancy.pool_of(placed.devices[0]))?;
            let (share, has) = demand.share.zip(placed.cpus)?;
            Some(Peer { job, placed, share, above: has.checked_sub(share).filter(|above| *above > 0)? })
        };
        let mut peers: Vec<Peer<'a>> = running.into_iter().filter_map(peer).collect();
        peers.sort_by_key(|peer| {
            (view.topology.placement(&peer.placed.devices).len(), Reverse(peer.placed.cpus), peer.job)
        });
        peers
    }

    /// The jobs that have fewer cores than they demand, in order of arrival, with the number that they demand for each rank.
    fn below_demand<'a>(&mut self, view: &'a View<'a>) -> Vec<(JobId, &'a Placed, u16)> {
        let running = self.running(view);
        let below = |(job, placed): (JobId, &'a Placed)| {
            let demand = self.demands.on(view, job, view.occupancy.pool_of(placed.devices[0]))?;
            Some((job, placed, demand.full.filter(|full| placed.cpus.is_some_and(|has| has < *full))?))
        };
        running.into_iter().filter_map(below).collect()
    }
}

/// Whether a job saves more time with this number of cores for each rank than it costs to restart it.
fn pays(view: &View<'_>, job: JobId, placed: &Placed, cpus: u16) -> bool {
    let saved_s = || {
        let node = demand::largest(view, view.occupancy.pool_of(placed.devices[0]))?;
        let step_s = |cpus| Some(belief::step_with(view, job, node, cpus)?.step_ns / 1e9);
        let (now, then) = (step_s(placed.cpus?)?, step_s(cpus)?);
        Some(steps_left(view, job, 1.0 / now) * (now - then))
    };
    saved_s().zip(restart_s(view, job)).is_some_and(|(saved, costs)| saved > costs)
}
