//! The curves of jobs beside stressors: how sensitive a job is, and how aggressive, over the dial of each stressor.

use record::rows::{Curve, Side, Status};
use schema::sharing::Sharing;

use super::together::{self, distinct};
use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let sharings = distinct(run.curves.iter().map(|row| &row.sharing));
    let of_mode =
        |sharing: &Sharing| run.curves.iter().filter(|row| row.sharing == *sharing).collect::<Vec<_>>();
    sharings.into_iter().filter_map(|sharing| figure(run, &of_mode(sharing), colours)).collect()
}

/// A figure of the curves of one sharing mode.
fn figure(run: &Run, curves: &[&Curve], colours: &Colours) -> Option<Figure> {
    let jobs = distinct(curves.iter().map(|row| (&row.job, &row.device)));
    let has_one_device = distinct(jobs.iter().map(|(_, device)| device)).len() == 1;
    let plane_of = |(job, device): (&String, &String)| {
        let rows: Vec<&Curve> =
            curves.iter().copied().filter(|row| (&row.job, &row.device) == (job, device)).collect();
        let plane = plane(&rows, colours);
        Plane { title: if has_one_device { job.clone() } else { format!("{job} on {device}") }, ..plane }
    };
    let planes: Vec<Plane> =
        jobs.into_iter().map(plane_of).filter(|plane| !plane.series.is_empty()).collect();
    let sharing = &curves.first()?.sharing;
    if planes.is_empty() {
        return None;
    }
    let blocks = || curves.iter().map(|row| row.blocks).filter(|&blocks| blocks > 0);
    let caption = format!(
        "Each job beside stressors under {sharing}, on {}, over the part of the time in which the stressor works alone: the \
         slowdown of the job (solid: how sensitive it is), and that of the stressor (dashed: how aggressive the job is). 95 % \
         intervals, over {} to {} blocks.",
        run.devices(),
        blocks().min()?,
        blocks().max()?
    );
    let mut figure = Figure::new(format!("Sensitivity of jobs: {sharing}"), caption, Chart::Planes(planes));
    figure.part = sharing.to_string();
    figure.finding = finding(curves);
    figure.missing = curves.iter().copied().filter(|row| row.status != Status::Ok).map(failure).collect();
    let some_failed = curves.iter().filter(|row| row.blocks_failed > 0 && row.status == Status::Ok);
    figure.doubts = some_failed.map(|row| format!("{}: {}", name(row), blocks_failed(row))).collect();
    Some(figure)
}

/// The curves of one job.
fn plane(rows: &[&Curve], colours: &Colours) -> Plane {
    let mut plane = Plane::new(
        Axis::new("dial of the stressor", "dial_percent", Unit::Percent),
        Axis::new("slowdown", "slowdown", Unit::Ratio).tight(),
    );
    plane.rules.push(Rule::At { y: 1.0, name: "as alone".into() });
    for stressor in distinct(rows.iter().map(|row| row.stressor.as_str())) {
        for side in [Side::Sensitivity, Side::Aggressiveness] {
            let of_curve = rows.iter().filter(|row| row.stressor == stressor && row.side == side);
            let mut points: Vec<Point> = of_curve.filter_map(|row| point(row)).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let (words, form) = match side {
                Side::Sensitivity => ("slowdown beside", Form::LineAndDots),
                Side::Aggressiveness => ("slowdown of", Form::DashedLine),
            };
            if !points.is_empty() {
                plane.series.push(Series::new(
                    format!("{words} {stressor}"),
                    colours.of(stressor),
                    form,
                    points,
                ));
            }
        }
    }
    plane
}

fn point(row: &Curve) -> Option<Point> {
    let y = together::finite(row.slowdown).filter(|_| row.status == Status::Ok)?;
    let ci = together::ends(row.slowdown_ci_lo, row.slowdown_ci_hi);
    Some(Point { ci, label: name(row), doubt: blocks_failed(row), ..Point::at(row.dial_percent.into(), y) })
}

fn blocks_failed(row: &Curve) -> String {
    if row.blocks_failed == 0 { String::new() } else { format!("{} blocks failed", row.blocks_failed) }
}

fn name(row: &Curve) -> String {
    match row.side {
        Side::Sensitivity => format!("{} beside {} at {} %", row.job, row.stressor, row.dial_percent),
        Side::Aggressiveness => format!("{} at {} % beside {}", row.stressor, row.dial_percent, row.job),
    }
}

fn failure(row: &Curve) -> String {
    let words = [row.err.map(|err| err.to_string()), row.err_detail.clone()];
    let said = [name(row), row.status.to_string()].into_iter().chain(words.into_iter().flatten());
    said.collect::<Vec<_>>().join(": ")
}

/// The largest slowdown of a job.
fn finding(curves: &[&Curve]) -> String {
    let of_jobs = curves.iter().filter(|row| row.side == Side::Sensitivity && row.blocks_failed == 0);
    let mut all: Vec<(Point, &str)> =
        of_jobs.filter_map(|row| Some((point(row)?, row.stressor.as_str()))).collect();
    all.sort_by(|a, b| b.0.y.total_cmp(&a.0.y));
    let Some(((point, _), others)) = all.split_first() else { return String::new() };
    let intervals: Vec<_> = others.iter().map(|(other, _)| other.ci).collect();
    format!(
        "largest slowdown by a stressor: {}, {} times{}",
        point.label,
        together::shown(point.y, point.ci),
        together::rivals(point.ci, &intervals)
    )
}

#[cfg(test)]
mod tests {
    use record::rows::ErrorKind;

    use super::{super::together::testing, *};

    fn curve(job: &str, stressor: &str, dial_percent: u32, side: Side, slowdown: f64) -> Curve {
        Curve {
            run: "run".into(),
            job: job.into(),
            device: "cpu:0".into(),
            sharing: Sharing::TIME_SLICE,
            stressor: stressor.into(),
            dial_percent,
            side,
            blocks: 3,
            blocks_failed: 0,
            slowdown: Some(slowdown),
            slowdown_ci_lo: Some(slowdown - 0.1),
            slowdown_ci_hi: Some(slowdown + 0.1),
            status: Status::Ok,
            err: None,
            err_detail: None,
        }
    }

    fn run(curves: Vec<Curve>) -> Run {
        let mut run = testing::run(Vec::new());
        run.curves = curves;
        run
    }

    #[test]
    fn each_job_is_a_plane_and_each_side_a_series_in_order_of_the_dial() {
        let run = run(vec![
            curve("lstm", "stress-cache", 100, Side::Sensitivity, 2.0),
            curve("lstm", "stress-cache", 50, Side::Sensitivity, 1.5),
            curve("lstm", "stress-cache", 50, Side::Aggressiveness, 1.2),
            curve("vae", "stress-io", 25, Side::Sensitivity, 1.1),
        ]);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one sharing mode") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        assert_eq!(planes.iter().map(|plane| plane.title.as_str()).collect::<Vec<_>>(), ["lstm", "vae"]);
        let drawn: Vec<_> = planes[0].series.iter().map(|series| (series.form, &series.points)).collect();
        assert_eq!(drawn.len(), 2);
        let numbers: Vec<_> = drawn[0].1.iter().map(|point| (point.x, point.y, point.ci)).collect();
        assert_eq!(numbers, [(50.0, 1.5, Some((1.4, 1.6))), (100.0, 2.0, Some((1.9, 2.1)))]);
        assert_eq!((drawn[0].0, drawn[1].0), (Form::LineAndDots, Form::DashedLine));
        assert_eq!(
            figure.finding,
            "largest slowdown by a stressor: lstm beside stress-cache at 100 %, 2.00 (1.90 to 2.10) times; its interval overlaps \
             no other"
        );
    }

    #[test]
    fn a_point_that_failed_is_missing_and_not_drawn() {
        let failed = Curve {
            slowdown: None,
            status: Status::Failed,
            err: Some(ErrorKind::Crashed),
            ..curve("lstm", "stress-io", 100, Side::Sensitivity, 1.0)
        };
        assert!(make(&run(vec![failed.clone()]), &Colours::default()).is_empty());
        let run = run(vec![failed, curve("lstm", "stress-io", 50, Side::Sensitivity, 1.0)]);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one sharing mode") };
        assert_eq!(figure.missing, ["lstm beside stress-io at 100 %: failed: crashed"]);
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        assert_eq!(planes[0].series[0].points.len(), 1);
    }
}
