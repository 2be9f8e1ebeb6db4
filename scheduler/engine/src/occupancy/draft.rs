//! The free devices during a decision. A policy places several jobs in one decision, and the occupancy changes only when the
//! decision is applied.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use record::placement::Placement;

use super::{NodeRoom, Occupancy, PoolId, Pools, place};
use crate::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
};

/// A copy of an occupancy in which devices are taken and given back. Only nodes that change are copied, so that its cost does not
/// grow with the number of devices.
#[derive(Clone)]
pub struct Draft<'a> {
    base: &'a Occupancy,
    placement: Placement,
    /// The pools in which jobs may be placed.
    pools: Pools,
    free: Vec<u32>,
    /// The free devices of each node that has changed, in order.
    touched: BTreeMap<NodeId, Vec<DeviceId>>,
    /// The changed nodes that have free devices, in order of pool and of the number of free devices.
    by_free: BTreeSet<(PoolId, u32, NodeId)>,
    /// Devices that are not given back.
    held: BTreeSet<DeviceId>,
    /// The free CPUs of each node where CPUs were taken or given back.
    cpus: BTreeMap<NodeId, u32>,
}

impl<'a> Draft<'a> {
    pub fn new(base: &'a Occupancy, placement: Placement, pools: Pools) -> Draft<'a> {
        let free = base.pools.iter().map(|pool| pool.free).collect();
        let (touched, by_free) = (BTreeMap::new(), BTreeSet::new());
        let (held, cpus) = (BTreeSet::new(), BTreeMap::new());
        Draft { base, placement, pools, free, touched, by_free, held, cpus }
    }

    pub fn free_in(&self, pool: PoolId) -> u32 {
        self.free[usize::from(pool.0)]
    }

    /// Whether a job held a device before the decision.
    pub fn is_kept_by(&self, device: DeviceId, job: JobId) -> bool {
        self.base.kept_by(device).contains(&job)
    }

    /// Whether a job of `count` devices can be placed, in this pool or in any.
    pub fn fits(&self, count: u32, only: Option<PoolId>) -> bool {
        self.pools_among(only).any(|pool| match self.placement {
            Placement::Spread => count <= self.free_in(pool),
            Placement::Consolidated => self.on_fewest_nodes(pool, count).is_some(),
        })
    }

    /// Takes `count` free devices of this pool, or of the first that has them, as [`Draft::take_in`] does.
    pub fn take(&mut self, count: u32, only: Option<PoolId>) -> Option<Vec<DeviceId>> {
        self.pools_among(only).find_map(|pool| self.take_in(pool, count))
    }

    /// Whether a job of `count` devices that takes `cpus` for each can be placed, in this pool or in any.
    pub fn fits_with(&self, count: u32, only: Option<PoolId>, cpus: Option<u16>) -> bool {
        match cpus.filter(|_| self.base.counts_cpus) {
            Some(cpus) => self.pools_among(only).any(|pool| self.place_with(pool, count, cpus).is_some()),
            None => self.fits(count, only),
        }
    }

    /// Takes `count` free devices with `cpus` for each, as [`Draft::take`] does.
    pub fn take_with(
        &mut self,
        count: u32,
        only: Option<PoolId>,
        cpus: Option<u16>,
    ) -> Option<Vec<DeviceId>> {
        let Some(each) = cpus.filter(|_| self.base.counts_cpus) else { return self.take(count, only) };
        let place = self.pools_among(only).find_map(|pool| self.place_with(pool, count, each))?;
        let found: Vec<DeviceId> =
            place.into_iter().flat_map(|(node, part)| self.take_on(node, part)).collect();
        self.take_cpus(&found, cpus);
        Some(found)
    }

    /// Whether the nodes of these devices have as many free CPUs for each.
    pub fn has_cpus(&self, devices: &[DeviceId], cpus: Option<u16>) -> bool {
        let mut needed = self.base.cpus_by_node(devices, cpus).into_iter();
        needed.all(|(node, needed)| self.free_cpus(node).is_none_or(|free| needed <= free))
    }

    /// Takes CPUs for ranks on these devices.
    pub fn take_cpus(&mut self, devices: &[DeviceId], cpus: Option<u16>) {
        for (node, needed) in self.base.cpus_by_node(devices, cpus) {
            if let Some(free) = self.free_cpus(node) {
                self.cpus.insert(node, free.saturating_sub(needed));
            }
        }
    }

    fn free_cpus(&self, node: NodeId) -> Option<u32> {
        self.cpus.get(&node).copied().or(self.base.free_cpus(node))
    }

    fn place_with(&self, pool: PoolId, count: u32, cpus: u16) -> Option<Vec<(NodeId, u32)>> {
        let room = |node: NodeId| {
            let free = self.touched.get(&node).map_or(self.base.free_at(node), |free| free.len() as u32);
            NodeRoom::new(node, self.base.devices_of(node), free, self.free_cpus(node), Some(cpus))
        };
        let nodes = self.base.nodes_in(pool).map(room).collect();
        place(self.placement, self.base.fewest_nodes(pool, count)?, nodes, count)
    }

    fn pools_among(&self, only: Option<PoolId>) -> impl Iterator<Item = PoolId> + use<> {
        self.pools.clone().filter(move |pool| only.is_none_or(|only| only == *pool))
    }

    /// Takes `count` free devices of a pool, of each node those with the lowest numbers. The time grows with `count` and with the
    /// logarithm of the number of nodes. Returns `None` if the placement does not allow it now:
    ///
    /// * Spread: on as few nodes as possible, of those on the fullest.
    /// * Consolidated: on the smallest number of nodes that have `count` devices, free or not. A part of a node is taken of the
    ///   fullest in which it fits. Where a job needs several nodes, all but one are taken whole, the largest first. Lucid's
    ///   simulator (Hu et al., ASPLOS 2023) does the same, except that it takes the part of the emptiest node.
    pub fn take_in(&mut self, pool: PoolId, count: u32) -> Option<Vec<DeviceId>> {
        if count > self.free_in(pool) {
            return None;
        }
        let mut found = Vec::with_capacity(count as usize);
        if self.placement == Placement::Consolidated {
            for (node, part) in self.on_fewest_nodes(pool, count)? {
                found.extend(self.take_on(node, part));
            }
            return Some(found);
        }
        while found.len() < count as usize {
            let left = count - found.len() as u32;
            let node = self.fitting(pool, left, &[]).or_else(|| self.emptiest(pool))?;
            found.extend(self.take_on(node, left));
        }
        Some(found)
    }

    /// Takes the free devices with the lowest numbers of a node: `most` of them, or all if they are fewer.
    pub fn take_on(&mut self, node: NodeId, most: u32) -> Vec<DeviceId> {
        let mut taken = Vec::new();
        self.change(node, |free| taken.extend(free.drain(..free.len().min(most as usize))));
        taken
    }

    /// Gives back the devices of a job that will leave them, except those that another job also holds, and its CPUs.
    pub fn give_back(&mut self, job: JobId, devices: &[DeviceId], cpus: Option<u16>) {
        for (node, given) in self.base.cpus_by_node(devices, cpus) {
            if let Some(free) = self.free_cpus(node) {
                self.cpus.insert(node, free + given);
            }
        }
        for &device in devices {
            let kept_by = self.base.kept_by(device);
            if kept_by == [job] && !self.base.is_lost(device) && !self.held.contains(&device) {
                let node = self.base.node_of[device.0 as usize];
                self.change(node, |free| {
                    if let Err(place) = free.binary_search(&device) {
                        free.insert(place, device);
                    }
                });
            }
        }
    }

    /// Takes these devices, free or not. Those that are not free stay taken if their jobs give them back.
    pub fn hold(&mut self, devices: &[DeviceId]) {
        for &device in devices {
            self.held.insert(device);
            self.change(self.base.node_of[device.0 as usize], |free| free.retain(|free| *free != device));
        }
    }

    /// Takes all free devices of a node.
    pub fn close(&mut self, node: NodeId) {
        self.change(node, Vec::clear);
    }

    /// The nodes of a consolidated placement, each with the number of devices there.
    fn on_fewest_nodes(&self, pool: PoolId, count: u32) -> Option<Vec<(NodeId, u32)>> {
        let nodes = self.base.fewest_nodes(pool, count)?;
        if nodes == 1 {
            return self.fitting(pool, count, &[]).map(|node| vec![(node, count)]);
        }
        let mut whole = self.whole(pool, nodes - 1);
        if whole.len() < nodes - 1 {
            return None;
        }
        let left = count - whole.iter().map(|(_, devices)| devices).sum::<u32>();
        whole.push((self.fitting(pool, left, &whole)?, left));
        Some(whole)
    }

    /// The largest nodes of which all devices are free, at most this number of them, each with the number of its devices.
    fn whole(&self, pool: PoolId, most: usize) -> Vec<(NodeId, u32)> {
        let as_was = self.base.pools[usize::from(pool.0)].whole.iter().copied();
        let as_was = as_was.filter(|(_, node)| !self.touched.contains_key(node)).take(most);
        let touched = self
            .by_free
            .iter()
            .filter(|(of, free, node)| *of == pool && *free == self.base.devices_of(*node));
        let mut whole: Vec<_> = as_was.chain(touched.map(|&(_, free, node)| (Reverse(free), node))).collect();
        whole.sort_unstable();
        whole.truncate(most);
        whole.into_iter().map(|(Reverse(devices), node)| (node, devices)).collect()
    }

    /// The node with the fewest free devices among those that have at least `count` and are not in `except`. The first if there are
    /// several.
    fn fitting(&self, pool: PoolId, count: u32, except: &[(NodeId, u32)]) -> Option<NodeId> {
        let is_left = |node: NodeId| except.iter().all(|(other, _)| *other != node);
        let as_was = self.base.pools[usize::from(pool.0)].by_free.range((count, NodeId(0))..);
        let as_was = as_was.copied().find(|(_, node)| !self.touched.contains_key(node) && is_left(*node));
        let touched = self.by_free.range((pool, count, NodeId(0))..).take_while(|(of, ..)| *of == pool);
        let touched = touched.map(|&(_, free, node)| (free, node)).find(|(_, node)| is_left(*node));
        as_was.into_iter().chain(touched).min().map(|(_, node)| node)
    }

    /// The node with the most free devices, the first if there are several.
    fn emptiest(&self, pool: PoolId) -> Option<NodeId> {
        let as_was = self.base.pools[usize::from(pool.0)].by_free.iter().rev();
        let most_as_was =
            as_was.map(|(free, node)| (*free, node)).find(|(_, node)| !self.touched.contains_key(node));
        let touched = self.by_free.range(..(PoolId(pool.0 + 1), 0, NodeId(0))).next_back();
        let most_touched = touched.filter(|(of, ..)| *of == pool).map(|&(_, free, _)| free);
        let most = most_as_was.map(|(free, _)| free).max(most_touched)?;
        self.fitting(pool, most, &[])
    }

    fn change(&mut self, node: NodeId, change: impl FnOnce(&mut Vec<DeviceId>)) {
        let free = self.touched.entry(node).or_insert_with(|| self.base.free_on(node).collect());
        let pool = self.base.pool_of[node.0 as usize];
        let before = free.len() as u32;
        self.by_free.remove(&(pool, before, node));
        change(free);
        let after = free.len() as u32;
        if after > 0 {
            self.by_free.insert((pool, after, node));
        }
        let of_pool = &mut self.free[usize::from(pool.0)];
        *of_pool = *of_pool + after - before;
    }
}

#[cfg(test)]
mod tests;
