//! The table of a comparison.

use cli::table::{self, Table};
use record::rows::{BoundVerdict, Change, ChangeQuantity, Changes, Verdict};
use schema::{
    sharing::Sharing,
    units::{HumanBytes, Nanos},
};

/// One line for each row, with a short name for each group. Memory follows the time of its job.
pub(super) fn table(changes: &Changes) -> Table {
    let header = ["job", "where", "B over A", "95 % interval", "A", "B", "detects", "verdict"];
    let mut lines = table::new(&header);
    lines.mark_text(&["where", "verdict"]);
    let groups = groups(&changes.rows);
    for row in &changes.rows {
        lines.add_row(line(row, &groups));
    }
    lines
}

/// The groups of rows, in the order of the table. The first one is group 1.
pub(super) fn groups(rows: &[Change]) -> Vec<(&str, &Sharing)> {
    let mut groups = Vec::new();
    for row in rows {
        let group = row.group.as_deref().map(|name| (name, &row.sharing));
        groups.extend(group.filter(|group| !groups.contains(group)));
    }
    groups
}

/// The job and its device, or its group and seat.
pub(super) fn name(row: &Change, groups: &[(&str, &Sharing)]) -> String {
    let what = if row.quantity.is_memory() { "memory of " } else { "" };
    let preposition = if row.group.is_some() { "in" } else { "on" };
    format!("{what}{} {preposition} {}", row.job, whereabouts(row, groups))
}

fn whereabouts(row: &Change, groups: &[(&str, &Sharing)]) -> String {
    let Some((name, seat)) = row.group.as_deref().zip(row.seat) else { return row.device.clone() };
    let number = groups.iter().position(|group| *group == (name, &row.sharing)).map_or(0, |index| index + 1);
    format!("group {number}/{seat}")
}

fn line(row: &Change, groups: &[(&str, &Sharing)]) -> Vec<String> {
    let value = |value: f64| match row.quantity {
        ChangeQuantity::Alone => Nanos(value.round() as u64).to_string(),
        ChangeQuantity::PeakMemory | ChangeQuantity::HostMemory => {
            HumanBytes(value.round() as u64).to_string()
        }
        ChangeQuantity::Slowdown => format!("{value:.3}"),
    };
    let job = match row.quantity {
        ChangeQuantity::Alone | ChangeQuantity::Slowdown => row.job.clone(),
        ChangeQuantity::PeakMemory => "its tensor memory".into(),
        ChangeQuantity::HostMemory => "its host memory".into(),
    };
    let interval = ends_of(row);
    let ratio = |ratio: Option<f64>| table::or_dash(ratio.map(digits));
    vec![
        job,
        whereabouts(row, groups),
        ratio(row.ratio),
        table::or_dash(interval),
        value(row.a),
        table::or_dash(row.b.map(value)),
        ratio(row.detectable_ratio),
        verdict(row),
    ]
}

/// The ends of the interval of the ratio.
fn ends_of(row: &Change) -> Option<String> {
    row.ratio_ci_lo.zip(row.ratio_ci_hi).map(|(lo, hi)| format!("{} to {}", digits(lo), digits(hi)))
}

/// The ratio with its interval: `1.386 (0.746 to 2.576)`.
pub(super) fn interval_of(row: &Change) -> Option<String> {
    Some(format!("{} ({})", digits(row.ratio?), ends_of(row)?))
}

/// A ratio in few characters, however large it is.
pub(super) fn digits(ratio: f64) -> String {
    if ratio < 1e3 { format!("{ratio:.3}") } else { format!("{ratio:.0e}") }
}

/// The verdict on the bound, if there is one. A number that B lacks says why.
pub(super) fn verdict(row: &Change) -> String {
    match (row.verdict, row.bound_verdict) {
        (Verdict::Failed, _) => {
            let why = row.err.map(|err| err.to_string()).or_else(|| row.err_detail.clone());
            why.map_or("failed".into(), |why| format!("failed: {why}"))
        }
        (verdict @ (Verdict::Missing | Verdict::NotRequested), _) | (verdict, None) => words(verdict),
        (_, Some(BoundVerdict::Within)) => "within".into(),
        (_, Some(BoundVerdict::Worse)) => "worse".into(),
        (_, Some(BoundVerdict::CannotTell)) => "cannot tell".into(),
    }
}

/// A verdict as it is said in a sentence.
pub(super) fn words(verdict: Verdict) -> String {
    verdict.to_string().replace('-', " ")
}
