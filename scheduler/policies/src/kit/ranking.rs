//! Jobs in the order of a policy. The order is updated and never sorted anew: the time of a turn grows with the logarithm of the
//! length of the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{cluster::JobId, occupancy::PoolId, view::View};

/// Jobs in order of a key, and of their numbers for equal keys.
#[derive(Clone, Debug)]
pub(crate) struct SortedJobs<K> {
    by_key: BTreeSet<(K, JobId)>,
    key_of: HashMap<JobId, K>,
}

/// The devices that a job needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    pub(crate) devices: u32,
    /// The devices of the type that the job asks for. `None` if it runs on any.
    pub(crate) pool: Option<PoolId>,
    /// The CPUs of each rank, if it asks for some and the CPUs of nodes are counted.
    pub(crate) cpus: Option<u16>,
}

/// Waiting jobs in order of a key, in groups: of those that need the same devices, unless a policy tells more of them apart. If the
/// first job of a group does not fit, no job of the group does, so that a search for a job that fits examines only the first of each
/// group.
#[derive(Clone, Debug)]
pub(crate) struct Ranking<K, G = Need> {
    groups: BTreeMap<G, BTreeSet<(K, JobId)>>,
    place_of: HashMap<JobId, (G, K)>,
}

impl Need {
    pub(crate) fn of(view: &View<'_>, job: JobId) -> Need {
        let asked = view.request(job);
        let of_type = |wanted: &String| {
            let nodes = view.topology.nodes_for(&asked.virtual_cluster);
            let mut nodes = nodes.filter(|node| !node.devices.is_empty());
            nodes.find(|node| node.device_type == *wanted).map(|node| view.occupancy.pool_of(node.first))
        };
        let cpus = asked.cpus.filter(|cpus| *cpus > 0 && view.occupancy.counts_cpus());
        Need { devices: asked.devices, pool: asked.device_type.as_ref().and_then(of_type), cpus }
    }

    pub(crate) fn allows(self, pool: PoolId) -> bool {
        self.pool.is_none_or(|wanted| wanted == pool)
    }
}

impl<K> Default for SortedJobs<K> {
    fn default() -> SortedJobs<K> {
        SortedJobs { by_key: BTreeSet::new(), key_of: HashMap::new() }
    }
}

impl<K, G> Default for Ranking<K, G> {
    fn default() -> Ranking<K, G> {
        Ranking { groups: BTreeMap::new(), place_of: HashMap::new() }
    }
}

impl<K: Ord + Copy> SortedJobs<K> {
    /// Inserts a job, or moves it if it is there already.
    pub(crate) fn put(&mut self, job: JobId, key: K) {
        self.remove(job);
        self.by_key.insert((key, job));
        self.key_of.insert(job, key);
    }

    pub(crate) fn remove(&mut self, job: JobId) {
        if let Some(key) = self.key_of.remove(&job) {
            self.by_key.remove(&(key, job));
        }
    }

    pub(crate) fn first(&self) -> Option<(K, JobId)> {
        self.by_key.first().copied()
    }
}

impl<K: Ord + Copy, G: Ord + Copy> Ranking<K, G> {
    /// Inserts a job, or moves it if it is there already.
    pub(crate) fn put(&mut self, job: JobId, group: G, key: K) {
        self.remove(job);
        self.groups.entry(group).or_default().insert((key, job));
        self.place_of.insert(job, (group, key));
    }

    pub(crate) fn remove(&mut self, job: JobId) {
        let Some((group, key)) = self.place_of.remove(&job) else { return };
        if let Some(alike) = self.groups.get_mut(&group) {
            alike.remove(&(key, job));
            if alike.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// The number of jobs up to this one, and of all. `None` if the job is not among them.
    pub(crate) fn position(&self, job: JobId) -> Option<(usize, usize)> {
        let key = (self.place_of.get(&job)?.1, job);
        let before = |alike: &BTreeSet<(K, JobId)>| alike.iter().filter(|other| **other <= key).count();
        Some((self.groups.values().map(before).sum(), self.place_of.len()))
    }

    /// The first of the jobs whose groups fit.
    pub(crate) fn first_that(&self, fits: impl Fn(G) -> bool) -> Option<(G, JobId)> {
        let fitting = self.heads().filter(|(group, ..)| fits(*group));
        fitting.min_by_key(|&(_, key, job)| (key, job)).map(|(group, _, job)| (group, job))
    }

    /// The first job of each group as `(group, key, job)`. Groups by need begin with the smallest number of devices.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (G, K, JobId)> {
        self.groups.iter().filter_map(|(group, alike)| alike.first().map(|&(key, job)| (*group, key, job)))
    }

    /// The first job of a group.
    pub(crate) fn head_of(&self, group: G) -> Option<(K, JobId)> {
        self.groups.get(&group)?.first().copied()
    }

    /// The group and the key of a job.
    pub(crate) fn place_of(&self, job: JobId) -> Option<(G, K)> {
        self.place_of.get(&job).copied()
    }

    /// All jobs, in the order of their keys.
    pub(crate) fn in_order(&self) -> Vec<JobId> {
        let mut jobs: Vec<(K, JobId)> = self.groups.values().flatten().copied().collect();
        jobs.sort_unstable();
        jobs.into_iter().map(|(_, job)| job).collect()
    }

    /// All jobs, in the order of their numbers.
    pub(crate) fn jobs(&self) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = self.place_of.keys().copied().collect();
        jobs.sort_unstable();
        jobs
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.place_of.is_empty()
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
