//! A small part of a large table in which everything still meets everything.

use std::collections::BTreeSet;

/// A factor and its value, and another factor and its value.
type Pair = [(usize, usize); 2];

/// So few of the rows that any two values of different columns which stand together in one of `rows` stand together in one
/// of these: an error that takes two things together is found, one that takes three may not be.
///
/// `values` gives the columns of a row. Takes the row with the most pairs that are missing, again and again.
pub(crate) fn pairwise<T: Clone>(rows: &[T], values: impl Fn(&T) -> Vec<usize>) -> Vec<T> {
    let pairs = |row: &T| -> BTreeSet<Pair> {
        let columns: Vec<_> = values(row).into_iter().enumerate().collect();
        let with_later = |(at, first): (usize, &(usize, usize))| {
            let first = *first;
            columns[at + 1..].iter().map(move |second| [first, *second]).collect::<Vec<_>>()
        };
        columns.iter().enumerate().flat_map(with_later).collect()
    };
    let of_rows: Vec<BTreeSet<Pair>> = rows.iter().map(pairs).collect();
    let mut missing: BTreeSet<Pair> = of_rows.iter().flatten().copied().collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain = |row: &usize| of_rows[*row].intersection(&missing).count();
        // The first of the best ones, as `max_by_key` alone would give the last.
        let best = (0..rows.len()).rev().max_by_key(gain).expect("what is missing stands in a row");
        missing = &missing - &of_rows[best];
        chosen.push(rows[best].clone());
    }
    chosen
}

#[test]
fn every_pair_of_values_that_a_table_has_stands_in_a_row() {
    let rows: Vec<[usize; 5]> =
        (0..48).map(|row| [row % 3, row / 3 % 2, row / 6 % 2, row / 12 % 2, row / 24]).collect();
    let chosen = pairwise(&rows, |row| row.to_vec());
    assert!((6..=8).contains(&chosen.len()), "six are the fewest: {chosen:?}");
    for (first, second) in (0..5).flat_map(|first| (0..first).map(move |second| (first, second))) {
        let met = |rows: &[[usize; 5]]| -> BTreeSet<_> {
            rows.iter().map(|row| (row[first], row[second])).collect()
        };
        assert_eq!(met(&chosen), met(&rows));
    }
}
