//! The free devices of a decision, and the times at which running jobs release the others if the policy stops no job.

use std::collections::BTreeMap;

use engine::{occupancy::PoolId, topology::NodeId, view::View};
use record::placement::Placement;

use super::{
    displace::Displacement,
    entry::{Entry, Now, RunOption},
};
use crate::kit::elastic::{Available, Target};

/// The end of a job on a node.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The index of the job among the entries.
    entry: usize,
    /// In seconds from now.
    after_s: f64,
    devices: u32,
}

/// The devices of a decision.
pub(super) struct Room<'a> {
    view: &'a View<'a>,
    pub(super) available: Available<'a>,
    ends: BTreeMap<NodeId, Vec<End>>,
    nodes: BTreeMap<PoolId, Vec<NodeId>>,
}

impl<'a> Room<'a> {
    /// `available` has the free devices, and the devices of jobs that the policy may stop.
    pub(super) fn new(view: &'a View<'a>, mut available: Available<'a>, entries: &[Entry]) -> Room<'a> {
        for entry in entries {
            if let Now::Runs(runs) = &entry.now {
                available.take(&runs.own, runs.target.cpus);
            }
        }
        let pools = view.pools();
        let nodes = pools.map(|pool| (pool, view.occupancy.nodes_in(pool).collect())).collect();
        let mut room = Room { view, available, ends: BTreeMap::new(), nodes };
        for (index, entry) in entries.iter().enumerate() {
            if let Some(runs) = entry.runs()
                && let Some(ends_s) = runs.ends_s
            {
                room.ends_after(index, &runs.target, ends_s);
            }
        }
        room
    }

    pub(super) fn is_spread(&self) -> bool {
        self.view.placement == Placement::Spread
    }

    /// The smallest number of nodes of a pool that have this many devices, free or not. `None` if there are too few.
    pub(super) fn fewest_nodes(&self, pool: PoolId, devices: u32) -> Option<usize> {
        self.view.occupancy.fewest_nodes(pool, devices)
    }

    /// Whether the nodes of a displacement have the cores for it once its victims have left.
    pub(super) fn has_cpus_without(
        &self,
        entries: &[Entry],
        displacement: &Displacement,
        cpus: Option<u16>,
    ) -> bool {
        if cpus.is_none() {
            return true;
        }
        let mut available = self.available.clone();
        for runs in displacement.victims.iter().filter_map(|index| entries[*index].runs()) {
            available.give_back(&runs.target.nodes, runs.target.cpus);
        }
        available.has(&displacement.nodes, cpus)
    }

    pub(super) fn nodes(&self, pool: PoolId) -> &[NodeId] {
        self.nodes.get(&pool).map_or(&[], |nodes| nodes)
    }

    /// Takes free devices for an option.
    pub(super) fn find(&mut self, pool: PoolId, option: &RunOption) -> Option<Target> {
        let nodes = self.available.find(pool, option.devices, option.cpus)?;
        Some(option.on(nodes))
    }

    /// Notes that a job has devices, and for how long in seconds.
    pub(super) fn ends_after(&mut self, entry: usize, target: &Target, after_s: f64) {
        for &(node, devices) in &target.nodes {
            self.ends.entry(node).or_default().push(End { entry, after_s, devices });
        }
    }

    /// Gives back the devices of a job.
    pub(super) fn give_back(&mut self, entry: usize, target: &Target) {
        self.available.give_back(&target.nodes, target.cpus);
        for (node, _) in &target.nodes {
            if let Some(ends) = self.ends.get_mut(node) {
                ends.retain(|end| end.entry != entry);
            }
        }
    }

    /// In how many seconds devices for an option become free if no job is stopped. Infinite if they never do.
    pub(super) fn wait_s(&self, pool: PoolId, option: &RunOption) -> f64 {
        if self.is_spread() {
            let free = self.available.of_pool(pool);
            let ends = self.nodes(pool).iter().filter_map(|node| self.ends.get(node)).flatten();
            return free_after(free, ends.copied().collect(), option.devices);
        }
        let Some(number) = self.fewest_nodes(pool, option.devices) else { return f64::INFINITY };
        let shares = shares(self, pool, option.devices, number);
        let mut wait_s = 0.0_f64;
        for (devices, count) in shares {
            let of_node = |node: &NodeId| {
                let ends = self.ends.get(node).cloned().unwrap_or_default();
                free_after(self.available.at(*node), ends, devices)
            };
            let mut waits: Vec<f64> = self.nodes(pool).iter().map(of_node).collect();
            waits.sort_by(f64::total_cmp);
            wait_s = wait_s.max(waits.get(count - 1).copied().unwrap_or(f64::INFINITY));
        }
        wait_s
    }
}

/// The devices of each node that consolidated devices take, and the number of such nodes: whole nodes, and one for the rest.
pub(super) fn shares(room: &Room<'_>, pool: PoolId, devices: u32, number: usize) -> Vec<(u32, usize)> {
    let sizes = room.nodes(pool).iter().map(|node| room.view.occupancy.devices_of(*node));
    let whole = sizes.max().unwrap_or(0);
    let rest = devices.saturating_sub(whole * (number as u32 - 1));
    match number {
        1 => vec![(devices, 1)],
        _ if rest == whole => vec![(whole, number)],
        _ => vec![(whole, number - 1), (rest, 1)],
    }
}

/// In how many seconds there are so many devices, of which some are free and others become free at these times.
fn free_after(free: u32, mut ends: Vec<End>, devices: u32) -> f64 {
    ends.sort_by(|a, b| a.after_s.total_cmp(&b.after_s));
    let (mut there, mut ends) = (free, ends.into_iter());
    let mut after_s = 0.0;
    while there < devices {
        let Some(end) = ends.next() else { return f64::INFINITY };
        there += end.devices;
        after_s = end.after_s;
    }
    after_s
}
