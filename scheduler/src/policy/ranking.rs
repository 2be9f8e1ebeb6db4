//! Jobs in the order of a policy. The order is updated and never sorted anew: the time of a turn grows with the logarithm of the
//! length of the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{cluster::JobId, occupancy::PoolId, view::View};

/// Jobs in order of a key, and of their numbers for equal keys.
#[derive(Clone, Debug)]
pub(super) struct SortedJobs<K> {
    by_key: BTreeSet<(K, JobId)>,
    key_of: HashMap<JobId, K>,
}

/// The devices that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) devices: u32,
    /// The devices of the type that the job asks for. `None` if it runs on any.
    pub(super) pool: Option<PoolId>,
    /// The CPUs of each rank, if it asks for some and the CPUs of nodes are counted.
    pub(super) cpus: Option<u16>,
}

/// Waiting jobs in order of a key, grouped by the devices that they need. If the first job of a group does not fit, no job of the
/// group does, so that a search for a job that fits examines only the first of each group.
#[derive(Clone, Debug)]
pub(super) struct Ranking<K> {
    by_need: BTreeMap<Need, BTreeSet<(K, JobId)>>,
    place_of: HashMap<JobId, (Need, K)>,
}

impl Need {
    pub(super) fn of(view: &View<'_>, job: JobId) -> Need {
        let asked = view.asked_by(job);
        let of_type = |wanted: &String| {
            let nodes = view.topology.nodes_for(&asked.virtual_cluster);
            let mut nodes = nodes.filter(|node| !node.devices.is_empty());
            nodes.find(|node| node.device_type == *wanted).map(|node| view.occupancy.pool_of(node.first))
        };
        let cpus = asked.cpus.filter(|cpus| *cpus > 0 && view.occupancy.counts_cpus());
        Need { devices: asked.devices, pool: asked.device_type.as_ref().and_then(of_type), cpus }
    }

    pub(super) fn allows(self, pool: PoolId) -> bool {
        self.pool.is_none_or(|wanted| wanted == pool)
    }
}

impl<K> Default for SortedJobs<K> {
    fn default() -> SortedJobs<K> {
        SortedJobs { by_key: BTreeSet::new(), key_of: HashMap::new() }
    }
}

impl<K> Default for Ranking<K> {
    fn default() -> Ranking<K> {
        Ranking { by_need: BTreeMap::new(), place_of: HashMap::new() }
    }
}

impl<K: Ord + Copy> SortedJobs<K> {
    /// Inserts a job, or moves it if it is there already.
    pub(super) fn put(&mut self, job: JobId, key: K) {
        self.remove(job);
        self.by_key.insert((key, job));
        self.key_of.insert(job, key);
    }

    pub(super) fn remove(&mut self, job: JobId) {
        if let Some(key) = self.key_of.remove(&job) {
            self.by_key.remove(&(key, job));
        }
    }

    pub(super) fn first(&self) -> Option<(K, JobId)> {
        self.by_key.first().copied()
    }
}

impl<K: Ord + Copy> Ranking<K> {
    /// Inserts a job, or moves it if it is there already.
    pub(super) fn put(&mut self, job: JobId, need: Need, key: K) {
        self.remove(job);
        self.by_need.entry(need).or_default().insert((key, job));
        self.place_of.insert(job, (need, key));
    }

    pub(super) fn remove(&mut self, job: JobId) {
        let Some((need, key)) = self.place_of.remove(&job) else { return };
        if let Some(alike) = self.by_need.get_mut(&need) {
            alike.remove(&(key, job));
            if alike.is_empty() {
                self.by_need.remove(&need);
            }
        }
    }

    /// The number of jobs up to this one, and of all. `None` if the job is not among them.
    pub(super) fn position(&self, job: JobId) -> Option<(usize, usize)> {
        let key = (self.place_of.get(&job)?.1, job);
        let before = |alike: &BTreeSet<(K, JobId)>| alike.iter().filter(|other| **other <= key).count();
        Some((self.by_need.values().map(before).sum(), self.place_of.len()))
    }

    /// The first of the jobs whose needs fit.
    pub(super) fn first_that(&self, fits: impl Fn(Need) -> bool) -> Option<(Need, JobId)> {
        let fitting = self.heads().filter(|(need, ..)| fits(*need));
        fitting.min_by_key(|&(_, key, job)| (key, job)).map(|(need, _, job)| (need, job))
    }

    /// The first job of each group as `(need, key, job)`, the smallest number of devices first.
    pub(super) fn heads(&self) -> impl Iterator<Item = (Need, K, JobId)> {
        self.by_need.iter().filter_map(|(need, alike)| alike.first().map(|&(key, job)| (*need, key, job)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_need() -> impl Strategy<Value = Need> {
        (1u32..5, prop::option::of((0u16..2).prop_map(PoolId)), prop::option::of(1u16..3))
            .prop_map(|(devices, pool, cpus)| Need { devices, pool, cpus })
    }

    proptest! {
        /// Compares both orders with a list that is sorted after each change.
        #[test]
        fn a_ranking_is_a_sorted_list(
            changes in prop::collection::vec((0u32..12, prop::option::of((any_need(), 0u8..6))), 0..60),
            within in 0u32..6,
        ) {
            let (mut ranking, mut order) = (Ranking::default(), SortedJobs::default());
            let mut list = BTreeMap::new();
            for (job, place) in changes {
                let job = JobId(job);
                match place {
                    Some((need, key)) => {
                        ranking.put(job, need, key);
                        order.put(job, key);
                        list.insert(job, (need, key));
                    }
                    None => {
                        ranking.remove(job);
                        order.remove(job);
                        list.remove(&job);
                    }
                }
                let mut sorted: Vec<(u8, JobId, Need)> =
                    list.iter().map(|(job, (need, key))| (*key, *job, *need)).collect();
                sorted.sort_unstable();
                let first = sorted.first().map(|&(_, job, need)| (need, job));
                prop_assert_eq!(ranking.first_that(|_| true), first);
                let fits = |need: Need| need.devices <= within && need.allows(PoolId(0));
                let fitting = sorted.iter().find(|(.., need)| fits(*need));
                prop_assert_eq!(ranking.first_that(fits), fitting.map(|&(_, job, need)| (need, job)));
                prop_assert_eq!(order.first(), sorted.first().map(|&(key, job, _)| (key, job)));
                for (need, key, job) in ranking.heads() {
                    let head = sorted.iter().find(|(.., wanted)| *wanted == need);
                    prop_assert_eq!(head, Some(&(key, job, need)));
                }
            }
        }
    }
}
