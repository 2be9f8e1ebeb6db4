//! The times of jobs alone over several runs, such as those of one trace of commits, and where they change.
//!
//! Runs on different kinds of machines or devices form separate histories.

use record::{
    manifest::Manifest,
    rows::{
        CellHistory, History, HistoryLevel, HistoryPoint, HistoryRun, HistoryVerdict, LevelChange, Status,
        Summary, Warnings,
    },
};
use statistics::levels::{self, Change, Level};

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

/// The rows of one job on one device of one machine.
struct Cell<'a> {
    row: &'a Summary,
    machine: &'a str,
    points: Vec<HistoryPoint>,
    /// The points that have a time.
    timed: Vec<HistoryPoint>,
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
    let cells: Vec<Cell> = cells.iter().map(|rows| Cell::from_rows(rows)).collect();
    let tested = cells.iter().filter(|cell| cell.timed.len() >= levels::MIN_RUNS).count();
    let cells = cells.into_iter().map(|cell| cell.history(&runs, tested)).collect();
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

/// The processor, its cores and the models of the devices. The manifest names no host; these facts stand for the machine.
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

/// A positive time with its interval.
fn time(row: &Summary) -> Option<(u64, Option<u64>, Option<u64>)> {
    let steps = (row.step_ns_median, row.step_ns_median_ci_lo, row.step_ns_median_ci_hi);
    let wall = (row.wall_ns, row.wall_ns_ci_lo, row.wall_ns_ci_hi);
    let (ns, lo, hi) = if steps.0.is_some() { steps } else { wall };
    ns.filter(|ns| *ns > 0 && row.status == Status::Ok).map(|ns| (ns, lo, hi))
}

impl<'a> Cell<'a> {
    fn from_rows(rows: &[Measured<'a>]) -> Cell<'a> {
        let points: Vec<HistoryPoint> = rows.iter().map(point).collect();
        let timed = points.iter().filter(|point| point.ns.is_some()).cloned().collect();
        Cell { row: rows[0].row, machine: rows[0].machine, points, timed }
    }

    /// The levels of the cell, as one of this number of cells that are tested.
    fn history(self, runs: &[&Run], tested: usize) -> CellHistory {
        let estimates: Vec<f64> = self.timed.iter().filter_map(|point| Some(point.ns? as f64)).collect();
        let tested = levels::of_runs(&estimates, tested);
        let changes: Vec<LevelChange> = tested
            .iter()
            .flat_map(|tested| &tested.changes)
            .map(|change| self.change(runs, change))
            .collect();
        CellHistory {
            job: self.row.job.clone(),
            device: self.row.device.clone(),
            machine: self.machine.to_owned(),
            verdict: match (&tested, changes.is_empty()) {
                (None, _) => HistoryVerdict::CannotTell,
                (Some(_), true) => HistoryVerdict::NoneShown,
                (Some(_), false) => HistoryVerdict::Changed,
            },
            levels: tested.iter().flat_map(|tested| &tested.levels).map(|level| self.level(level)).collect(),
            changes,
            between_runs_percent: tested.as_ref().map(|tested| 100.0 * tested.deviation),
            detectable_ratio: tested.map(|tested| tested.detectable_ratio),
            points: self.points,
        }
    }

    fn level(&self, level: &Level) -> HistoryLevel {
        let points = &self.timed[level.first..level.first + level.runs];
        HistoryLevel {
            run: points[0].run,
            run_last: points[points.len() - 1].run,
            count: points.len() as u32,
            count_with_warnings: points.iter().filter(|point| !point.warnings.is_empty()).count() as u32,
            ns: level.mean,
        }
    }

    fn change(&self, runs: &[&Run], change: &Change) -> LevelChange {
        let (run, run_before) = (self.timed[change.first].run, self.timed[change.first - 1].run);
        let named = |run: u32| (&*runs[run as usize].name, &runs[run as usize].manifest);
        LevelChange {
            run,
            run_before,
            ratio: change.ratio.estimate,
            ratio_ci_lo: change.ratio.lo,
            ratio_ci_hi: change.ratio.hi,
            p_corrected: change.p,
            differences: differences::between(named(run_before), named(run)),
        }
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
