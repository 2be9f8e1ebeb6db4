//! One row of a comparison, with what its tests are made of.

use record::rows::{Change, ChangeQuantity, Verdict, Warnings};
use statistics::welch::{self, Launches, Welch};

use super::side::{Number, Subject};

/// A number of A beside that of B, if B has one.
pub(super) struct Pair {
    pub(super) change: Change,
    pub(super) evidence: Evidence,
}

pub(super) enum Evidence {
    /// The launches of a run, or of both, vary.
    Test {
        a: Launches,
        b: Launches,
        welch: Welch,
    },
    /// Memory that several launches of each run agree on.
    Exact,
    None,
}

impl Pair {
    /// A number that B lacks.
    pub(super) fn without_b(
        subject: &Subject,
        quantity: ChangeQuantity,
        a: &Number,
        verdict: Verdict,
    ) -> Pair {
        let change = Change {
            quantity,
            job: subject.job.clone(),
            device: subject.device.clone(),
            sharing: subject.sharing.clone(),
            group: subject.seat.as_ref().map(|(group, _)| group.clone()),
            seat: subject.seat.as_ref().map(|(_, seat)| *seat),
            a: a.value,
            b: None,
            ratio: None,
            ratio_ci_lo: None,
            ratio_ci_hi: None,
            p: None,
            p_holm: None,
            verdict,
            detectable_ratio: None,
            launches_needed: None,
            bound_verdict: None,
            p_worse_holm: None,
            err: None,
            err_detail: None,
            warnings: Warnings::default(),
        };
        Pair { change, evidence: Evidence::None }
    }

    /// Two numbers, whose verdict is not given yet.
    pub(super) fn measured(subject: &Subject, quantity: ChangeQuantity, a: &Number, b: &Number) -> Pair {
        let Pair { mut change, .. } = Pair::without_b(subject, quantity, a, Verdict::CannotTell);
        change.b = Some(b.value);
        change.ratio = Some(b.value / a.value);
        let evidence = evidence(quantity, a, b);
        if let Evidence::Test { welch, .. } = &evidence {
            change.ratio_ci_lo = Some(welch.ratio.lo);
            change.ratio_ci_hi = Some(welch.ratio.hi);
            change.p = Some(welch.p);
        }
        Pair { change, evidence }
    }

    pub(super) fn welch(&self) -> Option<&Welch> {
        match &self.evidence {
            Evidence::Test { welch, .. } => Some(welch),
            Evidence::Exact | Evidence::None => None,
        }
    }
}

/// Times that do not vary are those of a clock that is too coarse, and no evidence.
fn evidence(quantity: ChangeQuantity, a: &Number, b: &Number) -> Evidence {
    let Some((a, b)) = a.launches.zip(b.launches) else { return Evidence::None };
    match welch::ratio(&a, &b) {
        Some(welch) => Evidence::Test { a, b, welch },
        None if quantity.is_memory() => Evidence::Exact,
        None => Evidence::None,
    }
}
