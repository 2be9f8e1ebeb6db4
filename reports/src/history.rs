//! The times of jobs alone over several runs, such as those of one trace of commits, and where they change.
//!
//! Runs are compared only on machines and devices of the same kind: another machine is no change of the program.

use record::{
    manifest::Manifest,
    rows::{
        CellHistory, History, HistoryPoint, HistoryRun, HistoryVerdict, LevelChange, Status, Summary,
        Warnings,
    },
};
use statistics::levels::{self, Levels};

use crate::{
    compare::differences,
    planes::grouped,
    run::{Run, RunKind},
};

/// A row of a run, or its absence, in the order of the starts of runs.
struct Measured<'a> {
    run: usize,
    machine: &'a str,
    row: &'a Summary,
}

/// The history of the runs of `profile`. Runs of the scheduler have none.
pub(crate) fn history(runs: &[Run]) -> History {
    let mut runs: Vec<&Run> = runs.iter().filter(|run| is_of_profile(run)).collect();
    runs.sort_by_key(|run| (run.manifest.started(), run.name.clone()));
    let described: Vec<HistoryRun> = runs.iter().map(|run| describe(run)).collect();
    let rows = runs.iter().zip(&described).enumerate().flat_map(|(run, (of, described))| {
        let alone = of.summaries.iter().filter(|row| row.group.is_none());
        alone.map(move |row| Measured { run, machine: &described.machine, row })
    });
    let cells = grouped(rows, |one| (&*one.row.job, &*one.row.device, &one.row.sharing, one.machine));
    let estimates: Vec<Vec<f64>> = cells.iter().map(|cell| times(cell).map(|(_, ns)| ns).collect()).collect();
    let tested = estimates.iter().filter(|times| times.len() >= levels::MIN_RUNS).count();
    let found = estimates.iter().map(|times| levels::of_runs(times, tested));
    let cells = cells.iter().zip(found).map(|(cell, found)| of_cell(&runs, cell, found)).collect();
    History { cells, runs: described }
}

pub(crate) fn is_of_profile(run: &Run) -> bool {
    matches!(run.kind(), RunKind::Single | RunKind::Colocate)
}

fn describe(run: &Run) -> HistoryRun {
    let manifest = &run.manifest;
    let tree = manifest.folder.as_ref().and_then(|folder| folder.source_tree.as_ref());
    HistoryRun {
        name: run.name.clone(),
        started_utc: manifest.started_utc.clone(),
        revision: tree.map(|tree| tree.revision.clone()).or_else(|| manifest.git_revision.clone()),
        dirty: tree.map(|tree| tree.dirty),
        machine: machine(manifest),
    }
}

/// The processor, its cores and the models of the devices: all that a manifest says of which machine it was.
fn machine(manifest: &Manifest) -> String {
    let mut parts: Vec<String> = manifest.devices.iter().map(|facts| facts.name.clone()).collect();
    parts.extend(manifest.machine.cpu.clone());
    let mut once: Vec<String> = Vec::new();
    for part in parts {
        if !once.contains(&part) {
            once.push(part);
        }
    }
    once.extend(manifest.machine.cores.map(|cores| format!("{cores} cores")));
    once.join(", ")
}

/// The runs that have a time, with it.
fn times<'a>(cell: &'a [Measured<'_>]) -> impl Iterator<Item = (usize, f64)> + 'a {
    cell.iter().filter_map(|one| Some((one.run, time(one.row)?.0 as f64)))
}

/// A positive time with its interval.
fn time(row: &Summary) -> Option<(u64, Option<u64>, Option<u64>)> {
    let steps = (row.step_ns_median, row.step_ns_median_ci_lo, row.step_ns_median_ci_hi);
    let wall = (row.wall_ns, row.wall_ns_ci_lo, row.wall_ns_ci_hi);
    let (ns, lo, hi) = if steps.0.is_some() { steps } else { wall };
    ns.filter(|ns| *ns > 0 && row.status == Status::Ok).map(|ns| (ns, lo, hi))
}

fn of_cell(runs: &[&Run], cell: &[Measured<'_>], found: Option<Levels>) -> CellHistory {
    let Measured { row, machine, .. } = &cell[0];
    let timed: Vec<usize> = times(cell).map(|(run, _)| run).collect();
    let change = |change: &levels::Change| {
        let (run, run_before) = (timed[change.first], timed[change.first - 1]);
        let of = |run: usize| (&*runs[run].name, &runs[run].manifest);
        LevelChange {
            run: run as u32,
            run_before: run_before as u32,
            ratio: change.ratio.estimate,
            ratio_ci_lo: change.ratio.lo,
            ratio_ci_hi: change.ratio.hi,
            p_corrected: change.p,
            differences: differences::between(of(run_before), of(run)),
        }
    };
    let changes: Vec<LevelChange> = found.iter().flat_map(|of| &of.changes).map(change).collect();
    CellHistory {
        job: row.job.clone(),
        device: row.device.clone(),
        machine: (*machine).to_owned(),
        points: cell.iter().map(point).collect(),
        verdict: match (&found, changes.is_empty()) {
            (None, _) => HistoryVerdict::CannotTell,
            (Some(_), true) => HistoryVerdict::NoneShown,
            (Some(_), false) => HistoryVerdict::Changed,
        },
        changes,
        between_runs_percent: found.as_ref().map(|of| 100.0 * of.deviation),
        least_shown_ratio: found.map(|of| of.least_shown_ratio),
    }
}

fn point(of: &Measured<'_>) -> HistoryPoint {
    let time = time(of.row);
    HistoryPoint {
        run: of.run as u32,
        ns: time.map(|(ns, ..)| ns),
        ns_ci_lo: time.and_then(|(_, lo, _)| lo),
        ns_ci_hi: time.and_then(|(.., hi)| hi),
        repeats: of.row.repeats,
        warnings: if time.is_some() { of.row.warnings.clone() } else { Warnings::default() },
    }
}
