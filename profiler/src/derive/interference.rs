//! Rows of `interference.csv` and `curves.csv`, their warnings, and groups that turned out to be impossible.

use colocate::{curves, slowdown};
use record::{
    group::Group,
    manifest::{Cell, Manifest},
    rows::{Curve, ErrorKind, Interference, Measurement, Status, Warning},
    run_dir::RunDir,
    steps::read_each,
};
use schema::{
    events::EventError,
    sharing::Sharing,
    spec::LaunchSpec,
    wire::{Event, Timing},
};

use super::{is_of, is_of_group, launch};
use crate::warnings::Finding;

/// The tables of the costs of sharing.
pub(super) fn of_all(
    manifest: &Manifest,
    measurements: &[Measurement],
) -> (Vec<Interference>, Vec<Curve>, Vec<Finding>) {
    let rows = slowdown::interference(&manifest.groups, measurements);
    let curves = curves::curves(&rows, &manifest.settings.stressors);
    let findings =
        rows.iter().flat_map(|row| faster_together(row).into_iter().chain(blocks_failed(row))).collect();
    (rows, curves, findings)
}

fn faster_together(row: &Interference) -> Option<Finding> {
    let (lo, hi) = row.slowdown_ci_lo.zip(row.slowdown_ci_hi)?;
    let warning = row.warnings.iter().find(|warning| *warning == Warning::FasterTogether)?;
    let found = format!(
        "its steps take {:.3} ({lo:.3} to {hi:.3}) of what they take alone",
        row.slowdown.unwrap_or_default()
    );
    Some(Finding { subject: seat_name(&row.group, &row.sharing, row.seat), warning, found })
}

fn blocks_failed(row: &Interference) -> Option<Finding> {
    let warning = row.warnings.iter().find(|warning| *warning == Warning::BlocksFailed)?;
    let found = format!("{} of its {} blocks failed", row.blocks_failed, row.blocks + row.blocks_failed);
    Some(Finding { subject: seat_name(&row.group, &row.sharing, row.seat), warning, found })
}

/// The name of a member of a group, for people.
pub(super) fn seat_name(group: &str, sharing: &Sharing, seat: u32) -> String {
    format!("{group} ({sharing}), seat {seat}")
}

/// A row per member of each group that cannot run, as was known before the run began.
pub(super) fn unsupported_rows(run: &RunDir, manifest: &Manifest) -> Vec<Measurement> {
    let refused = |group: &Group| Some(rows_of_refused(run, manifest, group, group.unsupported.as_ref()?));
    manifest.groups.iter().filter_map(refused).flatten().collect()
}

/// Rows of groups whose mode needs what one of their members cannot do, as `row` shows. For a program of the user's this is only
/// known after it has run.
pub(super) fn refused_by(
    run: &RunDir,
    manifest: &Manifest,
    row: &Measurement,
    known: &[Measurement],
) -> anyhow::Result<Vec<Measurement>> {
    let mut rows = Vec::new();
    let is_of = |cell: &&Cell| cell.command.is_some() && is_of(cell, row);
    let Some(cell) = manifest.cells.iter().find(is_of) else { return Ok(rows) };
    let needs_steps = |group: &&Group| group.sharing.needs_steps() && group.members.contains(&cell.name);
    for group in manifest.groups.iter().filter(needs_steps) {
        if known.iter().any(|row| is_of_group(group, row)) {
            continue;
        }
        if !group.sharing.takes_turns() {
            if obeys_no_grant(row) {
                let job = &cell.job;
                let reason =
                    format!("{job} obeys no grant, and only a granted step shows that it is a client of MPS");
                rows.extend(rows_of_refused(run, manifest, group, &reason));
            }
            continue;
        }
        let ranks = ranks_of(run, &run.spec(&row.launch)?);
        if row.warnings.iter().any(|warning| warning == Warning::Unheard) {
            let reason =
                format!("{} has several processes that train, and only one of them obeys a grant", cell.job);
            rows.extend(rows_of_refused(run, manifest, group, &reason));
            continue;
        }
        let reason = match (obeys_no_grant(row), ranks) {
            (true, _) => format!("{} obeys no grant, so it cannot take turns with others", cell.job),
            (false, 2..) => {
                format!("{} has {ranks} ranks, and a program takes turns only if it has one", cell.job)
            }
            _ => continue,
        };
        rows.extend(rows_of_refused(run, manifest, group, &reason));
    }
    Ok(rows)
}

/// The number of ranks of a program: those with events, or more if one of them reports more. Turns depend on the reports of one
/// rank, and other ranks may be within a step while that rank rests.
fn ranks_of(run: &RunDir, spec: &LaunchSpec) -> u32 {
    let spoke = run.ranks(spec);
    let said = |rank| {
        let mut ranks = None;
        // The row of the launch has the error of a file that is invalid.
        let _: Result<(), EventError> = read_each(&run.events_path(&spec.launch, rank), rank, |line| {
            if let Event::Hello(hello) = line.event {
                ranks = hello.ranks;
            }
        });
        ranks
    };
    (0..spoke).filter_map(said).fold(spoke, u32::max)
}

/// Whether a launch alone showed that its program does not use the worker protocol.
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

#[cfg(test)]
mod tests {
    use record::rows::Warnings;

    use super::*;

    #[test]
    fn who_is_faster_together_is_named_with_the_interval() {
        let row = |warnings: Warnings| Interference {
            group: "a+a".into(),
            sharing: Sharing::TIME_SLICE,
            seat: 1,
            slowdown: Some(0.9),
            slowdown_ci_lo: Some(0.8501),
            slowdown_ci_hi: Some(0.95),
            warnings,
            ..Interference::default()
        };
        assert_eq!(faster_together(&row(Warnings::default())), None);
        let finding =
            faster_together(&row([Warning::FasterTogether].into_iter().collect())).expect("a finding");
        let text = "a+a (time-slice), seat 1: faster-together: its steps take 0.900 (0.850 to 0.950) of what they take alone; ";
        assert!(finding.to_string().starts_with(text), "{finding}");
    }
}
