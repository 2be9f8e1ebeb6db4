//! Whether B differs from A, and what could have been found.

use std::cmp::Ordering;

use record::rows::{ChangeQuantity, MOST_RATIO, Verdict};
use statistics::{holm, power, welch::Welch};

use super::pair::{Evidence, Pair};

/// The probability with which any row may be called different if none is.
pub(super) const SIGNIFICANCE: f64 = 0.05;

/// Gives the verdicts at the level of [`SIGNIFICANCE`] over all rows together, and the smallest ratio that each row would show.
pub(super) fn give(pairs: &mut [Pair]) {
    let p_holm = corrected(pairs, |welch| welch.p);
    let level = level_of_one(pairs);
    for (Pair { change, evidence }, p_holm) in pairs.iter_mut().zip(p_holm) {
        change.p_holm = p_holm;
        let is_shown = match evidence {
            Evidence::Test { .. } => p_holm.is_some_and(|p| p < SIGNIFICANCE),
            Evidence::Exact => true,
            Evidence::None => false,
        };
        if let (true, Some(ratio)) = (is_shown, change.ratio) {
            change.verdict = direction(change.quantity, ratio);
        }
        if let Evidence::Test { a, b, .. } = evidence {
            let ratio = power::detectable_ratio(a, b, level);
            change.detectable_ratio = ratio.filter(|ratio| *ratio <= MOST_RATIO);
        }
    }
}

/// Says how many launches each row needs so that a test at `level` finds this ratio.
pub(super) fn plan(pairs: &mut [Pair], ratio: f64, level: f64) {
    for Pair { change, evidence } in pairs {
        if let Evidence::Test { a, b, .. } = evidence {
            change.launches_needed = power::launches_to_find(a, b, ratio, level).map(|count| count as u32);
        }
    }
}

/// The level that Holm's method leaves to the row with the smallest p-value, as one that changes alone is.
pub(super) fn level_of_one(pairs: &[Pair]) -> f64 {
    SIGNIFICANCE / pairs.iter().filter_map(Pair::welch).count() as f64
}

/// One p-value of each row that has a test, corrected for their number.
pub(super) fn corrected(pairs: &[Pair], p_value: impl Fn(&Welch) -> f64) -> Vec<Option<f64>> {
    let p_values: Vec<f64> = pairs.iter().filter_map(Pair::welch).map(p_value).collect();
    let mut adjusted = holm::adjusted(&p_values).into_iter();
    pairs.iter().map(|pair| pair.welch().and_then(|_| adjusted.next())).collect()
}

fn direction(quantity: ChangeQuantity, ratio: f64) -> Verdict {
    match (quantity.is_memory(), ratio.total_cmp(&1.0)) {
        (false, Ordering::Greater) => Verdict::Slower,
        (false, _) => Verdict::Faster,
        (true, Ordering::Greater) => Verdict::More,
        (true, Ordering::Equal) => Verdict::Equal,
        (true, Ordering::Less) => Verdict::Less,
    }
}
