//! The free devices during a decision. A policy places several jobs in one decision, and the occupancy changes only when the
//! decision is applied.

use std::collections::{BTreeMap, BTreeSet};

use super::{Occupancy, PoolId};
use crate::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
};

/// A copy of an occupancy in which devices are taken and given back. Only nodes that change are copied, so that its cost does not
/// grow with the number of devices.
pub struct Draft<'a> {
    base: &'a Occupancy,
    free: Vec<u32>,
    /// The free devices of each node that has changed.
    touched: BTreeMap<NodeId, BTreeSet<DeviceId>>,
    /// The changed nodes that have free devices, in order of pool and of the number of free devices.
    by_free: BTreeSet<(PoolId, u32, NodeId)>,
}

impl<'a> Draft<'a> {
    pub fn new(base: &'a Occupancy) -> Draft<'a> {
        let free = base.pools.iter().map(|pool| pool.free).collect();
        Draft { base, free, touched: BTreeMap::new(), by_free: BTreeSet::new() }
    }

    pub fn free_in(&self, pool: PoolId) -> u32 {
        self.free[usize::from(pool.0)]
    }

    /// The largest number of devices that a job can be given: those that are free in one pool.
    pub fn most(&self) -> u32 {
        self.free.iter().copied().max().unwrap_or(0)
    }

    /// Takes `count` free devices of the first pool that has them, as [`Draft::take_in`] does.
    pub fn take(&mut self, count: u32) -> Option<Vec<DeviceId>> {
        let pool = self.base.pools().find(|pool| self.free_in(*pool) >= count)?;
        self.take_in(pool, count)
    }

    /// Takes `count` free devices of a pool: on as few nodes as possible, of those on the fullest, lowest numbers first. Returns
    /// `None` if fewer are free. The time grows with `count` and with the logarithm of the number of nodes.
    pub fn take_in(&mut self, pool: PoolId, count: u32) -> Option<Vec<DeviceId>> {
        if count > self.free_in(pool) {
            return None;
        }
        let mut found = Vec::with_capacity(count as usize);
        while found.len() < count as usize {
            let left = count as usize - found.len();
            let node = self.fitting(pool, left as u32).or_else(|| self.emptiest(pool))?;
            let taken: Vec<DeviceId> = self.free_on(node).iter().copied().take(left).collect();
            self.change(node, |free| free.retain(|device| !taken.contains(device)));
            found.extend(taken);
        }
        Some(found)
    }

    /// Gives back the devices of a job that will leave them, except those that another job also holds.
    pub fn give_back(&mut self, job: JobId, devices: &[DeviceId]) {
        for &device in devices {
            let kept_by = self.base.kept_by(device);
            if kept_by == [job] && !self.base.is_lost(device) {
                let node = self.base.node_of[device.0 as usize];
                self.change(node, |free| free.extend([device]));
            }
        }
    }

    /// The node with the fewest free devices among those that have at least `count`, the first if there are several.
    fn fitting(&self, pool: PoolId, count: u32) -> Option<NodeId> {
        let as_was = self.base.pools[usize::from(pool.0)].by_free.range((count, NodeId(0))..);
        let as_was = as_was.copied().find(|(_, node)| !self.touched.contains_key(node));
        let touched = self.by_free.range((pool, count, NodeId(0))..);
        let touched = touched.map(|&(of, free, node)| (of, (free, node))).find(|(of, _)| *of == pool);
        as_was.into_iter().chain(touched.map(|(_, found)| found)).min().map(|(_, node)| node)
    }

    /// The node with the most free devices, the first if there are several.
    fn emptiest(&self, pool: PoolId) -> Option<NodeId> {
        let as_was = self.base.pools[usize::from(pool.0)].by_free.iter().rev();
        let most_as_was =
            as_was.map(|(free, node)| (*free, node)).find(|(_, node)| !self.touched.contains_key(node));
        let touched = self.by_free.range(..(PoolId(pool.0 + 1), 0, NodeId(0))).next_back();
        let most_touched = touched.filter(|(of, ..)| *of == pool).map(|&(_, free, _)| free);
        let most = most_as_was.map(|(free, _)| free).max(most_touched)?;
        self.fitting(pool, most)
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
    use super::*;
    use crate::topology::Topology;

    fn numbers(found: Option<Vec<DeviceId>>) -> Option<Vec<u32>> {
        found.map(|devices| devices.iter().map(|device| device.0).collect())
    }

    #[test]
    fn what_is_taken_is_not_given_twice_and_what_is_left_is_free() {
        let mut occupancy = Occupancy::new(&Topology::uniform(10, 4, "GPU"));
        occupancy.keep(JobId(1), &[DeviceId(4), DeviceId(5)]);
        occupancy.keep(JobId(2), &[DeviceId(5)]);
        let mut draft = Draft::new(&occupancy);
        assert_eq!(numbers(draft.take(2)), Some(vec![6, 7]), "of two nodes with two free, the first");
        assert_eq!(numbers(draft.take(1)), Some(vec![8]));
        draft.give_back(JobId(1), &[DeviceId(4), DeviceId(5)]);
        assert_eq!((draft.free_in(PoolId(0)), draft.most()), (6, 6), "job 2 keeps device 5");
        assert_eq!(numbers(draft.take(6)), Some(vec![0, 1, 2, 3, 4, 9]));
        assert_eq!(numbers(draft.take(1)), None);
        assert_eq!(occupancy.free(), 8, "nothing was done");
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
            assert_eq!(numbers(Draft::new(&occupancy).take(count)), found, "{count}");
        }
        occupancy.set_lost(DeviceId(5), true);
        assert_eq!((occupancy.free(), numbers(Draft::new(&occupancy).take(4))), (5, None));
    }
}
