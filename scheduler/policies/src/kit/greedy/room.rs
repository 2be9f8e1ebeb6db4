//! The room for waiting jobs: free devices, and those of running jobs that can be displaced. It is counted by bins. If jobs are
//! spread and CPUs are not counted, a bin is a pool. Otherwise a bin is a node, and a job may have devices of several.
//!
//! A job that needs CPUs, and any job that is spread over nodes whose CPUs are counted, is placed by a search over all nodes. It
//! displaces the last running jobs of a pool that leave a place, and of these only those on its nodes.

use std::collections::{BTreeMap, HashMap};

use engine::{
    cluster::JobId,
    occupancy::{self, NodeRoom, PoolId},
    topology::{DeviceId, NodeId},
    view::View,
};
use record::placement::Placement;

use super::index::{Index, Reach};
use crate::kit::ranking::Need;

/// The number of a bin: that of its pool or of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BinId(pub(super) u32);

/// The devices of a bin.
#[derive(Clone, Debug)]
pub(super) struct Bin<K> {
    pub(super) free: u32,
    /// `None` if CPUs are not counted here.
    free_cpus: Option<u32>,
    /// The running jobs that can be displaced, in order of their keys, each with what it leaves here.
    pub(super) running: BTreeMap<(K, JobId), Leaves>,
}

/// The devices and the CPUs that a job leaves in a bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaves {
    pub(super) devices: u32,
    cpus: u32,
}

/// What a job leaves in each bin.
type Parts = Vec<(BinId, Leaves)>;

impl Leaves {
    fn add(&mut self, other: Leaves) {
        self.devices += other.devices;
        self.cpus += other.cpus;
    }
}

impl<K> Bin<K> {
    fn holds(&self, what: Leaves) -> bool {
        what.devices <= self.free && self.free_cpus.is_none_or(|free| what.cpus <= free)
    }

    fn give(&mut self, what: Leaves) {
        self.free += what.devices;
        self.free_cpus = self.free_cpus.map(|free| free + what.cpus);
    }

    fn take(&mut self, what: Leaves) {
        self.free -= what.devices;
        self.free_cpus = self.free_cpus.map(|free| free - what.cpus);
    }
}

/// The bins in which a job is placed, each with the number of its devices there.
pub(super) type Place = Vec<(BinId, u32)>;

pub(super) struct Room<K> {
    bins: Vec<Bin<K>>,
    /// Of each job that has devices: its key if it can be displaced, and what it leaves.
    on: HashMap<JobId, (Option<K>, Parts)>,
    /// The bins whose free devices may differ from those of the occupancy.
    outdated: Vec<BinId>,
    /// An index of nodes. `None` if jobs are spread.
    index: Option<Index<K>>,
    counts_cpus: bool,
}

impl<K: Ord + Copy> Room<K> {
    pub(super) fn new(view: &View<'_>) -> Room<K> {
        let counts_cpus = view.occupancy.counts_cpus();
        let (bins, outdated, index) = match view.placement {
            Placement::Spread if !counts_cpus => {
                let pools = view.pools().map(|pool| BinId(pool.0.into()));
                (view.occupancy.pools().count(), pools.collect(), None)
            }
            placement => {
                let nodes = view.pools().flat_map(|pool| view.occupancy.nodes_in(pool));
                let index =
                    (placement == Placement::Consolidated).then(|| Index::new(view.occupancy, view.pools()));
                (view.topology.nodes().len(), nodes.map(|node| BinId(node.0)).collect(), index)
            }
        };
        let bins = vec![Bin { free: 0, free_cpus: None, running: BTreeMap::new() }; bins];
        Room { bins, on: HashMap::new(), outdated, index, counts_cpus }
    }

    /// Whether a bin is a pool, and not a node.
    pub(super) fn is_by_pool(&self) -> bool {
        self.index.is_none() && !self.counts_cpus
    }

    fn bin_of(&self, view: &View<'_>, device: DeviceId) -> BinId {
        BinId(match self.is_by_pool() {
            true => view.occupancy.pool_of(device).0.into(),
            false => view.topology.node_of(device).0,
        })
    }

    /// Takes out a job that has changed, and puts it back if it has devices. It cannot be displaced until the caller says so.
    pub(super) fn update(&mut self, view: &View<'_>, job: JobId) {
        if let Some((key, place)) = self.on.remove(&job) {
            for (bin, _) in place {
                if let Some(key) = key {
                    self.bins[bin.0 as usize].running.remove(&(key, job));
                }
                self.mark(bin);
            }
        }
        let Some(placed) = view.job(job).placed() else { return };
        let mut place = Parts::new();
        for &device in &placed.devices {
            let bin = self.bin_of(view, device);
            // The number of devices that are free after the job has left: those that no other job holds and that are not lost.
            let leaves = view.occupancy.kept_by(device) == [job] && !view.occupancy.is_lost(device);
            let leaves = Leaves { devices: leaves.into(), cpus: placed.cpus.unwrap_or(0).into() };
            match place.last_mut() {
                Some((last, all)) if *last == bin => all.add(leaves),
                _ => place.push((bin, leaves)),
            }
        }
        place.iter().for_each(|(bin, _)| self.mark(*bin));
        self.on.insert(job, (None, place));
    }

    /// Notes that a device was lost or came back.
    pub(super) fn device_changed(&mut self, view: &View<'_>, device: DeviceId) {
        self.mark(self.bin_of(view, device));
    }

    /// Allows a job that has devices to be displaced.
    pub(super) fn may_displace(&mut self, job: JobId, key: K) {
        let Some((of, place)) = self.on.get_mut(&job) else { return };
        *of = Some(key);
        for &(bin, leaves) in &*place {
            self.bins[bin.0 as usize].running.entry((key, job)).or_default().add(leaves);
            if let Some(index) = &mut self.index {
                index.mark(NodeId(bin.0));
            }
        }
    }

    /// Updates the keys of these jobs. A job that cannot be displaced keeps its place.
    pub(super) fn renew(&mut self, keys: impl Iterator<Item = (JobId, K)>) {
        for (job, now) in keys {
            let Some((Some(key), parts)) = self.on.get_mut(&job).filter(|(key, _)| *key != Some(now)) else {
                continue;
            };
            for (bin, _) in parts {
                let running = &mut self.bins[bin.0 as usize].running;
                if let Some(leaves) = running.remove(&(*key, job)) {
                    running.insert((now, job), leaves);
                }
                if let Some(index) = &mut self.index {
                    index.mark(NodeId(bin.0));
                }
            }
            *key = now;
        }
    }

    /// Reads the free devices of the bins that have changed.
    pub(super) fn refresh(&mut self, view: &View<'_>) {
        for bin in std::mem::take(&mut self.outdated) {
            let (free, free_cpus) = match self.is_by_pool() {
                true => (view.occupancy.free_in(PoolId(bin.0 as u16)), None),
                false => (view.occupancy.free_at(NodeId(bin.0)), view.occupancy.free_cpus(NodeId(bin.0))),
            };
            let of = &mut self.bins[bin.0 as usize];
            (of.free, of.free_cpus) = (free, free_cpus);
            self.mark_in_index(bin);
        }
    }

    /// A place for a waiting job: in the first pool that has free devices for it, or else in the first that has
    /// them together with those of running jobs behind the key.
    pub(super) fn place(&mut self, view: &View<'_>, need: Need, key: K) -> Option<Place> {
        let wanted = need.devices;
        if need.cpus.is_some() || self.index.is_none() && !self.is_by_pool() {
            return self.search(view, need, key);
        }
        let Some(index) = &mut self.index else {
            let pool = self.pool(view, need, key)?;
            return Some(vec![(pool, wanted)]);
        };
        index.refresh(&self.bins);
        let mut place = |reaches: &dyn Fn(&Reach<K>) -> bool| {
            let mut pools = view.pools().filter(|pool| need.allows(*pool));
            pools.find_map(|pool| index.place(view.occupancy, &self.bins, pool, wanted, reaches))
        };
        place(&|reach| matches!(reach, Reach::Free(_))).or_else(|| place(&|reach| reach.is_behind(key)))
    }

    /// As [`Room::place`], by a search over all nodes.
    fn search(&self, view: &View<'_>, need: Need, key: K) -> Option<Place> {
        let pools = || view.pools().filter(|pool| need.allows(*pool));
        let at_once = pools().find_map(|pool| self.without(view, pool, need, &[]));
        at_once.or_else(|| {
            pools().find_map(|pool| {
                let of_node = |node: NodeId| self.bins[node.0 as usize].running.keys();
                let behind =
                    view.occupancy.nodes_in(pool).flat_map(of_node).filter(|(other, _)| *other > key);
                let mut behind: Vec<(K, JobId)> = behind.copied().collect();
                behind.sort_unstable_by(|a, b| b.cmp(a));
                behind.dedup();
                let numbers: Vec<usize> = (1..=behind.len()).collect();
                let too_few = |number: &usize| self.without(view, pool, need, &behind[..*number]).is_none();
                let enough = *numbers.get(numbers.partition_point(too_few))?;
                self.without(view, pool, need, &behind[..enough])
            })
        })
    }

    /// A place for a job on the free devices of a pool and those that these jobs leave.
    fn without(&self, view: &View<'_>, pool: PoolId, need: Need, jobs: &[(K, JobId)]) -> Option<Place> {
        let mut left = HashMap::<BinId, Leaves>::new();
        for (_, job) in jobs {
            for (bin, leaves) in self.parts_of(*job) {
                left.entry(*bin).or_default().add(*leaves);
            }
        }
        let room = |node: NodeId| {
            let bin = &self.bins[node.0 as usize];
            let left = left.get(&BinId(node.0)).copied().unwrap_or_default();
            let cpus = bin.free_cpus.map(|free| free + left.cpus);
            let devices = view.occupancy.devices_of(node);
            NodeRoom::new(node, devices, bin.free + left.devices, cpus, need.cpus)
        };
        let nodes = view.occupancy.nodes_in(pool).map(room).collect();
        let fewest = view.occupancy.fewest_nodes(pool, need.devices)?;
        let found = occupancy::place(view.placement, fewest, nodes, need.devices)?;
        Some(found.into_iter().map(|(node, count)| (BinId(node.0), count)).collect())
    }

    /// The first pool that has the free devices, or else the first that has them together with those of running jobs behind
    /// the key.
    fn pool(&self, view: &View<'_>, need: Need, key: K) -> Option<BinId> {
        let wanted = need.devices;
        let pools = || view.pools().filter(|pool| need.allows(*pool));
        let bins = || pools().map(|pool| (BinId(pool.0.into()), &self.bins[usize::from(pool.0)]));
        let at_once = bins().find(|(_, bin)| bin.free >= wanted);
        let found = at_once.or_else(|| {
            bins().find(|(_, bin)| {
                let mut behind = bin.running.iter().rev().take_while(|((other, _), _)| *other > key);
                let mut room = bin.free;
                behind.any(|(_, leaves)| {
                    room += leaves.devices;
                    room >= wanted
                })
            })
        });
        found.map(|(pool, _)| pool)
    }

    /// Gives a place to a waiting job. Returns the running jobs that it displaces: of each bin the last ones, as far as its devices
    /// are needed.
    pub(super) fn take(&mut self, place: &[(BinId, u32)], cpus: Option<u16>) -> Vec<(K, JobId)> {
        let mut displaced = Vec::new();
        for &(bin, devices) in place {
            let needed = Leaves { devices, cpus: devices * u32::from(cpus.unwrap_or(0)) };
            while !self.bins[bin.0 as usize].holds(needed) {
                let last = self.bins[bin.0 as usize].running.last_key_value();
                let Some((&(key, job), _)) = last else { break };
                self.displace(key, job);
                displaced.push((key, job));
            }
            self.bins[bin.0 as usize].take(needed);
            self.mark(bin);
        }
        displaced
    }

    fn displace(&mut self, key: K, job: JobId) {
        self.change(job, |bin, leaves| {
            bin.running.remove(&(key, job));
            bin.give(leaves);
        });
    }

    fn parts_of(&self, job: JobId) -> &[(BinId, Leaves)] {
        self.on.get(&job).map_or(&[], |(_, parts)| parts)
    }

    /// Changes the bins of a job.
    fn change(&mut self, job: JobId, mut with: impl FnMut(&mut Bin<K>, Leaves)) {
        let Some((_, parts)) = self.on.get(&job) else { return };
        for &(bin, leaves) in parts {
            with(&mut self.bins[bin.0 as usize], leaves);
            self.outdated.push(bin);
            if let Some(index) = &mut self.index {
                index.mark(NodeId(bin.0));
            }
        }
    }

    /// Whether a displaced job can keep its devices: none of its bins has given too many of them to another job.
    pub(super) fn has_room_for(&self, job: JobId) -> bool {
        self.parts_of(job).iter().all(|(bin, leaves)| self.bins[bin.0 as usize].holds(*leaves))
    }

    /// Lets a displaced job keep its devices.
    pub(super) fn keep(&mut self, key: K, job: JobId) {
        self.change(job, |bin, leaves| {
            bin.running.entry((key, job)).or_default().add(leaves);
            bin.take(leaves);
        });
    }

    fn mark(&mut self, bin: BinId) {
        self.outdated.push(bin);
        self.mark_in_index(bin);
    }

    fn mark_in_index(&mut self, bin: BinId) {
        if let Some(index) = &mut self.index {
            index.mark(NodeId(bin.0));
        }
    }
}
