//! The devices of a job that arrives (Gandiva, section 3.2.1, Algorithm 1).
//!
//! A node has an affinity: the number of devices of the jobs on it. Jobs of one size are kept on the same nodes, so that devices that
//! become free there fit the next of them. A job of up to one node gets, of the first that there are:
//!
//! 1. free devices on a node of its affinity, of these the least loaded;
//! 2. an empty node, whose affinity it determines;
//! 3. free devices on any node, of these the one with the fewest free devices, or on several nodes if jobs may be spread;
//! 4. devices that others have, on a node of its affinity, or on any node if it has waited for `relax`. The paper has no such bound,
//!    without which a job waits for ever beside nodes of another affinity to which jobs keep coming.
//!
//! A larger job gets whole nodes that are empty, or when it has waited, the least loaded nodes. The paper writes `height(n) < 1` for a
//! node with free devices; taken literally, with heights that are rounded up, only an empty node would be one.

use std::cmp::Reverse;

use schema::placement::Placement;

use super::{super::ranking::Need, Gandiva, residents::Residents};
use crate::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
    view::View,
};

/// The devices of a node on which a job may be placed, those without residents first.
pub(super) struct Candidate {
    pub(super) node: NodeId,
    devices: Vec<DeviceId>,
    free: u32,
    affinity: Option<u32>,
}

impl Gandiva {
    /// The nodes on which a job may be placed.
    pub(super) fn candidates(&self, view: &View<'_>, job: JobId) -> Vec<Candidate> {
        let need = Need::of(view, job);
        let pools = view.pools().filter(|pool| need.allows(*pool));
        let nodes = pools.flat_map(|pool| view.occupancy.nodes_in(pool));
        nodes.map(|node| candidate(view, &self.residents, node)).collect()
    }

    /// The devices for a job without residence. `None` if it goes on waiting. With `relaxed`, devices are shared on nodes of any
    /// affinity.
    pub(super) fn find_devices(
        &self,
        view: &View<'_>,
        job: JobId,
        candidates: &[Candidate],
        relaxed: bool,
    ) -> Option<Vec<DeviceId>> {
        let need = Need::of(view, job);
        let count = need.devices as usize;
        let largest = candidates.iter().map(|of| of.devices.len()).max().unwrap_or(0);
        if count > largest {
            return self.find_nodes(view, candidates, count, relaxed);
        }
        let has_cpus = |devices: &[DeviceId]| view.occupancy.lacking_cpus(devices, need.cpus).is_none();
        let with_room: Vec<&Candidate> = candidates
            .iter()
            .filter(|of| of.free as usize >= count && has_cpus(&of.devices[..count]))
            .collect();
        let fits = |of: &&&Candidate| of.affinity == Some(need.devices);
        let of_affinity = with_room.iter().filter(fits).max_by_key(|of| (of.free, Reverse(of.node)));
        let empty = || with_room.iter().find(|of| of.affinity.is_none());
        let any = || with_room.iter().min_by_key(|of| (of.free, of.node));
        if let Some(found) = of_affinity.or_else(empty).or_else(any) {
            return Some(found.devices[..count].to_vec());
        }
        if view.placement == Placement::Spread
            && let Some(devices) = spread(candidates, count).filter(|devices| has_cpus(devices))
        {
            return Some(devices);
        }
        self.oversubscribed(view, job, candidates, relaxed)
    }

    /// The least loaded devices of a node whose residents can be suspended.
    fn oversubscribed(
        &self,
        view: &View<'_>,
        job: JobId,
        candidates: &[Candidate],
        relaxed: bool,
    ) -> Option<Vec<DeviceId>> {
        let count = view.asked_by(job).devices;
        if !self.settings.slices || !self.can_suspend(view, job) {
            return None;
        }
        let of_node = |of: &Candidate| {
            if !relaxed && of.affinity != Some(count) {
                return None;
            }
            let mut open: Vec<(Load, DeviceId)> = of
                .devices
                .iter()
                .filter(|device| self.residents.on(**device).iter().all(|other| self.can_suspend(view, *other)))
                .map(|device| (self.load(view, *device, job), *device))
                .collect();
            open.sort_unstable();
            open.truncate(count as usize);
            let load = open.last()?.0;
            let devices: Vec<DeviceId> = open.into_iter().map(|(_, device)| device).collect();
            (devices.len() == count as usize).then_some((load, of.node, devices))
        };
        candidates.iter().filter_map(of_node).min().map(|(_, _, devices)| devices)
    }

    /// Whole nodes for a job that is larger than one.
    fn find_nodes(
        &self,
        view: &View<'_>,
        candidates: &[Candidate],
        count: usize,
        relaxed: bool,
    ) -> Option<Vec<DeviceId>> {
        let can_share = relaxed && self.settings.slices;
        let is_open = |of: &&Candidate| {
            let residents = of.devices.iter().flat_map(|device| self.residents.on(*device));
            of.free as usize == of.devices.len()
                || (can_share && residents.into_iter().all(|other| self.can_suspend(view, *other)))
        };
        let mut open: Vec<&Candidate> = candidates.iter().filter(is_open).collect();
        // All devices of a job are of one type.
        let pool = |of: &&Candidate| of.devices.first().map(|device| view.occupancy.pool_of(*device));
        open.sort_by_key(|of| (pool(of), Reverse(of.free), of.node));
        open.chunk_by(|a, b| pool(a) == pool(b)).find_map(|of_pool| {
            let devices = of_pool.iter().flat_map(|of| &of.devices).copied();
            let found: Vec<DeviceId> = devices.take(count).collect();
            (found.len() == count).then_some(found)
        })
    }

    /// How busy a device would be for a job: the weight of the residents of its priority or a higher one, and of all.
    pub(super) fn load(&self, view: &View<'_>, device: DeviceId, job: JobId) -> Load {
        let own = view.asked_by(job).priority;
        let mut load = (0, 0);
        for asked in self.residents.on(device).iter().filter(|other| **other != job).map(|other| view.asked_by(*other)) {
            load.0 += if asked.priority >= own { asked.weight } else { 0 };
            load.1 += asked.weight;
        }
        load
    }
}

/// The weight of the residents of a device that are not less important than a job, and the weight of all.
pub(super) type Load = (u32, u32);

fn candidate(view: &View<'_>, residents: &Residents, node: NodeId) -> Candidate {
    let first = view.topology.nodes()[node.0 as usize].first.0;
    let there = (first..first + view.occupancy.devices_of(node)).map(DeviceId);
    let mut devices: Vec<DeviceId> = there.filter(|device| !view.occupancy.is_lost(*device)).collect();
    devices.sort_by_key(|device| !residents.on(*device).is_empty());
    let free = devices.iter().filter(|device| residents.on(**device).is_empty()).count() as u32;
    Candidate { node, devices, free, affinity: residents.affinity(node) }
}

/// Free devices of several nodes, those with the most free devices first, so that the job is on few nodes.
fn spread(candidates: &[Candidate], count: usize) -> Option<Vec<DeviceId>> {
    let mut with_room: Vec<&Candidate> = candidates.iter().filter(|of| of.free > 0).collect();
    with_room.sort_by_key(|of| (Reverse(of.free), of.node));
    let free = with_room.iter().flat_map(|of| &of.devices[..of.free as usize]).copied();
    let found: Vec<DeviceId> = free.take(count).collect();
    (found.len() == count).then_some(found)
}
