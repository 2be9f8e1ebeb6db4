//! Predicted against measured completion times, one point for each job.

use std::collections::BTreeMap;

use formats::rows::{Outcome, Prediction};
use record::rows::Status;

use crate::{
    chart::{Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    figures::fidelity::doubts,
    run::{Run, RunKind},
    scheduled::{done, place, points_drawn, time_axis},
};

/// The largest number of points.
const MOST_POINTS: usize = 5_000;

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    if run.kind() != RunKind::Scheduled {
        return Vec::new();
    }
    let predictions: BTreeMap<&str, &Prediction> =
        run.predictions.iter().map(|row| (row.name.as_str(), row)).collect();
    let mut of_workload: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    for (row, jct) in done(run) {
        let point = predictions.get(row.name.as_str()).and_then(|predicted| point(row, jct, predicted));
        of_workload.entry(&row.workload).or_default().extend(point);
    }
    let all = || of_workload.values().flatten();
    let count = all().count();
    if count == 0 {
        return Vec::new();
    }
    let axis = |label, column| time_axis(label, column, all().flat_map(|point| [point.x, point.y]));
    let mut plane =
        Plane::new(axis("measured JCT", "measured_jct_ns"), axis("predicted JCT", "predicted_jct_ns"));
    plane.rules.push(Rule::Equal);
    let (with, inside) = inside(all());
    for (workload, mut points) in of_workload {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if count > MOST_POINTS {
            // Points with a doubt are never left out.
            points.iter_mut().for_each(|point| point.doubt.clear());
        }
        let most = (MOST_POINTS * points.len() / count).max(3);
        plane.series.push(decimated(Series::new(workload, colours.of(workload), Form::Dots, points), most));
    }
    let mut drawn = points_drawn(&plane.series);
    if count > MOST_POINTS {
        drawn += " Points of jobs with warnings are drawn like the others.";
    }
    let intervals = match with {
        0 => "The prediction was made without draws and has no intervals.".to_owned(),
        _ => format!(
            "Bars are 95 % intervals over {} draws; {inside} of {with} jobs are inside.",
            run.draws.len()
        ),
    };
    let caption = format!(
        "Completion times of {count} jobs that ended well in the simulation before the run and on {}. On the line, both are equal. \
         {intervals}{drawn}",
        place(run)
    );
    let others = run.outcomes.len().saturating_sub(count);
    let missing =
        (others > 0).then(|| format!("{others} jobs that did not end well in the prediction or in the run"));
    vec![Figure {
        doubts: doubts(run),
        missing: missing.into_iter().collect(),
        ..Figure::new("Predicted and measured completion times", caption, Chart::Planes(vec![plane]))
    }]
}

fn point(row: &Outcome, jct: u64, predicted: &Prediction) -> Option<Point> {
    let y = predicted.jct_ns.filter(|_| predicted.status == Status::Ok)? as f64;
    let ci = predicted.range().map(|range| (range.ci_lo_ns as f64, range.ci_hi_ns as f64));
    let doubt = predicted.warnings.to_string();
    Some(Point { ci, label: row.name.clone(), doubt, ..Point::at(jct as f64, y) })
}

/// The number of points with an interval, and of those whose measured time is inside.
fn inside<'a>(points: impl Iterator<Item = &'a Point>) -> (usize, usize) {
    points.filter_map(|point| Some((point.x, point.ci?))).fold((0, 0), |(with, inside), (x, (lo, hi))| {
        (with + 1, inside + usize::from((lo..=hi).contains(&x)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{activity::tests::recorded, figures::fidelity::comparison};

    #[test]
    fn every_job_is_a_point_and_those_inside_are_those_of_the_comparison() {
        for run in recorded() {
            let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
            let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
            let points: Vec<&Point> = planes[0].series.iter().flat_map(|series| &series.points).collect();
            assert_eq!(points.len(), run.outcomes.len());
            for point in points {
                let row = run.outcomes.iter().find(|row| row.name == point.label).expect("it is a job");
                let expected = [row.jct_ns, row.predicted_jct_ns].map(|ns| ns.map(|ns| ns as f64));
                assert_eq!([Some(point.x), Some(point.y)], expected);
            }
            let found = comparison(&run).expect("it has a prediction").expect("it is of this trace");
            let inside =
                found.intervals.map(|of| format!("{} of {} jobs are inside", of.jobs_inside, of.jobs));
            assert!(figure.caption.contains(&inside.unwrap_or("no intervals".into())), "{}", figure.caption);
        }
    }
}
