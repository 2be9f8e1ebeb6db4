//! The occupancy of devices: the jobs that hold each device, and the free devices of each node.

mod draft;
mod node_room;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

pub use draft::Draft;
pub use node_room::{NodeRoom, place};

use crate::{
    cluster::JobId,
    topology::{DeviceId, NodeId, Topology, VirtualClusterId},
};

/// The jobs that hold each device. A job that is leaving its devices does not hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    devices: Vec<Slot>,
    /// The number of free devices of each node.
    free_of: Vec<u32>,
    pools: Vec<Pool>,
    pool_of: Vec<PoolId>,
    /// The virtual cluster of each pool.
    virtual_cluster_of: Vec<Option<VirtualClusterId>>,
    lost: u32,
    node_of: Vec<NodeId>,
    /// The number of the first device of each node, and last the number of all devices.
    first_of: Vec<u32>,
    /// The CPUs of each node that no job was started with. `None` if the number of its CPUs is not known.
    free_cpus: Vec<Option<u32>>,
    counts_cpus: bool,
}

/// The number of a pool: the devices of one type, in a divided cluster of one type and of one virtual cluster. Pools are in the order
/// of virtual clusters, and then in that in which the topology first names their types. All devices of a job are of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(pub u16);

/// Pools with adjacent numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools(Range<u16>);

impl Iterator for Pools {
    type Item = PoolId;

    fn next(&mut self) -> Option<PoolId> {
        self.0.next().map(PoolId)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pool {
    free: u32,
    /// The number of devices that are not lost.
    present: u32,
    /// The nodes of the pool that have free devices, in order of the number of those.
    by_free: BTreeSet<(u32, NodeId)>,
    /// The nodes of the pool of which all devices are free, the largest first.
    whole: BTreeSet<(Reverse<u32>, NodeId)>,
    /// The number of devices of the largest node, of the two largest together, and so on.
    largest: Vec<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Slot {
    /// The jobs that hold the device, in the order in which they came.
    kept_by: Vec<JobId>,
    lost: bool,
}

impl Slot {
    fn is_free(&self) -> bool {
        !self.lost && self.kept_by.is_empty()
    }
}

impl Occupancy {
    /// Creates an occupancy in which all devices are free.
    pub fn new(topology: &Topology) -> Occupancy {
        let nodes = topology.nodes();
        let free_of: Vec<u32> = nodes.iter().map(|node| node.devices.len() as u32).collect();
        let mut kinds: Vec<(Option<VirtualClusterId>, &str)> = Vec::new();
        for node in nodes {
            let kind = (node.virtual_cluster, &*node.device_type);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds.sort_by_key(|(virtual_cluster, _)| *virtual_cluster);
        let mut pools = vec![Pool::default(); kinds.len()];
        let mut pool_of = Vec::new();
        for ((number, node), &free) in (0..).zip(nodes).zip(&free_of) {
            let kind = (node.virtual_cluster, &*node.device_type);
            let pool = kinds.iter().position(|known| *known == kind).unwrap_or_default();
            pool_of.push(PoolId(pool as u16));
            pools[pool].free += free;
            pools[pool].present += free;
            pools[pool].largest.push(free);
            if free > 0 {
                pools[pool].by_free.insert((free, NodeId(number)));
                pools[pool].whole.insert((Reverse(free), NodeId(number)));
            }
        }
        for pool in &mut pools {
            pool.largest.sort_unstable_by_key(|devices| Reverse(*devices));
            let mut sum = 0;
            pool.largest.iter_mut().for_each(|devices| {
                sum += *devices;
                *devices = sum;
            });
        }
        Occupancy {
            devices: vec![Slot::default(); topology.devices() as usize],
            pools,
            pool_of,
            virtual_cluster_of: kinds.iter().map(|(virtual_cluster, _)| *virtual_cluster).collect(),
            lost: 0,
            node_of: (0..topology.devices()).map(|device| topology.node_of(DeviceId(device))).collect(),
            first_of: nodes.iter().map(|node| node.first.0).chain([topology.devices()]).collect(),
            free_of,
            free_cpus: nodes.iter().map(|node| node.facts.cpus).collect(),
            counts_cpus: nodes.iter().any(|node| node.facts.cpus.is_some()),
        }
    }

    /// Forgets the CPUs of all nodes, so that they are not counted.
    pub fn without_cpus(mut self) -> Occupancy {
        self.free_cpus.fill(None);
        self.counts_cpus = false;
        self
    }

    /// Whether the number of CPUs of some node is known.
    pub fn counts_cpus(&self) -> bool {
        self.counts_cpus
    }

    /// The CPUs of a node that no job was started with. `None` if the number of its CPUs is not known.
    pub fn free_cpus(&self, node: NodeId) -> Option<u32> {
        self.free_cpus[node.0 as usize]
    }

    /// The first node with too few free CPUs for ranks on these devices, with the number that they need there, and the free ones.
    pub fn lacking_cpus(&self, devices: &[DeviceId], cpus: Option<u16>) -> Option<(NodeId, u32, u32)> {
        self.cpus_by_node(devices, cpus).into_iter().find_map(|(node, needed)| {
            let free = self.free_cpus(node).filter(|free| *free < needed)?;
            Some((node, needed, free))
        })
    }

    /// The CPUs of ranks on these devices by node. Empty if none are counted.
    fn cpus_by_node(&self, devices: &[DeviceId], cpus: Option<u16>) -> BTreeMap<NodeId, u32> {
        let mut of_nodes = BTreeMap::new();
        if let Some(cpus) = cpus.filter(|_| self.counts_cpus) {
            for device in devices {
                *of_nodes.entry(self.node_of[device.0 as usize]).or_default() += u32::from(cpus);
            }
        }
        of_nodes
    }

    /// The number of devices that no job holds and that are not lost.
    pub fn free(&self) -> u32 {
        self.pools.iter().map(|pool| pool.free).sum()
    }

    /// All pools of the topology.
    pub fn pools(&self) -> Pools {
        Pools(0..self.pools.len() as u16)
    }

    /// The pools of a virtual cluster.
    pub fn pools_of(&self, virtual_cluster: VirtualClusterId) -> Pools {
        let first = self.virtual_cluster_of.partition_point(|of| *of < Some(virtual_cluster));
        let end = self.virtual_cluster_of.partition_point(|of| *of <= Some(virtual_cluster));
        Pools(first as u16..end as u16)
    }

    /// The number of devices of a pool that no job holds and that are not lost.
    pub fn free_in(&self, pool: PoolId) -> u32 {
        self.pools[usize::from(pool.0)].free
    }

    pub fn pool_of(&self, device: DeviceId) -> PoolId {
        self.pool_of[self.node_of[device.0 as usize].0 as usize]
    }

    /// All nodes of a pool, in order.
    pub fn nodes_in(&self, pool: PoolId) -> impl Iterator<Item = NodeId> {
        (0..).zip(&self.pool_of).filter(move |(_, of)| **of == pool).map(|(node, _)| NodeId(node))
    }

    /// The smallest number of nodes of a pool that have `count` devices, free or not. `None` if all its nodes together have fewer.
    pub fn fewest_nodes(&self, pool: PoolId, count: u32) -> Option<usize> {
        let largest = &self.pools[usize::from(pool.0)].largest;
        let fewer = largest.iter().take_while(|devices| **devices < count).count();
        (fewer < largest.len()).then_some(fewer + 1)
    }

    /// The number of devices of a node, free or not.
    pub fn devices_of(&self, node: NodeId) -> u32 {
        self.first_of[node.0 as usize + 1] - self.first_of[node.0 as usize]
    }

    /// The number of free devices of a node.
    pub fn free_at(&self, node: NodeId) -> u32 {
        self.free_of[node.0 as usize]
    }

    /// The number of devices that are not lost.
    pub fn present(&self) -> u32 {
        self.devices.len() as u32 - self.lost
    }

    /// The number of devices of a pool that are not lost.
    pub fn present_in(&self, pool: PoolId) -> u32 {
        self.pools[usize::from(pool.0)].present
    }

    pub fn is_lost(&self, device: DeviceId) -> bool {
        self.devices[device.0 as usize].lost
    }

    /// The jobs that hold a device, in the order in which they came.
    pub fn kept_by(&self, device: DeviceId) -> &[JobId] {
        &self.devices[device.0 as usize].kept_by
    }

    /// The free devices of a node, in order.
    pub fn free_on(&self, node: NodeId) -> impl Iterator<Item = DeviceId> {
        let devices = self.first_of[node.0 as usize]..self.first_of[node.0 as usize + 1];
        devices.map(DeviceId).filter(|device| self.devices[device.0 as usize].is_free())
    }

    pub fn keep(&mut self, job: JobId, devices: &[DeviceId], cpus: Option<u16>) {
        for (node, needed) in self.cpus_by_node(devices, cpus) {
            if let Some(free) = &mut self.free_cpus[node.0 as usize] {
                *free -= needed;
            }
        }
        self.change(devices, |slot| slot.kept_by.push(job));
    }

    pub fn leave(&mut self, job: JobId, devices: &[DeviceId], cpus: Option<u16>) {
        for (node, needed) in self.cpus_by_node(devices, cpus) {
            if let Some(free) = &mut self.free_cpus[node.0 as usize] {
                *free += needed;
            }
        }
        self.change(devices, |slot| slot.kept_by.retain(|other| *other != job));
    }

    pub fn set_lost(&mut self, device: DeviceId, lost: bool) {
        let was_lost = self.is_lost(device);
        self.lost = self.lost + u32::from(lost) - u32::from(was_lost);
        let pool = self.pool_of(device);
        let present = &mut self.pools[usize::from(pool.0)].present;
        *present = *present + u32::from(was_lost) - u32::from(lost);
        self.change(&[device], |slot| slot.lost = lost);
    }

    /// Changes devices, and counts the free ones of each node anew.
    fn change(&mut self, mut devices: &[DeviceId], change: impl Fn(&mut Slot)) {
        while let Some(first) = devices.first() {
            let node = self.node_of[first.0 as usize];
            let is_there = |device: &&DeviceId| self.node_of[device.0 as usize] == node;
            let there = devices.iter().take_while(is_there).count();
            let before = self.free_of[node.0 as usize];
            let mut after = before;
            for device in &devices[..there] {
                let slot = &mut self.devices[device.0 as usize];
                after -= u32::from(slot.is_free());
                change(slot);
                after += u32::from(slot.is_free());
            }
            self.set_free(node, before, after);
            devices = &devices[there..];
        }
    }

    /// Sets the number of free devices of a node.
    fn set_free(&mut self, node: NodeId, before: u32, after: u32) {
        if before == after {
            return;
        }
        let all = self.devices_of(node);
        let pool = &mut self.pools[usize::from(self.pool_of[node.0 as usize].0)];
        self.free_of[node.0 as usize] = after;
        pool.free = pool.free + after - before;
        pool.by_free.remove(&(before, node));
        if after > 0 {
            pool.by_free.insert((after, node));
        }
        if before == all {
            pool.whole.remove(&(Reverse(all), node));
        }
        if after == all {
            pool.whole.insert((Reverse(all), node));
        }
    }
}

#[cfg(test)]
mod tests {
    use record::placement::Placement;

    use super::*;

    /// Free devices, by their numbers.
    fn free_devices(occupancy: &Occupancy, count: u32) -> Option<Vec<u32>> {
        let found = Draft::new(occupancy, Placement::Spread, occupancy.pools()).take(count, None)?;
        Some(found.iter().map(|device| device.0).collect())
    }

    #[test]
    fn a_job_gets_as_few_nodes_as_can_be_and_the_fullest_of_those() {
        let mut occupancy = Occupancy::new(&Topology::uniform(10, 4, "GPU"));
        assert_eq!((occupancy.free(), occupancy.present()), (10, 10));
        assert_eq!(free_devices(&occupancy, 2), Some(vec![8, 9]), "the last node has but two");
        assert_eq!(free_devices(&occupancy, 3), Some(vec![0, 1, 2]));
        assert_eq!(free_devices(&occupancy, 10).map(|found| found.len()), Some(10));
        assert_eq!(free_devices(&occupancy, 11), None);

        occupancy.keep(JobId(1), &[DeviceId(0)], None);
        assert_eq!(free_devices(&occupancy, 3), Some(vec![1, 2, 3]));
        assert_eq!(free_devices(&occupancy, 6), Some(vec![4, 5, 6, 7, 8, 9]));
        occupancy.keep(JobId(2), &[DeviceId(0)], None);
        occupancy.leave(JobId(1), &[DeviceId(0)], None);
        assert_eq!((occupancy.free(), occupancy.kept_by(DeviceId(0))), (9, &[JobId(2)][..]));
        occupancy.leave(JobId(2), &[DeviceId(0)], None);
        assert_eq!(occupancy, Occupancy::new(&Topology::uniform(10, 4, "GPU")));
    }

    #[test]
    fn a_lost_device_is_not_free() {
        let mut occupancy = Occupancy::new(&Topology::uniform(2, 2, "GPU"));
        occupancy.set_lost(DeviceId(0), true);
        assert_eq!((occupancy.free(), occupancy.present()), (1, 1));
        assert_eq!(free_devices(&occupancy, 1), Some(vec![1]));
        occupancy.set_lost(DeviceId(0), true);
        occupancy.set_lost(DeviceId(0), false);
        assert_eq!((occupancy.free(), occupancy.present()), (2, 2));
    }
}
