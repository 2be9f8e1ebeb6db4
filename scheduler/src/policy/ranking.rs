//! Jobs in the order of a policy, kept up to date instead of sorted: a turn costs the logarithm of the queue.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cluster::JobId;

/// Jobs in order of a key, ties by their place in the trace.
#[derive(Clone, Debug)]
pub(super) struct SortedJobs<K> {
    by_key: BTreeSet<(K, JobId)>,
    key_of: HashMap<JobId, K>,
}

/// Waiting jobs in order of a key, apart by the number of devices they want: of those that want equally many, none fits where the
/// first does not, so that a walk which skips what does not fit looks at the first of each alone.
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
    /// Puts a job where it belongs, wherever it was before.
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

    /// From the last to the first.
    pub(super) fn backwards(&self) -> impl Iterator<Item = (K, JobId)> {
        self.by_key.iter().rev().copied()
    }
}

impl<K: Ord + Copy> Ranking<K> {
    /// Puts a job where it belongs, wherever it was before.
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

    /// The first of all, with the number of devices it wants.
    pub(super) fn first(&self) -> Option<(u32, JobId)> {
        self.first_within(u32::MAX)
    }

    /// The first of those that want no more devices than these.
    pub(super) fn first_within(&self, devices: u32) -> Option<(u32, JobId)> {
        let alike = self.heads().take_while(|(wanted, ..)| *wanted <= devices);
        alike.min_by_key(|&(_, key, job)| (key, job)).map(|(wanted, _, job)| (wanted, job))
    }

    /// The first of each number of devices, the smallest number first: `(devices, key, job)`.
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
        /// Beside a list that is sorted each time it is asked.
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
                prop_assert_eq!(ranking.first_within(within), fits.map(|&(_, job, devices)| (devices, job)));
                prop_assert_eq!(order.first(), sorted.first().map(|&(key, job, _)| (key, job)));
                let backwards: Vec<_> = sorted.iter().rev().map(|&(key, job, _)| (key, job)).collect();
                prop_assert_eq!(order.backwards().collect::<Vec<_>>(), backwards);
                for (devices, key, job) in ranking.heads() {
                    let head = sorted.iter().find(|(.., wanted)| *wanted == devices);
                    prop_assert_eq!(head, Some(&(key, job, devices)));
                }
            }
        }
    }
}
