//! What changed from one run to another: the comparison behind `report compare`.
//!
//! A job alone is compared by its step time, or by its duration if it has no steps, and by its peak of memory; a seat of a
//! group by its slowdown. The mean and the deviation of times and slowdowns are recovered from the published interval, which
//! is over launches or, for a slowdown, over blocks. No file has the slowdowns of single blocks, so that this is the one way
//! that both quantities have. Memory is published without an interval, and is taken from the launches.

mod bound;
pub(crate) mod differences;
mod pair;
pub(crate) mod paired;
mod side;
#[cfg(test)]
mod tests;
mod verdicts;

use std::collections::BTreeMap;

use record::rows::{Change, ChangeQuantity, Changes, Shift, Verdict};

pub(crate) use self::side::ComparedRun;
use self::{
    pair::Pair,
    side::{Cell, Number, Subject},
};

/// The change that a comparison without a bound is planned for.
pub(crate) const NOTABLE: f64 = 0.05;

/// The changes from run A to run B, in the order of the tables of A, with verdicts on the bound if there is one.
pub(crate) fn changes(a: &ComparedRun, b: &ComparedRun, fail_above: Option<f64>) -> Changes {
    let mut cells_of_b: BTreeMap<Subject, Cell> = b.cells().collect();
    let (mut pairs, mut only_in_a) = (Vec::new(), Vec::new());
    let mut without_number = 0;
    for (subject, before) in a.cells() {
        let Some(number) = &before.number else {
            if cells_of_b.get(&subject).is_none_or(|after| after.number.is_none()) {
                cells_of_b.remove(&subject);
                without_number += 1;
            }
            continue;
        };
        match cells_of_b.remove(&subject) {
            Some(after) if before.failures.0 == 0 && after.failures.0 > 0 && after.number.is_some() => {
                pairs.push(failed_in_part(&subject, number, &after));
            }
            Some(after) if after.number.is_some() => pairs.extend(in_both(&subject, &before, &after)),
            Some(after) if after.has_failed => pairs.push(failed(&subject, number, after)),
            _ => {
                let verdict = if b.requests(&subject) { Verdict::Missing } else { Verdict::NotRequested };
                pairs.push(Pair::without_b(&subject, subject.quantity(), number, verdict));
                only_in_a.push(subject.to_string());
            }
        }
    }
    judge(&mut pairs, fail_above);
    let rows: Vec<Change> = pairs.into_iter().map(|pair| pair.change).collect();
    let (only_of_b, nothing): (Vec<_>, Vec<_>) =
        cells_of_b.into_iter().partition(|(_, cell)| cell.number.is_some());
    Changes {
        a: a.name.clone(),
        b: b.name.clone(),
        differences: differences::between(("A", &a.manifest), ("B", &b.manifest)),
        fail_above,
        shifts: ChangeQuantity::ALL.iter().filter_map(|&quantity| shift(quantity, &rows)).collect(),
        rows,
        only_in_a,
        only_in_b: only_of_b.iter().map(|(subject, _)| subject.to_string()).collect(),
        without_number: without_number + nothing.len() as u32,
    }
}

/// Gives the verdicts, on the bound if there is one, and says what could have been found.
fn judge(pairs: &mut [Pair], fail_above: Option<f64>) {
    verdicts::give(pairs);
    match fail_above {
        Some(above) => bound::judge(pairs, above),
        None => {
            let level = verdicts::level_of_one(pairs);
            verdicts::plan(pairs, 1.0 + NOTABLE, level);
        }
    }
}

/// The time or slowdown of a subject, and the memory of a job.
fn in_both(subject: &Subject, before: &Cell, after: &Cell) -> Vec<Pair> {
    let Some((a, b)) = before.number.as_ref().zip(after.number.as_ref()) else { return Vec::new() };
    let mut pair = Pair::measured(subject, subject.quantity(), a, b);
    pair.change.warnings = before.warnings.iter().chain(after.warnings.iter()).collect();
    std::iter::once(pair).chain(memory(subject, before, after)).collect()
}

fn failed(subject: &Subject, a: &Number, after: Cell) -> Pair {
    let mut pair = Pair::without_b(subject, subject.quantity(), a, Verdict::Failed);
    (pair.change.err, pair.change.err_detail) = (after.err, after.err_detail);
    pair
}

/// A job of which some launches failed in B, and none in A.
fn failed_in_part(subject: &Subject, a: &Number, after: &Cell) -> Pair {
    let mut pair = Pair::without_b(subject, subject.quantity(), a, Verdict::Failed);
    let (failed, all) = after.failures;
    let what = if subject.seat.is_some() { "blocks" } else { "launches" };
    pair.change.err_detail = Some(format!("{failed} of {all} {what} failed"));
    pair
}

/// The memory of a job that has a time in both runs.
fn memory(subject: &Subject, before: &Cell, after: &Cell) -> Option<Pair> {
    let a = before.memory.as_ref()?;
    Some(match &after.memory {
        Some(b) if b.quantity == a.quantity => Pair::measured(subject, a.quantity, &a.number, &b.number),
        _ => Pair::without_b(subject, a.quantity, &a.number, Verdict::Missing),
    })
}

fn shift(quantity: ChangeQuantity, rows: &[Change]) -> Option<Shift> {
    let of_quantity = rows.iter().filter(|row| row.quantity == quantity);
    let logs: Vec<f64> = of_quantity.filter_map(|row| row.ratio).map(f64::ln).collect();
    let ratio = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    (!logs.is_empty()).then_some(Shift { quantity, rows: logs.len() as u32, ratio })
}
