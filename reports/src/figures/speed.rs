//! The speed of the machine over a run of `sched`: the time of a step over that of the tables.

use formats::rows::MachineSpeed;

use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    run::Run,
    table::Unit,
};

/// The largest number of points of a line.
const MOST_POINTS: usize = 2_000;

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let is_finite = |row: &&MachineSpeed| {
        [row.step_ratio, row.step_ratio_min, row.step_ratio_max].iter().all(|ratio| ratio.is_finite())
    };
    let rows: Vec<&MachineSpeed> = run.speed.iter().filter(is_finite).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut plane = Plane::new(
        Axis::new("time from the start of the run", "at_ns", Unit::Ns),
        Axis::new("time of a step over that of the tables", "step_ratio", Unit::Ratio).tight(),
    );
    plane.rules.push(Rule::At { y: 1.0, name: "as the tables say".into() });
    // Windows in which no job was compared have no row, and the line is not drawn over them.
    for stretch in rows.chunk_by(|a, b| a.until_ns == b.from_ns) {
        let last = stretch.last().map(|row| Point::at(row.until_ns as f64, row.step_ratio));
        let points = stretch.iter().map(|row| point(row)).chain(last).collect();
        let series = Series::new("steps of all jobs", Colours::nth(0), Form::Steps, points);
        plane.series.push(decimated(series, MOST_POINTS));
    }
    let least = rows.iter().map(|row| row.step_ratio).fold(f64::INFINITY, f64::min);
    let most = rows.iter().map(|row| row.step_ratio).fold(f64::NEG_INFINITY, f64::max);
    let jobs = rows.iter().map(|row| row.jobs);
    let caption = format!(
        "The time of a step over that of the tables, by windows, on {}: the geometric mean over the {} to {} jobs that trained in a \
         window. Bars are no intervals: they reach from the job with the least ratio to that with the largest.",
        run.devices(),
        jobs.clone().min().unwrap_or(0),
        jobs.max().unwrap_or(0)
    );
    let finding = format!("steps took {least:.2} to {most:.2} times as long as the tables say");
    vec![Figure { finding, ..Figure::new("Speed of the machine", caption, Chart::Planes(vec![plane])) }]
}

fn point(row: &MachineSpeed) -> Point {
    let ci = Some((row.step_ratio_min, row.step_ratio_max));
    let label = format!("{} jobs", row.jobs);
    Point { ci, label, ..Point::at(row.from_ns as f64, row.step_ratio) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn windows_are_steps_and_a_gap_is_not_drawn() {
        let mut runs = recorded();
        let run = &mut runs[13];
        run.speed.remove(2);
        let [figure] = &make(run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        assert_eq!(planes[0].series.len(), 2);
        let points: Vec<&Point> = planes[0].series.iter().flat_map(|series| &series.points).collect();
        // Each series has a further point at its end.
        assert_eq!(points.len(), run.speed.len() + 2);
        for row in &run.speed {
            let point = points.iter().find(|point| point.x == row.from_ns as f64 && point.ci.is_some());
            let point = point.expect("each window has a point");
            assert_eq!((point.y, point.ci), (row.step_ratio, Some((row.step_ratio_min, row.step_ratio_max))));
        }
    }
}
