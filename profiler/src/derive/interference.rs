//! Rows of `interference.csv` and `curves.csv`, what is doubtful about them, and groups that turned out not to be possible.

use colocate::{curves, slowdown};
use schema::{
    group::Group,
    manifest::{Cell, Manifest},
    rows::{Curve, ErrorKind, Interference, Measurement, Status, Warning},
    run_dir::RunDir,
    wire::Timing,
};

use super::{launch, rows_of};
use crate::warnings::Finding;

/// The tables of what jobs cost each other.
pub(super) fn of_all(
    manifest: &Manifest,
    measurements: &[Measurement],
) -> (Vec<Interference>, Vec<Curve>, Vec<Finding>) {
    let rows = slowdown::interference(&manifest.groups, measurements);
    let curves = curves::curves(&rows, &manifest.settings.stressors);
    let findings = rows.iter().filter_map(faster_together).collect();
    (rows, curves, findings)
}

fn faster_together(row: &Interference) -> Option<Finding> {
    let (lo, hi) = row.slowdown_ci_lo.zip(row.slowdown_ci_hi)?;
    let warning = row.warnings.iter().find(|warning| *warning == Warning::FasterTogether)?;
    let found = format!(
        "its steps take {:.3} ({lo:.3} to {hi:.3}) of what they take alone",
        row.slowdown.unwrap_or_default()
    );
    Some(Finding { subject: format!("{} in {} ({})", row.job, row.group, row.sharing), warning, found })
}

/// A row per member of each group that cannot run, as was known before the run began.
pub(super) fn unsupported_rows(run: &RunDir, manifest: &Manifest) -> Vec<Measurement> {
    let refused = |group: &Group| Some(rows_of_refused(run, manifest, group, group.unsupported.as_ref()?));
    manifest.groups.iter().filter_map(refused).flatten().collect()
}

/// The same of groups that take turns, now that `row` says of one of their members that it obeys no grant: nobody knows that
/// of a program before it has run.
pub(super) fn refused_by(
    run: &RunDir,
    manifest: &Manifest,
    row: &Measurement,
    known: &[Measurement],
) -> Vec<Measurement> {
    let mut rows = Vec::new();
    if !obeys_no_grant(row) {
        return rows;
    }
    let is_of = |cell: &&Cell| rows_of(cell, std::slice::from_ref(row)).len() == 1;
    let Some(cell) = manifest.cells.iter().find(is_of) else { return rows };
    let takes_turns = |group: &&Group| group.sharing.takes_turns() && group.members.contains(&cell.name);
    for group in manifest.groups.iter().filter(takes_turns) {
        if !known.iter().any(|row| row.group.as_ref() == Some(&group.name) && row.sharing == group.sharing) {
            let reason = format!("{} obeys no grant, so it cannot take turns with others", cell.job);
            rows.extend(rows_of_refused(run, manifest, group, &reason));
        }
    }
    rows
}

/// Whether a launch alone showed that its program does not speak the worker protocol.
pub fn obeys_no_grant(row: &Measurement) -> bool {
    row.status == Status::Ok && matches!(row.timing, Some(Timing::Outside | Timing::Scraped))
}

fn rows_of_refused(run: &RunDir, manifest: &Manifest, group: &Group, reason: &str) -> Vec<Measurement> {
    let seat = |(seat, member): (usize, &String)| {
        let cell = manifest.cells.iter().find(|cell| cell.name == *member)?;
        Some(Measurement {
            sharing: group.sharing.clone(),
            group: Some(group.name.clone()),
            seat: Some(seat as u32),
            status: Status::Unsupported,
            err: Some(ErrorKind::Unsupported),
            err_detail: Some(reason.into()),
            ..launch::blank(run, cell)
        })
    };
    group.members.iter().enumerate().filter_map(seat).collect()
}
