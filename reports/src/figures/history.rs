//! The times of jobs over several runs, with their levels: before and after a change.

use record::rows::{CellHistory, History, HistoryPoint, HistoryVerdict};

use crate::{
    alone,
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    figure::Figure,
    history::history,
    planes,
    run::Run,
    table::Unit,
};

pub(super) fn make(runs: &[Run], _: &Colours) -> Vec<Figure> {
    let history = history(runs);
    let can_tell = |cell: &&CellHistory| cell.verdict != HistoryVerdict::CannotTell;
    let cells: Vec<&CellHistory> = history.cells.iter().filter(can_tell).collect();
    planes::in_figures(cells).into_iter().map(|(part, cells)| figure(&history, part, &cells)).collect()
}

fn figure(history: &History, part: String, cells: &[&CellHistory]) -> Figure {
    let caption = format!(
        "The time of a step of jobs alone over {} runs in the order of their starts. Intervals are 95 %, within each run. A dashed line \
         is the geometric mean of the runs of a level, and an upright line is a change that a t test over runs shows. Machines drift: a \
         change may be one of the machine.",
        history.runs.len()
    );
    let doubtful = |cell: &&CellHistory| {
        let is_doubtful = cell.points.iter().any(|point| !point.warnings.is_empty());
        is_doubtful.then(|| format!("{} on {}: runs have warnings", cell.job, cell.device))
    };
    let absent = cells.iter().flat_map(|cell| {
        let without = cell.points.iter().filter(|point| point.ns.is_none());
        without.map(|point| format!("{} in {}: no time", cell.job, history.runs[point.run as usize].name))
    });
    Figure {
        part,
        finding: finding(cells),
        doubts: cells.iter().filter_map(doubtful).collect(),
        missing: absent.collect(),
        ..Figure::new(
            "Step time over runs",
            caption,
            Chart::Planes(cells.iter().map(|cell| plane(history, cell)).collect()),
        )
    }
}

fn finding(cells: &[&CellHistory]) -> String {
    let changed: Vec<String> = cells
        .iter()
        .filter(|cell| cell.verdict == HistoryVerdict::Changed)
        .map(|cell| {
            let ratios: Vec<String> =
                cell.changes.iter().map(|change| format!("{:.3}", change.ratio)).collect();
            format!("{} by {}", cell.job, ratios.join(" and then "))
        })
        .collect();
    match changed.is_empty() {
        true => format!("Over runs, no change of the time of a step is shown for {} jobs.", cells.len()),
        false => format!("Over runs, the time of a step changed: {}.", changed.join("; ")),
    }
}

fn plane(history: &History, cell: &CellHistory) -> Plane {
    let point = |point: &HistoryPoint| {
        let ends = point.ns_ci_lo.zip(point.ns_ci_hi);
        let described = &history.runs[point.run as usize];
        let revision =
            described.revision.as_ref().map(|revision| format!(", {revision}")).unwrap_or_default();
        Some(Point {
            ci: ends.map(|(lo, hi)| (lo as f64, hi as f64)),
            label: format!("{}{revision}, {}", described.name, described.started_utc),
            doubt: point.warnings.to_string(),
            ..Point::at(f64::from(point.run + 1), point.ns? as f64)
        })
    };
    let points: Vec<Point> = cell.points.iter().filter_map(point).collect();
    let y = Axis::new("time of a step", "step_ns", Unit::Ns);
    let y = alone::scaled(y, points.iter().map(|point| point.y));
    let mut series = vec![Series::new("runs", Colours::nth(0), Form::Dots, points)];
    series.extend(cell.levels.iter().map(|level| {
        let ends = [level.run, level.run_last].map(|run| Point::at(f64::from(run + 1), level.ns));
        Series::new("level", Colours::nth(1), Form::DashedLine, ends.to_vec())
    }));
    let rules = cell.changes.iter().map(|change| Rule::Upright {
        x: f64::from(change.run_before + change.run) / 2.0 + 1.0,
        name: format!("{:.3}", change.ratio),
    });
    Plane {
        title: format!("{} on {}", cell.job, cell.device),
        rules: rules.collect(),
        series,
        ..Plane::new(Axis::new("run", "run", Unit::Plain).tight(), y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::record;

    #[test]
    fn fewer_runs_than_can_show_a_change_have_no_picture() {
        let runs = ["20261123-epyc/colocate/all-pairs-1", "20261122-epyc/colocate/all-pairs-1"].map(record);
        assert!(make(&runs, &Colours::default()).is_empty());
        let alike = [0; 4].map(|_| record("20261121-epyc"));
        let figures = make(&alike, &Colours::default());
        let cells: usize = figures
            .iter()
            .map(|figure| match &figure.chart {
                Chart::Planes(planes) => planes.len(),
                other => panic!("planes, and no {other:?}"),
            })
            .sum();
        assert_eq!(cells, alike[0].summaries.len());
    }
}
