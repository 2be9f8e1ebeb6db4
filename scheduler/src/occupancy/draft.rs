//! The free devices during a decision. A policy places several jobs in one decision, and the occupancy changes only when the
//! decision is applied.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use schema::placement::Placement;

use super::{NodeRoom, Occupancy, PoolId, Pools, place};
use crate::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
};

/// A copy of an occupancy in which devices are taken and given back. Only nodes that change are copied, so that its cost does not
/// grow with the number of devices.
pub struct Draft<'a> {
    base: &'a Occupancy,
    placement: Placement,
    /// The pools in which jobs may be placed.
    pools: Pools,
    free: Vec<u32>,
    /// The free devices of each node that has changed.
    touched: BTreeMap<NodeId, BTreeSet<DeviceId>>,
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
        let taken: Vec<DeviceId> = self.free_on(node).iter().copied().take(most as usize).collect();
        self.change(node, |free| free.retain(|device| !taken.contains(device)));
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
                self.change(node, |free| free.extend([device]));
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

    fn free_on(&self, node: NodeId) -> BTreeSet<DeviceId> {
        self.touched.get(&node).cloned().unwrap_or_else(|| self.base.free_on(node).collect())
    }

    fn change(&mut self, node: NodeId, change: impl FnOnce(&mut BTreeSet<DeviceId>)) {
        let mut free = self.free_on(node);
        let pool = self.base.pool_of[node.0 as usize];
        let before = free.len() as u32;
        self.by_free.remove(&(pool, before, node));
        change(&mut free);
        let after = free.len() as u32;
        if after > 0 {
            self.by_free.insert((pool, after, node));
        }
        let of_pool = &mut self.free[usize::from(pool.0)];
        *of_pool = *of_pool + after - before;
        self.touched.insert(node, free);
    }
}

#[cfg(test)]
mod tests {
    use schema::device::Device;

    use super::*;
    use crate::topology::Topology;

    fn numbers(found: Option<Vec<DeviceId>>) -> Option<Vec<u32>> {
        found.map(|devices| devices.iter().map(|device| device.0).collect())
    }

    #[test]
    fn what_is_taken_is_not_given_twice_and_what_is_left_is_free() {
        let mut occupancy = Occupancy::new(&Topology::uniform(10, 4, "GPU"));
        occupancy.keep(JobId(1), &[DeviceId(4), DeviceId(5)], None);
        occupancy.keep(JobId(2), &[DeviceId(5)], None);
        let mut draft = Draft::new(&occupancy, Placement::Spread, occupancy.pools());
        assert_eq!(numbers(draft.take(2, None)), Some(vec![6, 7]), "of two nodes with two free, the first");
        assert_eq!(numbers(draft.take(1, None)), Some(vec![8]));
        draft.give_back(JobId(1), &[DeviceId(4), DeviceId(5)], None);
        assert_eq!(
            (draft.free_in(PoolId(0)), draft.fits(6, None), draft.fits(7, None)),
            (6, true, false),
            "job 2 keeps device 5"
        );
        assert_eq!(numbers(draft.take(6, None)), Some(vec![0, 1, 2, 3, 4, 9]));
        assert_eq!(numbers(draft.take(1, None)), None);
        assert_eq!(occupancy.free(), 8, "nothing was done");
    }

    #[test]
    fn what_is_held_is_neither_taken_nor_given_back() {
        let mut occupancy = Occupancy::new(&Topology::uniform(4, 4, "GPU"));
        occupancy.keep(JobId(1), &[DeviceId(0), DeviceId(1)], None);
        let mut draft = Draft::new(&occupancy, Placement::Consolidated, occupancy.pools());
        draft.hold(&[DeviceId(1), DeviceId(2)]);
        draft.give_back(JobId(1), &[DeviceId(0), DeviceId(1)], None);
        assert_eq!((draft.fits(3, None), numbers(draft.take(2, None))), (false, Some(vec![0, 3])));
    }

    #[test]
    fn a_job_is_not_split_over_two_types_of_device() {
        let mut nodes = Vec::from(Topology::uniform(2, 2, "A").nodes());
        nodes.extend_from_slice(Topology::uniform(4, 2, "B").nodes());
        let nodes = nodes.into_iter().map(|node| (node.name, node.device_type, node.devices));
        let mut occupancy = Occupancy::new(&Topology::new(nodes));
        let pools: Vec<PoolId> = occupancy.pools().collect();
        assert_eq!(pools.iter().map(|pool| occupancy.free_in(*pool)).collect::<Vec<_>>(), [2, 4]);
        assert_eq!((occupancy.pool_of(DeviceId(1)), occupancy.pool_of(DeviceId(2))), (PoolId(0), PoolId(1)));
        for (count, found) in
            [(2, Some(vec![0, 1])), (3, Some(vec![2, 3, 4])), (4, Some(vec![2, 3, 4, 5])), (5, None)]
        {
            assert_eq!(
                numbers(Draft::new(&occupancy, Placement::Spread, occupancy.pools()).take(count, None)),
                found,
                "{count}"
            );
        }
        occupancy.set_lost(DeviceId(5), true);
        assert_eq!(
            (
                occupancy.free(),
                numbers(Draft::new(&occupancy, Placement::Spread, occupancy.pools()).take(4, None))
            ),
            (5, None)
        );
    }

    #[test]
    fn a_consolidated_job_gets_whole_nodes_and_a_part_of_one() {
        // Three nodes of four devices, and the last with two.
        let mut occupancy = Occupancy::new(&Topology::uniform(14, 4, "GPU"));
        let take = |occupancy: &Occupancy, count| {
            let mut draft = Draft::new(occupancy, Placement::Consolidated, occupancy.pools());
            let fits = draft.fits(count, None);
            let found = numbers(draft.take(count, None));
            assert_eq!(fits, found.is_some(), "{count}");
            found
        };
        assert_eq!(take(&occupancy, 2), Some(vec![12, 13]));
        assert_eq!(take(&occupancy, 6), Some(vec![0, 1, 2, 3, 12, 13]), "the part is of the fullest node");
        assert_eq!(take(&occupancy, 14).map(|found| found.len()), Some(14));
        assert_eq!(take(&occupancy, 15), None);

        occupancy.keep(JobId(1), &[DeviceId(0)], None);
        assert_eq!(take(&occupancy, 3), Some(vec![1, 2, 3]));
        assert_eq!(take(&occupancy, 7), Some(vec![4, 5, 6, 7, 1, 2, 3]));
        assert_eq!(take(&occupancy, 8), Some(vec![4, 5, 6, 7, 8, 9, 10, 11]));
        occupancy.keep(JobId(2), &[DeviceId(5)], None);
        assert_eq!(take(&occupancy, 4), Some(vec![8, 9, 10, 11]));
        assert_eq!(take(&occupancy, 8), None, "12 devices are free, and one node is");
        occupancy.keep(JobId(3), &[DeviceId(9), DeviceId(12)], None);
        assert_eq!((take(&occupancy, 4), take(&occupancy, 3)), (None, Some(vec![1, 2, 3])));

        // What a decision has taken and given back counts.
        let mut draft = Draft::new(&occupancy, Placement::Consolidated, occupancy.pools());
        draft.give_back(JobId(1), &[DeviceId(0)], None);
        draft.give_back(JobId(2), &[DeviceId(5)], None);
        assert_eq!(numbers(draft.take(8, None)), Some(vec![0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!((draft.fits(3, None), draft.fits(4, None)), (true, false));
    }

    #[test]
    fn the_largest_nodes_are_taken_whole() {
        let node =
            |devices: u32| (format!("n{devices}"), "GPU".into(), (0..devices).map(Device::Cuda).collect());
        let mut occupancy = Occupancy::new(&Topology::new([2, 8, 4, 8].map(node)));
        let pool = PoolId(0);
        let fewest = [2, 8, 9, 16, 17, 22, 23].map(|count| occupancy.fewest_nodes(pool, count));
        assert_eq!(fewest, [Some(1), Some(1), Some(2), Some(2), Some(3), Some(4), None]);
        let nodes = |occupancy: &Occupancy, count| {
            let found = Draft::new(occupancy, Placement::Consolidated, occupancy.pools())
                .on_fewest_nodes(pool, count);
            found.map(|found| found.iter().map(|(node, part)| (node.0, *part)).collect::<Vec<_>>())
        };
        assert_eq!(nodes(&occupancy, 17), Some(vec![(1, 8), (3, 8), (0, 1)]));
        occupancy.keep(JobId(1), &[DeviceId(2)], None);
        assert_eq!(nodes(&occupancy, 17), Some(vec![(3, 8), (2, 4), (1, 5)]));
        assert_eq!(nodes(&occupancy, 16), None, "the smallest number is two nodes, of which one is in use");
    }
}
