//! CPU time of a tree whose processes end.
//!
//! A process that has ended is counted twice: here with its last reading, and by the kernel at the parent that waited for it,
//! with all that the child and its children used. The kernel's entry also includes children that started and ended unseen. But
//! there is no entry if the parent ignores its children or has ended itself. Of the two, the larger counts.
//!
//! Both entries are lower bounds (the reading misses a child's last moments, and the kernel's entry is printed in ticks), and
//! so is their maximum, because nothing is counted twice in it.

use std::collections::BTreeMap;

/// The accounts of one tree.
#[derive(Debug, Default)]
pub(super) struct Tally {
    alive: BTreeMap<u32, Account>,
    /// CPU time of processes that ended without a parent in the tree.
    orphaned_ns: u64,
}

#[derive(Debug, Default)]
struct Account {
    parent: u32,
    own_ns: u64,
    /// The kernel's entry for children that ended: now, and at the reading before.
    reaped_ns: u64,
    reaped_before_ns: u64,
    /// The sum of the last readings of these children.
    ended_ns: u64,
}

impl Account {
    fn total_ns(&self) -> u64 {
        self.own_ns + self.reaped_ns.max(self.ended_ns)
    }
}

impl Tally {
    /// Enters a reading of a live process.
    pub(super) fn update(&mut self, pid: u32, parent: u32, own_ns: u64, reaped_ns: u64) {
        let account = self.alive.entry(pid).or_insert_with(|| Account { reaped_ns, ..Account::default() });
        account.parent = parent;
        account.own_ns = account.own_ns.max(own_ns);
        account.reaped_before_ns = account.reaped_ns;
        account.reaped_ns = account.reaped_ns.max(reaped_ns);
    }

    /// Closes the account of a process that existed at the reading before and does not exist at this one, after the live
    /// processes were entered. Of several processes that end at once, children come first.
    pub(super) fn end(&mut self, pid: u32) {
        let Some(account) = self.alive.remove(&pid) else { return };
        match self.alive.get_mut(&account.parent) {
            // The kernel's entry of the reading before cannot include this child yet.
            Some(parent) => {
                parent.ended_ns = parent.ended_ns.max(parent.reaped_before_ns) + account.total_ns();
            }
            None => self.orphaned_ns += account.total_ns(),
        }
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.orphaned_ns + self.alive.values().map(Account::total_ns).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_child_that_was_waited_for_counts_once() {
        let mut tally = Tally::default();
        tally.update(1, 0, 10, 0);
        tally.update(2, 1, 50, 0);
        assert_eq!(tally.total_ns(), 60);
        // Its end is seen before its parent's entry is read again ...
        tally.end(2);
        assert_eq!(tally.total_ns(), 60);
        tally.update(1, 0, 10, 55);
        assert_eq!(tally.total_ns(), 65, "the kernel saw the child's last moments");
        // ... or after.
        tally.update(3, 1, 7, 0);
        tally.update(1, 0, 10, 62);
        tally.end(3);
        assert_eq!(tally.total_ns(), 72);
    }

    #[test]
    fn a_child_that_was_not_waited_for_is_kept() {
        let mut tally = Tally::default();
        for child in [2, 3] {
            tally.update(1, 0, 10, 5);
            tally.update(child, 1, 50, 0);
            tally.update(1, 0, 10, 5);
            tally.end(child);
        }
        assert_eq!(tally.total_ns(), 10 + 5 + 50 + 50);
    }

    #[test]
    fn a_child_that_was_never_seen_is_in_its_parents_entry() {
        let mut tally = Tally::default();
        tally.update(1, 0, 10, 0);
        tally.update(1, 0, 10, 30);
        assert_eq!(tally.total_ns(), 40);
        tally.update(1, 0, 10, 30);
        tally.update(2, 1, 5, 0);
        tally.update(1, 0, 10, 90);
        tally.end(2);
        assert_eq!(tally.total_ns(), 100, "it ended together with another of 55");
    }

    #[test]
    fn a_whole_family_that_ends_at_once_is_kept() {
        let mut tally = Tally::default();
        tally.update(1, 0, 10, 0);
        tally.update(2, 1, 20, 7);
        tally.update(3, 2, 30, 0);
        for pid in [3, 2, 1] {
            tally.end(pid);
        }
        assert_eq!(tally.total_ns(), 10 + 20 + 7 + 30);
    }

    proptest! {
        /// Process `n` is the child of process `n / 2`; at every tick each works and some end.
        #[test]
        fn the_total_never_falls_and_never_exceeds_the_truth(
            ticks in prop::collection::vec(prop::collection::vec((0u64..100, prop::bool::weighted(0.1)), 8), 1..30),
            waits in any::<bool>(),
        ) {
            let mut tally = Tally::default();
            let (mut own, mut reaped, mut alive) = ([0; 8], [0; 8], [true; 8]);
            let mut last = 0;
            for tick in ticks {
                let mut ended = Vec::new();
                for pid in (1..8).rev().filter(|&pid| alive[pid]).collect::<Vec<_>>() {
                    let (work, ends) = tick[pid];
                    own[pid] += work;
                    let is_leaf = !(1..8).any(|child| child / 2 == pid && alive[child]);
                    if ends && pid > 1 && is_leaf {
                        alive[pid] = false;
                        ended.push(pid as u32);
                        if waits {
                            reaped[pid / 2] += own[pid] + reaped[pid];
                        }
                    }
                }
                for pid in (1..8).filter(|&pid| alive[pid]) {
                    tally.update(pid as u32, pid as u32 / 2, own[pid], reaped[pid]);
                }
                ended.into_iter().for_each(|pid| tally.end(pid));
                let (total, truth) = (tally.total_ns(), own.iter().sum::<u64>());
                prop_assert!(last <= total && total <= truth, "{last} {total} {truth}");
                prop_assert!(!waits || total == truth, "{total} {truth}");
                last = total;
            }
        }
    }
}
