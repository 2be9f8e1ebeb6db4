//! What changed from one run to another: the comparison behind `report compare`.
//!
//! A job alone is compared by its step time, or by its duration if it has no steps, and a seat of a group by its
//! slowdown. The mean and the deviation of each side are recovered from the published interval, which is over
//! launches or, for a slowdown, over blocks. No file has the slowdowns of single blocks, so that this is the one
//! way that both quantities have.

mod differences;
mod side;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use record::rows::{Change, Changes, Quantity, Shift, Verdict};
use statistics::{holm, welch};

pub(crate) use self::side::ComparedRun;
use self::side::{Found, Number, Subject};

/// The probability with which any row may be called different if none is.
const SIGNIFICANCE: f64 = 0.05;

/// The changes from run A to run B, in the order of the tables of A.
pub(crate) fn changes(a: &ComparedRun, b: &ComparedRun) -> Changes {
    let mut of_b: BTreeMap<Subject, Found> = b.found().collect();
    let (mut rows, mut only_in_a) = (Vec::new(), Vec::new());
    let mut without_number = 0;
    for (subject, before) in a.found() {
        let Some(number) = &before.number else {
            if of_b.get(&subject).is_none_or(|after| after.number.is_none()) {
                of_b.remove(&subject);
                without_number += 1;
            }
            continue;
        };
        match of_b.remove(&subject) {
            Some(after) if after.number.is_some() || after.has_failed => {
                rows.push(change(subject, number, &before, after));
            }
            _ => only_in_a.push(subject.to_string()),
        }
    }
    judge(&mut rows);
    let (only_of_b, nothing): (Vec<_>, Vec<_>) =
        of_b.into_iter().partition(|(_, found)| found.number.is_some());
    Changes {
        a: a.name.clone(),
        b: b.name.clone(),
        differences: differences::between(&a.manifest, &b.manifest),
        shifts: Quantity::ALL.iter().filter_map(|&quantity| shift(quantity, &rows)).collect(),
        rows,
        only_in_a,
        only_in_b: only_of_b.iter().map(|(subject, _)| subject.to_string()).collect(),
        without_number: without_number + nothing.len() as u32,
    }
}

/// The rows of a comparison that are slower by more than this part after the correction, or failed in B.
pub(crate) fn regressions(changes: &Changes, above: f64) -> impl Iterator<Item = &Change> {
    let is_much = move |row: &Change| row.ratio.is_some_and(|ratio| ratio > 1.0 + above);
    changes.rows.iter().filter(move |row| match row.verdict {
        Verdict::Failed => true,
        Verdict::Slower => is_much(row),
        Verdict::Faster | Verdict::NoDifference | Verdict::CannotTell => false,
    })
}

fn change(subject: Subject, before: &Number, of_a: &Found, after: Found) -> Change {
    let launches = before.launches.zip(after.number.as_ref().and_then(|number| number.launches));
    let tested = launches.and_then(|(a, b)| welch::ratio(&a, &b));
    let value = after.number.map(|number| number.value);
    Change {
        quantity: subject.quantity,
        job: subject.job,
        device: subject.device,
        sharing: subject.sharing,
        group: subject.group,
        seat: subject.seat,
        a: before.value,
        b: value,
        ratio: value.map(|value| value / before.value),
        ratio_ci_lo: tested.map(|tested| tested.ratio.lo),
        ratio_ci_hi: tested.map(|tested| tested.ratio.hi),
        p: tested.map(|tested| tested.p),
        p_holm: None,
        verdict: if value.is_some() { Verdict::CannotTell } else { Verdict::Failed },
        err: after.err,
        err_detail: after.err_detail,
        warnings: of_a.warnings.iter().chain(after.warnings.iter()).collect(),
    }
}

/// Corrects the p-values for their number, and gives the verdicts that follow.
fn judge(rows: &mut [Change]) {
    let tested: Vec<(usize, f64)> =
        rows.iter().enumerate().filter_map(|(place, row)| Some((place, row.p?))).collect();
    let p_values: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    for ((place, _), p_holm) in tested.into_iter().zip(holm::adjusted(&p_values)) {
        let row = &mut rows[place];
        row.p_holm = Some(p_holm);
        row.verdict = match row.ratio {
            Some(ratio) if p_holm < SIGNIFICANCE && ratio > 1.0 => Verdict::Slower,
            Some(_) if p_holm < SIGNIFICANCE => Verdict::Faster,
            _ => Verdict::NoDifference,
        };
    }
}

fn shift(quantity: Quantity, rows: &[Change]) -> Option<Shift> {
    let of_quantity = rows.iter().filter(|row| row.quantity == quantity);
    let logs: Vec<f64> = of_quantity.filter_map(|row| row.ratio).map(f64::ln).collect();
    let ratio = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    (!logs.is_empty()).then_some(Shift { quantity, rows: logs.len() as u32, ratio })
}
