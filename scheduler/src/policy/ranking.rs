//! Jobs in the order of a policy. The order is updated and never sorted anew: the time of a turn grows with the logarithm of the
//! length of the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cluster::JobId;

/// Jobs in order of a key, and of their numbers for equal keys.
#[derive(Clone, Debug)]
pub(super) struct SortedJobs<K> {
    by_key: BTreeSet<(K, JobId)>,
    key_of: HashMap<JobId, K>,
}

/// Waiting jobs in order of a key, grouped by the number of devices that they need. If the first job of a group does not fit, no
/// job of the group does, so that a search for a job that fits examines only the first of each group.
#[derive(Clone, Debug)]
pub(super) struct Ranking<K> {
    by_devices: BTreeMap<u32, BTreeSet<(K, JobId)>>,
    place_of: HashMap<JobId, (u32, K)>,
}

impl<K> Default for SortedJobs<K> {
    fn default() -> SortedJobs<K> {
        SortedJobs { by_key: BTreeSet::new(), key_of: HashMap::new() }
    }
}

impl<K> Default for Ranking<K> {
    fn default() -> Ranking<K> {
        Ranking { by_devices: BTreeMap::new(), place_of: HashMap::new() }
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
    pub(super) fn put(&mut self, job: JobId, devices: u32, key: K) {
        self.remove(job);
        self.by_devices.entry(devices).or_default().insert((key, job));
        self.place_of.insert(job, (devices, key));
    }

    pub(super) fn remove(&mut self, job: JobId) {
        let Some((devices, key)) = self.place_of.remove(&job) else { return };
        if let Some(alike) = self.by_devices.get_mut(&devices) {
            alike.remove(&(key, job));
            if alike.is_empty() {
                self.by_devices.remove(&devices);
            }
        }
    }

    /// The first of all jobs, with the number of devices that it needs.
    pub(super) fn first(&self) -> Option<(u32, JobId)> {
        self.first_that(|_| true)
    }

    /// The first of the jobs whose number of devices fits.
    pub(super) fn first_that(&self, fits: impl Fn(u32) -> bool) -> Option<(u32, JobId)> {
        let fitting = self.heads().filter(|(wanted, ..)| fits(*wanted));
        fitting.min_by_key(|&(_, key, job)| (key, job)).map(|(wanted, _, job)| (wanted, job))
    }

    /// The first job of each group as `(devices, key, job)`, the smallest number of devices first.
    pub(super) fn heads(&self) -> impl Iterator<Item = (u32, K, JobId)> {
        self.by_devices
            .iter()
            .filter_map(|(devices, alike)| alike.first().map(|&(key, job)| (*devices, key, job)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares both orders with a list that is sorted after each change.
        #[test]
        fn a_ranking_is_a_sorted_list(
            changes in prop::collection::vec((0u32..12, prop::option::of((1u32..5, 0u8..6))), 0..60),
            within in 0u32..6,
        ) {
            let (mut ranking, mut order) = (Ranking::default(), SortedJobs::default());
            let mut list = BTreeMap::new();
            for (job, place) in changes {
                let job = JobId(job);
                match place {
                    Some((devices, key)) => {
                        ranking.put(job, devices, key);
                        order.put(job, key);
                        list.insert(job, (devices, key));
                    }
                    None => {
                        ranking.remove(job);
                        order.remove(job);
                        list.remove(&job);
                    }
                }
                let mut sorted: Vec<(u8, JobId, u32)> =
                    list.iter().map(|(job, (devices, key))| (*key, *job, *devices)).collect();
                sorted.sort_unstable();
                let first = sorted.first().map(|&(_, job, devices)| (devices, job));
                prop_assert_eq!(ranking.first(), first);
                let fits = sorted.iter().find(|(.., devices)| *devices <= within);
                prop_assert_eq!(ranking.first_that(|wanted| wanted <= within), fits.map(|&(_, job, devices)| (devices, job)));
                prop_assert_eq!(order.first(), sorted.first().map(|&(key, job, _)| (key, job)));
                for (devices, key, job) in ranking.heads() {
                    let head = sorted.iter().find(|(.., wanted)| *wanted == devices);
                    prop_assert_eq!(head, Some(&(key, job, devices)));
                }
            }
        }
    }
}
