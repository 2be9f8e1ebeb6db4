//! The devices of a job that arrives (Gandiva, section 3.2.1, Algorithm 1).
//!
//! A node has an affinity: the number of devices of the jobs on it. Jobs of one size are kept on the same nodes, so that devices that
//! become free there fit the next of them. A job of up to one node gets, of the first that there are:
//!
//! 1. free devices on a node of its affinity, of these the least loaded;
//! 2. an empty node, whose affinity it determines;
//! 3. free devices on any node, of these the one with the fewest free devices, or on several nodes, as `--placement` allows;
//! 4. devices that others have, on a node of its affinity, or on any node if it has waited for `relax`. The paper has no such bound,
//!    without which a job waits for ever beside nodes of another affinity to which jobs keep coming.
//!
//! A larger job gets free nodes as `--placement` has them, or when it has waited, the least loaded nodes. The paper writes `height(n) < 1` for a
//! node with free devices; taken literally, with heights that are rounded up, only an empty node would be one.

use std::cmp::Reverse;

use engine::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
    view::View,
};
use record::placement::Placement;

use super::{
    Gandiva,
    residents::{Residents, devices_of},
};
use crate::kit::{can_suspend, ranking::Need, search::Standing};

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
        let free = self.free_anywhere(view, need);
        let shared = || self.oversubscribed(view, job, candidates, relaxed);
        let larger = || self.find_nodes(view, candidates, job).filter(|_| relaxed);
        free.or_else(shared).or_else(larger)
    }

    /// Free devices as `--placement` has them.
    fn free_anywhere(&self, view: &View<'_>, need: Need) -> Option<Vec<DeviceId>> {
        let mut draft = view.draft();
        self.residents.iter().for_each(|(_, resident)| draft.hold(&resident.devices));
        draft.take_with(need.devices, need.pool, need.cpus)
    }

    /// The least loaded devices of a node whose residents can be suspended.
    fn oversubscribed(
        &self,
        view: &View<'_>,
        job: JobId,
        candidates: &[Candidate],
        relaxed: bool,
    ) -> Option<Vec<DeviceId>> {
        let count = view.request(job).devices;
        if !self.settings.slices || !can_suspend(view, job) {
            return None;
        }
        let of_node = |of: &Candidate| {
            if !relaxed && of.affinity != Some(count) {
                return None;
            }
            let mut open: Vec<(Load, DeviceId)> = of
                .devices
                .iter()
                .filter(|device| self.residents.on(**device).iter().all(|other| can_suspend(view, *other)))
                .map(|device| (self.load(view, *device, job), *device))
                .collect();
            open.sort_unstable();
            open.truncate(count as usize);
            let load = open.last()?.0;
            let devices: Vec<DeviceId> = open.into_iter().map(|(_, device)| device).collect();
            let is_enough = devices.len() == count as usize && has_cores(view, &[job], &devices);
            is_enough.then_some((load, of.node, devices))
        };
        candidates.iter().filter_map(of_node).min().map(|(_, _, devices)| devices)
    }

    /// The least loaded devices of several nodes, for a job that does not fit on one, or may be spread.
    fn find_nodes(&self, view: &View<'_>, candidates: &[Candidate], job: JobId) -> Option<Vec<DeviceId>> {
        let need = Need::of(view, job);
        let largest = candidates.iter().map(|of| of.devices.len()).max().unwrap_or(0);
        let needs_several = need.devices as usize > largest || view.placement == Placement::Spread;
        if !needs_several || !self.settings.slices || !can_suspend(view, job) {
            return None;
        }
        let open = |of: &Candidate| {
            let is_open = |device: &&DeviceId| {
                self.residents.on(**device).iter().all(|other| can_suspend(view, *other))
            };
            let cores = view.topology.nodes()[of.node.0 as usize].facts.cpus;
            let ranks = cores.zip(need.cpus).map_or(u32::MAX, |(cores, each)| cores / u32::from(each.max(1)));
            let mut devices: Vec<(Load, DeviceId)> = of
                .devices
                .iter()
                .filter(is_open)
                .map(|device| (self.load(view, *device, job), *device))
                .collect();
            devices.sort_unstable();
            devices.truncate(ranks as usize);
            let load = devices.last().map_or((0, 0), |(load, _)| *load);
            let pool = of.devices.first().map(|device| view.occupancy.pool_of(*device));
            (pool, load, Reverse(devices.len()), devices)
        };
        let mut nodes: Vec<_> = candidates.iter().map(open).collect();
        nodes.sort();
        // All devices of a job are of one type.
        nodes.chunk_by(|a, b| a.0 == b.0).find_map(|of_pool| {
            let most = match view.placement {
                Placement::Consolidated => view.occupancy.fewest_nodes(of_pool[0].0?, need.devices)?,
                Placement::Spread => of_pool.len(),
            };
            // The largest of the least loaded nodes, as soon as they are enough.
            (1..=of_pool.len()).find_map(|number| {
                let mut chosen: Vec<_> = of_pool[..number].iter().collect();
                chosen.sort_by_key(|(_, _, open, _)| *open);
                chosen.truncate(most);
                chosen.sort();
                let devices = chosen.iter().flat_map(|(_, _, _, devices)| devices).map(|(_, device)| *device);
                let found: Vec<DeviceId> = devices.take(need.devices as usize).collect();
                (found.len() == need.devices as usize).then_some(found)
            })
        })
    }

    /// How busy a device would be for a job: the weight of the residents of its priority or a higher one, and of all. A resident of a higher
    /// priority or one that runs exclusively leaves it nothing.
    pub(super) fn load(&self, view: &View<'_>, device: DeviceId, job: JobId) -> Load {
        let own = view.request(job).priority;
        let mut load: Load = (0, 0);
        for &other in self.residents.on(device).iter().filter(|other| **other != job) {
            let asked = view.request(other);
            let is_exclusive = asked.priority > own || self.searches.standing(other) == Standing::Favoured;
            let weight = if is_exclusive { EXCLUSIVE } else { asked.weight };
            load.0 = load.0.saturating_add(if asked.priority >= own { weight } else { 0 });
            load.1 = load.1.saturating_add(weight);
        }
        load
    }
}

/// The weight of the residents of a device that are not less important than a job, and the weight of all.
pub(super) type Load = (u32, u32);

/// The weight of a resident that runs exclusively, which is above that of any number of others.
const EXCLUSIVE: u32 = 1 << 24;

fn candidate(view: &View<'_>, residents: &Residents, node: NodeId) -> Candidate {
    let mut devices: Vec<DeviceId> =
        devices_of(view, node).filter(|device| !view.occupancy.is_lost(*device)).collect();
    devices.sort_by_key(|device| !residents.on(*device).is_empty());
    let free = devices.iter().filter(|device| residents.on(**device).is_empty()).count() as u32;
    Candidate { node, devices, free, affinity: residents.affinity(node) }
}

/// Whether the nodes of these devices have as many cores for each device as these jobs ask for together, if no other job has any.
pub(super) fn has_cores(view: &View<'_>, jobs: &[JobId], devices: &[DeviceId]) -> bool {
    let Some(each) = cpus(view, jobs).filter(|_| view.occupancy.counts_cpus()) else { return true };
    let mut nodes: Vec<NodeId> = devices.iter().map(|device| view.topology.node_of(*device)).collect();
    nodes.sort_unstable();
    nodes.chunk_by(|a, b| a == b).all(|same| {
        let cores = view.topology.nodes()[same[0].0 as usize].facts.cpus;
        cores.is_none_or(|cores| u32::from(each) * same.len() as u32 <= cores)
    })
}

/// The cores that jobs ask for together for each device, if one of them asks for some.
pub(super) fn cpus(view: &View<'_>, jobs: &[JobId]) -> Option<u16> {
    jobs.iter().filter_map(|job| view.request(*job).cpus).reduce(u16::saturating_add)
}
