//! What is said below the table of a comparison.

use std::cmp::Reverse;

use record::rows::{BoundVerdict, Change, ChangeQuantity, Changes, Verdict, Warning};
use statistics::power;

use super::rows::{groups, name, words};
use crate::compare::NOTABLE;

/// The most rows whose number of launches is named.
const MOST_NAMED: usize = 10;

/// The lines below the table.
pub(super) fn below(changes: &Changes) -> Vec<String> {
    let mut lines = vec![format!("A: {}", changes.a), format!("B: {}", changes.b)];
    let groups = groups(&changes.rows);
    let legend =
        groups.iter().zip(1..).map(|((name, sharing), number)| format!("group {number}: {name} ({sharing})"));
    lines.extend(legend);
    if !groups.is_empty() {
        lines.push("group 1/0 is seat 0 of group 1".into());
    }
    lines.extend(doubts(changes));
    lines.push(verdicts(&changes.rows));
    lines.extend(changes.fail_above.map(|above| on_bound(&changes.rows, above)));
    lines.extend(changes.shifts.iter().map(|shift| {
        let what = in_words(shift.quantity);
        format!("{what}, geometric mean of B over A: {:.3} ({} rows)", shift.ratio, shift.rows)
    }));
    if !changes.shifts.is_empty() {
        let more = "A shift of all times together is more likely the machine than the code; `profile compare` with more runs \
                    measures how much runs differ.";
        lines.push(more.into());
    }
    lines.extend(needs(changes));
    lines
}

/// A part in percent, without the digits that rounding adds.
pub(super) fn percentage(part: f64) -> String {
    format!("{} %", (part * 1e8).round() / 1e6)
}

/// The rows with each warning.
fn doubts(changes: &Changes) -> impl Iterator<Item = String> {
    let groups = groups(&changes.rows);
    Warning::ALL.iter().filter_map(move |&warning| {
        let rows = changes.rows.iter().filter(|row| row.warnings.iter().any(|other| other == warning));
        let names: Vec<String> = rows.map(|row| name(row, &groups)).collect();
        (!names.is_empty()).then(|| format!("doubtful ({warning}): {}", names.join("; ")))
    })
}

fn verdicts(rows: &[Change]) -> String {
    let counts = Verdict::ALL.iter().filter_map(|&verdict| {
        let count = rows.iter().filter(|row| row.verdict == verdict).count();
        (count > 0).then(|| format!("{}: {count}", words(verdict)))
    });
    let tests = rows.iter().filter(|row| row.p.is_some()).count();
    format!("{} (p-values corrected for {tests} tests)", counts.collect::<Vec<_>>().join("; "))
}

fn on_bound(rows: &[Change], above: f64) -> String {
    let count = |verdict| rows.iter().filter(|row| row.bound_verdict == Some(verdict)).count();
    format!(
        "within {bound}: {}; worse: {}; cannot tell: {}",
        count(BoundVerdict::Within),
        count(BoundVerdict::Worse),
        count(BoundVerdict::CannotTell),
        bound = percentage(above)
    )
}

/// How many launches would tell the rows that were tested and cannot be told.
fn needs(changes: &Changes) -> Vec<String> {
    let is_untold = |row: &&Change| {
        let cannot_tell = match row.bound_verdict {
            Some(verdict) => verdict == BoundVerdict::CannotTell,
            None => row.verdict == Verdict::CannotTell,
        };
        cannot_tell && row.p.is_some()
    };
    let mut untold: Vec<&Change> = changes.rows.iter().filter(is_untold).collect();
    if untold.is_empty() {
        return Vec::new();
    }
    let aim = match changes.fail_above {
        Some(0.0) => return vec!["No number of launches shows that an unchanged row is within 0 %.".into()],
        Some(above) => format!("show that an unchanged row is within {}", percentage(above)),
        None => format!("find a change of {}", percentage(NOTABLE)),
    };
    untold.sort_by_key(|row| Reverse(row.launches_needed.unwrap_or(u32::MAX)));
    let groups = groups(&changes.rows);
    let mut lines =
        vec![format!("To {aim} with a probability of 80 %, each side needs this many launches or blocks:")];
    lines.extend(
        untold
            .iter()
            .take(MOST_NAMED)
            .map(|row| format!("  {}: {}", name(row, &groups), launches_needed(row))),
    );
    if untold.len() > MOST_NAMED {
        lines.push(format!(
            "  and {} rows that need at most as many; --json has them",
            untold.len() - MOST_NAMED
        ));
    }
    lines
}

/// The number of launches with which a tested row would be told.
pub(super) fn launches_needed(row: &Change) -> String {
    let most = || format!("more than {}", power::MOST_LAUNCHES);
    row.launches_needed.map_or_else(most, |count| count.to_string())
}

fn in_words(quantity: ChangeQuantity) -> &'static str {
    match quantity {
        ChangeQuantity::Alone => "times alone",
        ChangeQuantity::PeakMemory => "peaks of tensor memory",
        ChangeQuantity::HostMemory => "peaks of host memory",
        ChangeQuantity::Slowdown => "slowdowns",
    }
}
