use std::fs;

use formats::rows::Outcome;
use record::rows::{ErrorKind, Status};

use super::*;
use crate::{
    activity::tests::recorded,
    chart::{Chart, MarkValue, Point},
    table::Cell,
};

/// All figures of these runs, each with its kind.
fn all(runs: &[Run]) -> Vec<(&'static str, Figure)> {
    let colours = Colours::default();
    let of = |kind: &FigureKind| match kind.make {
        Make::OfRun(make) => runs.iter().flat_map(|run| make(run, &colours)).collect::<Vec<_>>(),
        Make::OfAll(make, _) => make(runs, &colours),
        // They are of no run, and have tests of their own.
        Make::OfShapes(_) | Make::OfModel(_) => Vec::new(),
    };
    KINDS.iter().flat_map(|kind| of(kind).into_iter().map(|figure| (kind.name, figure))).collect()
}

/// All numbers of a chart.
fn numbers(chart: &Chart) -> Vec<f64> {
    let of_point =
        |point: &Point| [point.x, point.y].into_iter().chain(point.ci.into_iter().flat_map(<[f64; 2]>::from));
    match chart {
        Chart::Planes(planes) => planes
            .iter()
            .flat_map(|plane| &plane.series)
            .flat_map(|of| &of.points)
            .flat_map(of_point)
            .collect(),
        Chart::Rows(rows) => rows
            .rows
            .iter()
            .flat_map(|row| &row.marks)
            .flat_map(|mark| match mark.quantity {
                MarkValue::Bar(value) | MarkValue::Dot { value, .. } => vec![value],
                MarkValue::Box(five) => five.to_vec(),
            })
            .collect(),
        Chart::Heat(heat) => heat.cells.iter().flatten().filter_map(|cell| cell.value).collect(),
        Chart::Lanes(lanes) => lanes.spans.iter().flat_map(|span| [span.from, span.to]).collect(),
        Chart::Table(table) => table
            .rows
            .iter()
            .flatten()
            .filter_map(|cell| match cell {
                Cell::Number { value, .. } => Some(*value),
                _ => None,
            })
            .collect(),
    }
}

fn assert_sound(runs: &[Run]) -> Vec<&'static str> {
    let figures = all(runs);
    for (name, figure) in &figures {
        assert!(numbers(&figure.chart).iter().all(|number| number.is_finite()), "{name}: {figure:?}");
        assert!(!figure.title.is_empty() && figure.caption.ends_with('.'), "{name}: {}", figure.caption);
        assert!(!figure.caption.contains("NaN") && !figure.finding.contains("NaN"), "{name}");
    }
    figures.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn no_runs_have_no_figures() {
    assert!(all(&[]).is_empty());
}

#[test]
fn recorded_runs_have_sound_figures() {
    let names = assert_sound(&recorded());
    for expected in ["policies", "jct-cdf", "gantt", "error-parts", "draws", "speed", "outcomes"] {
        assert!(names.contains(&expected), "{expected} is missing in {names:?}");
    }
}

/// A run that goes on has a manifest, predictions and the first part of a journal.
#[test]
fn a_run_that_goes_on_has_a_schedule() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let run = &recorded()[14];
    for path in [run.dir.manifest_path(), run.dir.predictions_path(), run.dir.decisions_path()] {
        let bytes = fs::read(&path).expect("it is a file");
        let part = if path == run.dir.decisions_path() { bytes.len() / 2 } else { bytes.len() };
        let name = path.file_name().expect("it has a name");
        fs::write(folder.path().join(name), &bytes[..part]).expect("it is written");
    }
    let run = Run::open(folder.path()).expect("it is a run");
    let names = assert_sound(&[run]);
    assert!(names.contains(&"gantt") && names.contains(&"utilisation"), "{names:?}");
}

#[test]
fn strange_rows_make_no_strange_numbers() {
    let mut runs = recorded();
    let times = |row: &Outcome, ns: u64| Outcome {
        name: "<script>\n../=1".into(),
        jct_ns: Some(ns),
        end_ns: Some(ns),
        running_ns: Some(ns),
        ..row.clone()
    };
    for run in &mut runs {
        let like = run.outcomes[0].clone();
        let failed =
            Outcome { status: Status::Failed, err: Some(ErrorKind::Killed), jct_ns: None, ..like.clone() };
        run.outcomes = vec![times(&like, 0), times(&like, u64::MAX / 4), failed];
        run.predictions.truncate(1);
    }
    assert_sound(&runs);
    for run in &mut runs {
        run.outcomes.iter_mut().for_each(|row| row.status = Status::Failed);
    }
    assert_sound(&runs);
}
