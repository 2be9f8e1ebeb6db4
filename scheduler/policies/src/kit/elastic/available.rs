//! The nodes on which numbers of devices are found.

use std::{cmp::Reverse, collections::BTreeMap};

use engine::{
    cluster::JobId,
    occupancy::{NodeRoom, PoolId, place},
    topology::NodeId,
    view::View,
};

use super::Roster;
use crate::kit::moves::Moves;

/// The devices and the cores of each node that may be given to jobs.
#[derive(Clone)]
pub(crate) struct Available<'a> {
    view: &'a View<'a>,
    devices: Vec<u32>,
    /// `None` if the number of cores of a node is not known.
    cpus: Vec<Option<u32>>,
}

/// A number of devices that a job is to have, with cores for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) job: JobId,
    pub(crate) pool: PoolId,
    pub(crate) devices: u32,
    pub(crate) cpus: Option<u16>,
    /// The devices of each node that it has now, if it is to have as many. Empty if not.
    pub(crate) now: Vec<(NodeId, u32)>,
}

impl<'a> Available<'a> {
    /// What the jobs have that wait or may be stopped, and what is free.
    pub(crate) fn new(view: &'a View<'a>, roster: &Roster, moves: &Moves) -> Available<'a> {
        Available { view, devices: roster.room(view, moves), cpus: roster.cpus(view, moves) }
    }

    /// These numbers of devices and cores of each node.
    pub(crate) fn of(view: &'a View<'a>, devices: Vec<u32>, cpus: Vec<Option<u32>>) -> Available<'a> {
        Available { view, devices, cpus }
    }

    /// What the nodes of an empty cluster have.
    pub(super) fn empty(view: &'a View<'a>) -> Available<'a> {
        let nodes = view.topology.nodes();
        let counted = view.occupancy.counts_cpus();
        let devices = nodes.iter().map(|node| node.devices.len() as u32).collect();
        Available {
            view,
            devices,
            cpus: nodes.iter().map(|node| node.facts.cpus.filter(|_| counted)).collect(),
        }
    }

    /// The number of devices of a pool.
    pub(crate) fn of_pool(&self, pool: PoolId) -> u32 {
        self.view.occupancy.nodes_in(pool).map(|node| self.devices[node.0 as usize]).sum()
    }

    /// The number of devices of a node.
    pub(crate) fn at(&self, node: NodeId) -> u32 {
        self.devices[node.0 as usize]
    }

    /// Takes devices of nodes, with cores for each.
    pub(crate) fn take(&mut self, nodes: &[(NodeId, u32)], cpus: Option<u16>) {
        for &(node, devices) in nodes {
            self.devices[node.0 as usize] -= devices;
            if let (Some(free), Some(each)) = (&mut self.cpus[node.0 as usize], cpus) {
                *free = free.saturating_sub(devices * u32::from(each));
            }
        }
    }

    /// Whether nodes have cores for a further job on these devices.
    pub(crate) fn has_cpus(&self, nodes: &[(NodeId, u32)], cpus: Option<u16>) -> bool {
        let each = u32::from(cpus.unwrap_or_default());
        nodes
            .iter()
            .all(|(node, devices)| self.cpus[node.0 as usize].is_none_or(|free| free >= devices * each))
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&mut self, nodes: &[(NodeId, u32)], cpus: Option<u16>) {
        for &(node, devices) in nodes {
            self.devices[node.0 as usize] += devices;
            if let (Some(free), Some(each)) = (&mut self.cpus[node.0 as usize], cpus) {
                *free += devices * u32::from(each);
            }
        }
    }

    /// Finds devices of a pool, with cores for each, and takes them. They are chosen as by
    /// [`Draft::take_in`](engine::occupancy::Draft).
    pub(crate) fn find(
        &mut self,
        pool: PoolId,
        devices: u32,
        cpus: Option<u16>,
    ) -> Option<Vec<(NodeId, u32)>> {
        let occupancy = self.view.occupancy;
        let room = |node: NodeId| {
            let (free, free_cpus) = (self.devices[node.0 as usize], self.cpus[node.0 as usize]);
            NodeRoom::new(node, occupancy.devices_of(node), free, free_cpus, cpus)
        };
        let nodes = occupancy.nodes_in(pool).map(room).collect();
        let found = place(self.view.placement, occupancy.fewest_nodes(pool, devices)?, nodes, devices)?;
        self.take(&found, cpus);
        Some(found)
    }

    /// Whether nodes have these devices, with cores for each.
    pub(crate) fn has(&self, nodes: &[(NodeId, u32)], cpus: Option<u16>) -> bool {
        let has_devices = nodes.iter().all(|(node, devices)| self.devices[node.0 as usize] >= *devices);
        has_devices && self.has_cpus(nodes, cpus)
    }
}

/// The nodes for each job, and the devices that it has on them. Jobs that keep their number stay where they are; the others come
/// after them, the largest first. If one does not fit that way, all are placed anew, the largest first, and a job stays if it still
/// can. Jobs that do not fit are left out.
pub(crate) fn find_nodes(
    available: &Available<'_>,
    wanted: &[Wanted],
) -> BTreeMap<JobId, Vec<(NodeId, u32)>> {
    let mut in_order: Vec<&Wanted> = wanted.iter().collect();
    in_order.sort_by_key(|wanted| (wanted.now.is_empty(), Reverse(wanted.devices), wanted.job));
    let found = find_each(available.clone(), &in_order);
    if found.len() == wanted.len() {
        return found;
    }
    in_order.sort_by_key(|wanted| (Reverse(wanted.devices), wanted.now.is_empty(), wanted.job));
    let anew = find_each(available.clone(), &in_order);
    if anew.len() > found.len() { anew } else { found }
}

fn find_each(mut available: Available<'_>, wanted: &[&Wanted]) -> BTreeMap<JobId, Vec<(NodeId, u32)>> {
    let mut found = BTreeMap::new();
    for Wanted { job, pool, devices, cpus, now } in wanted {
        if !now.is_empty() && available.has(now, *cpus) {
            available.take(now, *cpus);
            found.insert(*job, now.clone());
        } else if let Some(nodes) = available.find(*pool, *devices, *cpus) {
            found.insert(*job, nodes);
        }
    }
    found
}
