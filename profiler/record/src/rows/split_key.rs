//! Which rows belong together in a split into training and test rows.

use std::collections::BTreeSet;

/// A number that is equal for all rows whose groups are of the same workloads, regardless of seats,
/// batches, plans, sharing modes, runs and repetitions of a workload in the group. A job alone is a group
/// of one.
///
/// In a split by this number, as by [`tested`], no test group was seen in training in another order or
/// another run. The number depends on names only, is stable over versions and machines, and evenly spread:
/// the first four bytes, least significant first, of the BLAKE3 hash of the distinct names in order, each
/// followed by a zero byte.
pub fn split_key<'a>(workloads: impl IntoIterator<Item = &'a str>) -> u32 {
    let distinct: BTreeSet<&str> = workloads.into_iter().collect();
    let mut hasher = blake3::Hasher::new();
    for workload in distinct {
        // Names contain no zero byte, so that different sets have different texts.
        hasher.update(workload.as_bytes()).update(&[0]);
    }
    let hash = hasher.finalize();
    let [a, b, c, d, ..] = *hash.as_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The keys of the test rows of a table, about a fifth of all keys.
///
/// The remainder of a key decides, so that a key is on the same side in every table. If that leaves one
/// side empty, the smallest key is moved to the tests, or the largest away from them. Only a table of a
/// single key has no tests.
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
    use schema::catalog::Catalog;

    use super::*;

    proptest! {
        /// A row is a workload and its co-runners. Each member of a group has a row.
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
