//! The median step of each job alone, with its interval.

use record::rows::{Status, Summary};
use schema::units::Nanos;

use crate::{
    alone::{self, JobsOfFigure, Names},
    chart::{Axis, Chart, MarkValue, Rows},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    alone::parts(run).into_iter().filter_map(|part| figure(run, colours, part)).collect()
}

fn figure(run: &Run, colours: &Colours, mut part: JobsOfFigure) -> Option<Figure> {
    part.sort(median);
    let medians: Vec<f64> = part.rows.iter().filter_map(|row| median(row)).collect();
    medians.first()?;
    let axis = alone::scaled(Axis::new("median step", "step_ns_median", Unit::Ns), medians.iter().copied());
    let names = Names::of(run);
    let row = |row: &&Summary| {
        let dot = median(row).map(|value| MarkValue::Dot { value, ci: alone::step_interval(row) });
        let dot = dot.ok_or_else(|| alone::why_absent(row, &no_steps(row)));
        alone::dot_row(names.name(&row.job, &row.device), row, colours, dot)
    };
    let rows =
        Rows { value: axis, column: "job".into(), rows: part.rows.iter().map(row).collect(), rule: None };
    let caption = format!(
        "The time of a mini-batch of {} jobs, each alone on its device of {}. A dot is the centre of the \
         medians of launches. {}",
        medians.len(),
        run.devices(),
        part.intervals(),
    );
    let is_drawn = |row: &Summary| median(row).is_some();
    Some(Figure {
        finding: finding(&part),
        doubts: part.doubts(is_drawn),
        missing: part.missing(is_drawn, "it has no steps"),
        part: part.name,
        ..Figure::new("Step time", caption, Chart::Rows(rows))
    })
}

fn median(row: &Summary) -> Option<f64> {
    row.step_ns_median.filter(|_| row.status == Status::Ok).map(|ns| ns as f64)
}

/// Why a job that did not fail has no median step.
fn no_steps(row: &Summary) -> String {
    match row.wall_ns {
        Some(wall) => format!("no steps; it takes {}", Nanos(wall)),
        None => "no steps".into(),
    }
}

/// The range of the widths of intervals.
fn finding(part: &JobsOfFigure) -> String {
    let drawn = part.rows.iter().filter(|row| alone::step_interval(row).is_some());
    let mut halves: Vec<(f64, &str)> =
        drawn.filter_map(|row| Some((row.half_width_percent?, row.job.as_str()))).collect();
    halves.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (Some((narrow, _)), Some((wide, job))) = (halves.first(), halves.last()) else {
        return String::new();
    };
    match halves.len() {
        1 => format!("The median step of {job} is known to +-{wide:.2} %."),
        jobs => format!(
            "The median steps of {jobs} jobs are known to between +-{narrow:.2} % and +-{wide:.2} %, the \
             widest of {job}."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        alone::tests::{record, run_of, summary},
        chart::RowOf,
    };

    fn rows(figure: &Figure) -> &[RowOf] {
        let Chart::Rows(rows) = &figure.chart else { panic!("rows") };
        &rows.rows
    }

    #[test]
    fn each_dot_is_the_published_median_with_its_interval() {
        let run = record("20261121-epyc");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        assert_eq!(rows(figure).len(), run.summaries.len());
        for row in &run.summaries {
            let drawn = rows(figure).iter().find(|drawn| drawn.name == row.job).unwrap();
            let ends = (row.step_ns_median_ci_lo.unwrap() as f64, row.step_ns_median_ci_hi.unwrap() as f64);
            let value = row.step_ns_median.unwrap() as f64;
            assert_eq!(drawn.marks[0].quantity, MarkValue::Dot { value, ci: Some(ends) });
            assert_eq!(drawn.marks[0].doubt, row.warnings.to_string());
        }
        let widest = run.summaries.iter().filter_map(|row| row.half_width_percent).fold(0.0, f64::max);
        assert!(figure.finding.contains(&format!("+-{widest:.2} %, the widest")), "{}", figure.finding);
    }

    #[test]
    fn many_plans_are_a_figure_for_each_workload() {
        let run = record("20261123-epyc/plans");
        let figures = make(&run, &Colours::default());
        assert_eq!(figures.len(), 6);
        assert_eq!(figures.iter().map(|figure| rows(figure).len()).sum::<usize>(), 256);
        for figure in figures {
            assert!(
                figure.caption.contains("launched once, so that there are no intervals"),
                "{}",
                figure.caption
            );
            assert!(figure.finding.is_empty());
            assert!(rows(&figure).iter().all(|row| row.name.starts_with(&figure.part)));
        }
    }

    #[test]
    fn what_has_no_median_has_a_note() {
        let failed = summary(r#""job": "a@b1@dp2", "status": "failed", "err": "hung""#);
        let outside = summary(r#""job": "cmd", "workload": "cmd", "wall_ns": 2000000000"#);
        let wide = summary(
            r#""job": "a@b1@dp1", "step_ns_median": 100, "step_ns_median_ci_lo": 10, "step_ns_median_ci_hi": 1000,
            "half_width_percent": 495.0, "repeats": 2"#,
        );
        let [figure] = &make(&run_of(vec![failed, outside, wide]), &Colours::default())[..] else {
            panic!("one")
        };
        let notes: Vec<(&str, &str, usize)> =
            rows(figure).iter().map(|row| (&*row.name, &*row.note, row.marks.len())).collect();
        assert_eq!(
            notes,
            [
                ("a@b1@dp1", "too few repeats for an interval", 1),
                ("a@b1@dp2", "failed: hung", 0),
                ("cmd", "no steps; it takes 2.00 s", 0),
            ]
        );
        assert_eq!(figure.missing, ["a@b1@dp2: failed: hung", "cmd: it has no steps"]);
    }
}
