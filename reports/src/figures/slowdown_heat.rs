//! How much each job slows down each other one: a matrix for each sharing mode, of the groups of two.

use record::rows::Interference;
use schema::sharing::Sharing;

use super::together::{self, GroupsOfFigure, Together};
use crate::{
    chart::{Axis, Chart, Heat, HeatCell},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let parts = together::parts(run);
    // A member under `sequential` has no slowdown.
    parts
        .iter()
        .filter(|part| *part.sharing != Sharing::Sequential)
        .filter_map(|part| figure(run, part))
        .collect()
}

/// A seat beside one other.
type Seat<'a> = (&'a Interference, &'a Interference);

fn figure(run: &Run, part: &GroupsOfFigure) -> Option<Figure> {
    let (pairs, others): (Vec<&Together>, Vec<&Together>) =
        part.groups.iter().partition(|group| group.rows.len() == 2);
    let seats: Vec<Seat> =
        pairs.iter().flat_map(|pair| pair.rows.iter().zip(pair.rows.iter().rev())).collect();
    let jobs = jobs(run, &seats);
    let row = |victim: &&str| jobs.iter().map(|aggressor| cell(victim, aggressor, &seats)).collect();
    let cells: Vec<Vec<HeatCell>> = jobs.iter().map(row).collect();
    let names: Vec<String> = jobs.iter().map(|job| (*job).to_owned()).collect();
    if names.is_empty() {
        return None;
    }
    let place = if part.is_apart { "on devices of its own" } else { "on the same device" };
    let caption = format!(
        "How many times as long a step of a job (row) takes beside another one (column) {place} under {}, on {}: {}. 95 % \
         intervals, over blocks. For a job beside itself the number is the geometric mean of its seats, and the interval \
         spans both of theirs. The intervals of grey numbers include 1.",
        part.sharing,
        run.devices(),
        together::repeats(pairs.iter().copied())
    );
    let finding = finding(part, &names, &cells);
    let heat = Heat {
        row_column: "victim".into(),
        column_column: "aggressor".into(),
        value: Axis::new("slowdown", "slowdown", Unit::Ratio),
        neutral: 1.0,
        rows: names.clone(),
        columns: names,
        cells,
    };
    let mut figure =
        Figure::new(format!("Slowdown of jobs beside each other: {}", part.name), caption, Chart::Heat(heat));
    figure.part = part.name.clone();
    figure.finding = finding;
    figure.doubts = together::doubts(pairs.iter().copied());
    figure.missing = together::failures(pairs.iter().copied());
    if !others.is_empty() {
        figure.missing.push(format!("{} groups that are no pairs: a matrix has pairs only", others.len()));
    }
    Some(figure)
}

/// The jobs of these seats, in the order of the cells of the run; jobs without a cell come last.
fn jobs<'a>(run: &'a Run, seats: &[Seat<'a>]) -> Vec<&'a str> {
    let of_cells = run.manifest.cells.iter().map(|cell| cell.job.as_str());
    let all = of_cells.chain(seats.iter().map(|(victim, _)| victim.job.as_str()));
    let is_seated = |job: &&str| seats.iter().any(|(victim, _)| victim.job == *job);
    together::distinct(all.filter(is_seated))
}

/// All seats of the victim beside the aggressor, as one cell.
fn cell(victim: &str, aggressor: &str, seats: &[Seat]) -> HeatCell {
    let of_cell = |(row, other): &&Seat| row.job == victim && other.job == aggressor;
    let rows: Vec<&Interference> = seats.iter().filter(of_cell).map(|(row, _)| *row).collect();
    let values = rows.iter().map(|row| together::finite(row.slowdown).filter(|value| *value > 0.0));
    let logs: Option<Vec<f64>> = values.map(|value| value.map(f64::ln)).collect();
    let logs = logs.filter(|logs| !logs.is_empty());
    let ends = rows.iter().map(|row| together::ends(row.slowdown_ci_lo, row.slowdown_ci_hi));
    let span = |all: (f64, f64), one: (f64, f64)| (all.0.min(one.0), all.1.max(one.1));
    let ci = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().reduce(span));
    let doubts = rows.iter().map(|row| together::doubt(row)).filter(|doubt| !doubt.is_empty());
    HeatCell {
        ci: ci.filter(|_| logs.is_some()),
        value: logs.map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp()),
        doubt: together::distinct(doubts).join("; "),
    }
}

/// The worst cell without doubts.
fn finding(part: &GroupsOfFigure, jobs: &[String], cells: &[Vec<HeatCell>]) -> String {
    let of_row = |(victim, row): (usize, &Vec<HeatCell>)| {
        let trusted = |(_, cell): &(usize, &HeatCell)| cell.doubt.is_empty();
        let named = |(aggressor, cell): (usize, &HeatCell)| Some((cell.value?, cell.ci, (victim, aggressor)));
        row.iter().enumerate().filter(trusted).filter_map(named).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = cells.iter().enumerate().flat_map(of_row).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((&(value, ci, (victim, aggressor)), others)) = all.split_first() else { return String::new() };
    let names = jobs.get(victim).zip(jobs.get(aggressor));
    let intervals: Vec<_> = others.iter().map(|(_, ci, _)| *ci).collect();
    names.map_or_else(String::new, |(victim, aggressor)| {
        format!(
            "largest slowdown without doubts under {}: {victim} beside {aggressor}, {} times{}",
            part.name,
            together::shown(value, ci),
            together::rivals(ci, &intervals)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    fn heat(figure: &Figure) -> &Heat {
        let Chart::Heat(heat) = &figure.chart else { panic!("a matrix") };
        heat
    }

    #[test]
    fn cells_are_rows_of_the_table_and_two_seats_of_a_job_are_one() {
        let run = testing::record("20261122-epyc/colocate/all-pairs-1");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one sharing mode") };
        let heat = heat(figure);
        let cells: Vec<&str> = run.manifest.cells.iter().map(|cell| cell.job.as_str()).collect();
        assert_eq!(figure.part, "time-slice");
        assert_eq!(heat.rows, cells);
        let of_group = |jobs: [&str; 2]| {
            let group = jobs.map(|job| format!("{job}@on=cpu:0")).join("+");
            run.interference.iter().filter(|row| row.group == group).collect::<Vec<_>>()
        };
        let pair = of_group([cells[0], cells[1]]);
        for (cell, row) in [(&heat.cells[0][1], pair[0]), (&heat.cells[1][0], pair[1])] {
            let (found, expected) = cell.value.zip(row.slowdown).expect("measured");
            assert!((found - expected).abs() < 1e-12);
            assert_eq!(cell.ci, row.slowdown_ci_lo.zip(row.slowdown_ci_hi));
        }
        let own = of_group([cells[0], cells[0]]);
        let mean = (own[0].slowdown.unwrap_or(0.0) * own[1].slowdown.unwrap_or(0.0)).sqrt();
        assert!((heat.cells[0][0].value.expect("measured") - mean).abs() < 1e-12);
        let lo = own[0].slowdown_ci_lo.expect("an interval").min(own[1].slowdown_ci_lo.expect("an interval"));
        assert_eq!(heat.cells[0][0].ci.map(|ci| ci.0), Some(lo));
        let doubtful = heat.cells.iter().flatten().filter(|cell| !cell.doubt.is_empty()).count();
        let invalid = run.interference.iter().filter(|row| !row.valid).count();
        assert_eq!((doubtful, invalid), (2, 2));
        assert!(
            figure.finding.contains("bert-mini@b8@dp1") && figure.finding.contains("noise"),
            "{}",
            figure.finding
        );
    }

    #[test]
    fn failures_have_no_value_and_larger_groups_are_counted() {
        let mut rows = vec![testing::failed("a", "b"), testing::failed("b", "a")];
        rows.extend(testing::pair("a", "a", [1.0, 4.0]));
        let three = |seat| Interference { group: "three".into(), ..testing::row("a", "b", seat, 3.0) };
        rows.extend([three(0), three(1), three(2)]);
        let run = testing::run(rows);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one sharing mode") };
        let heat = heat(figure);
        assert_eq!(heat.rows, ["a", "b"]);
        assert_eq!((heat.cells[0][1].value, &*heat.cells[0][1].doubt), (None, "failed: crashed: it died"));
        assert!((heat.cells[0][0].value.expect("two seats") - 2.0).abs() < 1e-12);
        assert_eq!(heat.cells[0][0].ci, Some((0.9, 4.1)));
        assert_eq!(heat.cells[1][1], HeatCell::default(), "b beside itself was not measured");
        assert!(
            figure.missing.iter().any(|of| of.starts_with("1 groups that are no pairs")),
            "{:?}",
            figure.missing
        );
    }

    #[test]
    fn jobs_apart_have_a_part_of_their_own_and_sequential_has_none() {
        let apart = make(&testing::record("20261122-epyc/colocate/two-cores"), &Colours::default());
        assert_eq!(apart.iter().map(|of| of.part.as_str()).collect::<Vec<_>>(), ["time-slice apart"]);
        let modes =
            make(&testing::record("20261122-epyc/colocate/sharing-resnet18-lstm"), &Colours::default());
        assert_eq!(
            modes.iter().map(|of| of.part.as_str()).collect::<Vec<_>>(),
            ["time-slice", "step-gate:2/1"]
        );
        assert!(make(&testing::run(Vec::new()), &Colours::default()).is_empty());
    }
}
