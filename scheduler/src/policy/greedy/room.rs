//! The room for waiting jobs: free devices, and those of running jobs that can be displaced. It is counted by bins. If jobs are
//! spread, a bin is a pool. If they are consolidated, a bin is a node, and a job may have devices of several.

use std::collections::{BTreeMap, HashMap};

use schema::placement::Placement;

use super::index::{Index, Reach};
use crate::{
    cluster::JobId,
    occupancy::PoolId,
    policy::ranking::Need,
    topology::{DeviceId, NodeId},
    view::View,
};

/// The number of a bin: that of its pool or of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BinId(pub(super) u32);

/// The devices of a bin.
#[derive(Clone, Debug)]
pub(super) struct Bin<K> {
    pub(super) free: u32,
    /// The running jobs that can be displaced, in order of their keys, each with the number of devices that it leaves here.
    pub(super) running: BTreeMap<(K, JobId), u32>,
}

/// The bins in which a job is placed, each with the number of its devices there.
pub(super) type Place = Vec<(BinId, u32)>;

pub(super) struct Room<K> {
    bins: Vec<Bin<K>>,
    /// The jobs that have devices, each with its key if it can be displaced.
    on: HashMap<JobId, (Option<K>, Place)>,
    /// The bins whose free devices may differ from those of the occupancy.
    outdated: Vec<BinId>,
    /// An index of nodes. `None` if jobs are spread.
    index: Option<Index<K>>,
}

impl<K: Ord + Copy> Room<K> {
    pub(super) fn new(view: &View<'_>) -> Room<K> {
        let (bins, outdated, index) = match view.placement {
            Placement::Spread => {
                let pools = view.pools().map(|pool| BinId(pool.0.into()));
                (view.occupancy.pools().count(), pools.collect(), None)
            }
            Placement::Consolidated => {
                let nodes = view.pools().flat_map(|pool| view.occupancy.nodes_in(pool));
                let index = Index::new(view.occupancy, view.pools());
                (view.topology.nodes().len(), nodes.map(|node| BinId(node.0)).collect(), Some(index))
            }
        };
        let bins = vec![Bin { free: 0, running: BTreeMap::new() }; bins];
        Room { bins, on: HashMap::new(), outdated, index }
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
        let mut place = Place::new();
        for &device in &placed.devices {
            let bin = bin_of(view, device);
            // The number of devices that are free after the job has left: those that no other job holds and that are not lost.
            let leaves = view.occupancy.kept_by(device) == [job] && !view.occupancy.is_lost(device);
            match place.last_mut() {
                Some((last, count)) if *last == bin => *count += u32::from(leaves),
                _ => place.push((bin, u32::from(leaves))),
            }
        }
        place.iter().for_each(|(bin, _)| self.mark(*bin));
        self.on.insert(job, (None, place));
    }

    /// Notes that a device was lost or came back.
    pub(super) fn device_changed(&mut self, view: &View<'_>, device: DeviceId) {
        self.mark(bin_of(view, device));
    }

    /// Allows a job that has devices to be displaced.
    pub(super) fn may_displace(&mut self, job: JobId, key: K) {
        let Some((of, place)) = self.on.get_mut(&job) else { return };
        *of = Some(key);
        for (bin, count) in place.clone() {
            *self.bins[bin.0 as usize].running.entry((key, job)).or_default() += count;
            self.mark_in_index(bin);
        }
    }

    /// Reads the free devices of the bins that have changed.
    pub(super) fn refresh(&mut self, view: &View<'_>) {
        for bin in std::mem::take(&mut self.outdated) {
            self.bins[bin.0 as usize].free = match view.placement {
                Placement::Spread => view.occupancy.free_in(PoolId(bin.0 as u16)),
                Placement::Consolidated => view.occupancy.free_at(NodeId(bin.0)),
            };
            self.mark_in_index(bin);
        }
    }

    /// A place for a waiting job: in the first pool that has free devices for it, or else in the first that has
    /// them together with those of running jobs behind the key.
    pub(super) fn place(&mut self, view: &View<'_>, need: Need, key: K) -> Option<Place> {
        let wanted = need.devices;
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
                    room += leaves;
                    room >= wanted
                })
            })
        });
        found.map(|(pool, _)| pool)
    }

    /// Gives a place to a waiting job. Returns the running jobs that it displaces: of each bin the last ones, as far as its devices
    /// are needed.
    pub(super) fn take(&mut self, place: &[(BinId, u32)]) -> Vec<(K, JobId)> {
        let mut displaced = Vec::new();
        for &(bin, count) in place {
            while self.bins[bin.0 as usize].free < count {
                let last = self.bins[bin.0 as usize].running.last_key_value();
                let Some((&(key, job), _)) = last else { break };
                self.displace(key, job);
                displaced.push((key, job));
            }
            self.bins[bin.0 as usize].free -= count;
            self.mark(bin);
        }
        displaced
    }

    fn displace(&mut self, key: K, job: JobId) {
        let Some((_, place)) = self.on.get(&job) else { return };
        for (bin, count) in place.clone() {
            let of = &mut self.bins[bin.0 as usize];
            of.running.remove(&(key, job));
            of.free += count;
            self.mark(bin);
        }
    }

    /// Whether a displaced job can keep its devices: none of its bins has given too many of them to another job.
    pub(super) fn has_room_for(&self, job: JobId) -> bool {
        let place = self.on.get(&job).map_or(&[][..], |(_, place)| place);
        place.iter().all(|(bin, count)| *count <= self.bins[bin.0 as usize].free)
    }

    /// Lets a displaced job keep its devices.
    pub(super) fn keep(&mut self, key: K, job: JobId) {
        let Some((_, place)) = self.on.get(&job) else { return };
        for (bin, count) in place.clone() {
            let of = &mut self.bins[bin.0 as usize];
            *of.running.entry((key, job)).or_default() += count;
            of.free -= count;
            self.mark(bin);
        }
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

fn bin_of(view: &View<'_>, device: DeviceId) -> BinId {
    BinId(match view.placement {
        Placement::Spread => view.occupancy.pool_of(device).0.into(),
        Placement::Consolidated => view.topology.node_of(device).0,
    })
}
