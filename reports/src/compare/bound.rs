//! Whether B is worse than a bound allows.
//!
//! `worse` is corrected for the number of rows, because one such row fails the comparison: if no row is above the bound,
//! the chance that any is called worse is 2.5 %. `within` is not corrected, because the comparison passes only if every row
//! is within: with a single row above the bound the chance to pass is 2.5 %, however many rows there are (R. L. Berger,
//! "Multiparameter Hypothesis Testing and Acceptance Sampling", Technometrics 24, 1982).

use record::rows::{BoundVerdict, Change, Verdict};

use super::{
    pair::{Evidence, Pair},
    verdicts::{SIGNIFICANCE, corrected, plan},
};

/// Both tests are one-sided, at the level of an end of the 95 % interval.
const ONE_SIDED: f64 = SIGNIFICANCE / 2.0;

/// Gives the verdicts on a ratio of 1 plus `above`, and says how many launches show that an unchanged row is within it.
pub(super) fn judge(pairs: &mut [Pair], above: f64) {
    let limit = 1.0 + above;
    let p_worse = corrected(pairs, |welch| welch.p_above(limit));
    for (Pair { change, evidence }, p_worse) in pairs.iter_mut().zip(p_worse) {
        change.p_worse_holm = p_worse;
        change.bound_verdict = Some(match (change.verdict, &*evidence) {
            (Verdict::Failed, _) => BoundVerdict::Worse,
            // A job with a time has run. A peak that is missing beside the time is unknown, and the comparison cannot tell.
            (Verdict::Missing, _) if !change.quantity.is_memory() => BoundVerdict::Worse,
            (_, Evidence::Exact) if change.ratio.is_some_and(|ratio| ratio <= limit) => BoundVerdict::Within,
            (_, Evidence::Exact) => BoundVerdict::Worse,
            (_, Evidence::Test { .. }) if p_worse.is_some_and(|p| p < ONE_SIDED) => BoundVerdict::Worse,
            (_, Evidence::Test { .. }) if is_below(change, limit) => BoundVerdict::Within,
            _ => BoundVerdict::CannotTell,
        });
    }
    plan(pairs, limit, SIGNIFICANCE);
}

fn is_below(change: &Change, limit: f64) -> bool {
    change.ratio_ci_hi.is_some_and(|hi| hi < limit)
}
