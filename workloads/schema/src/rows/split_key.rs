//! Which rows belong on the same side of a split into rows to learn from and rows to test on.

use std::collections::BTreeSet;

/// The same number for all rows whose groups are of the same workloads: whatever the seats, the batches, the plans, the
/// sharing modes and the runs, and however often a workload is in the group. A job alone is a group of one.
///
/// Rows that are split by this number, as by [`tested`], are tested on no group that was learnt from in another order or
/// another run. It is made from names alone, is stable over versions and machines, and evenly spread: the first four bytes,
/// least significant first, of the BLAKE3 hash of the names, in order, each once, each with a zero byte behind it.
pub fn split_key<'a>(workloads: impl IntoIterator<Item = &'a str>) -> u32 {
    let distinct: BTreeSet<&str> = workloads.into_iter().collect();
    let mut hasher = blake3::Hasher::new();
    for workload in distinct {
        // No name of a workload or a program holds a zero byte, so that no two sets run together into one text.
        hasher.update(workload.as_bytes()).update(&[0]);
    }
    let hash = hasher.finalize();
    let [a, b, c, d, ..] = *hash.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Those keys of a table whose rows are tested on, about a fifth of them.
///
/// The remainder of a key decides, so that a key is on the same side in every table. Where that would leave one side empty, the
/// smallest key is moved to the tests, or the largest away from them: only a table of a single key has no tests.
pub fn tested(keys: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let keys: BTreeSet<u32> = keys.into_iter().collect();
    let mut tested: BTreeSet<u32> = keys.iter().copied().filter(|key| key % 5 == 0).collect();
    if tested.len() == keys.len() {
        tested.pop_last();
    } else if tested.is_empty() && keys.len() > 1 {
        tested.extend(keys.first());
    }
    tested
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Catalog;

    proptest! {
        /// A row is a workload and its co-runners; each member of a group has one of its own.
        #[test]
        fn rows_of_one_workload_beside_the_same_ones_share_the_key(
            mut members in prop::collection::vec(prop::sample::select(vec!["lstm", "gpt2", "cmd-train-0f3a9c"]), 1..5),
            order in any::<prop::sample::Index>(),
            again in any::<prop::sample::Index>(),
        ) {
            let key = split_key(members.iter().copied());
            let turned = order.index(members.len());
            members.rotate_left(turned);
            prop_assert_eq!(split_key(members.iter().copied()), key, "in whatever order");
            members.push(members[again.index(members.len())]);
            prop_assert_eq!(split_key(members), key, "however often one is in it");
        }
    }

    #[test]
    fn the_key_is_what_it_always_was() {
        for (workloads, key) in [
            (&["lstm"][..], 3_873_123_486),
            (&["lstm", "gpt2"], 1_992_979_577),
            (&["gpt2", "lstm", "gpt2"], 1_992_979_577),
            (&[], 3_108_574_127),
        ] {
            assert_eq!(split_key(workloads.iter().copied()), key, "{workloads:?}");
        }
    }

    #[test]
    fn some_keys_of_two_are_tested_on_and_some_are_not() {
        for (keys, expected) in [
            (&[][..], &[][..]),
            (&[10], &[]),
            (&[11], &[]),
            (&[11, 12, 11], &[11]),
            (&[15, 10, 10], &[10]),
            (&[10, 11, 12], &[10]),
            (&[10, 11, 15, 16], &[10, 15]),
        ] {
            assert_eq!(tested(keys.iter().copied()), expected.iter().copied().collect(), "{keys:?}");
        }
    }

    #[test]
    fn groups_of_other_workloads_have_other_keys_evenly_spread() {
        let catalog = Catalog::embedded();
        let names: Vec<&str> = catalog.iter().map(|workload| workload.name.as_str()).collect();
        let pairs = || names.iter().enumerate().flat_map(|(i, a)| names[i..].iter().map(move |b| [*a, *b]));
        let keys: BTreeSet<u32> = pairs().map(split_key).collect();
        assert_eq!(keys.len(), pairs().count());
        let fifth = keys.iter().filter(|key| *key % 5 == 0).count() as f64 / keys.len() as f64;
        assert!((fifth - 0.2).abs() < 0.04, "{fifth}");
    }
}
