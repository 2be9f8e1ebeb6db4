//! How much a job suffers from a stressor, and how much it troubles one, over the dial of the stressor.

use schema::rows::{Curve, Side, Status};

use super::together;
use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    figure::Figure,
    planes::{grouped, in_figures},
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let mut stressors: Vec<&str> = Vec::new();
    for row in &run.curves {
        if !stressors.contains(&&*row.stressor) {
            stressors.push(&row.stressor);
        }
    }
    let planes = grouped(&run.curves, |row| (&*row.job, &*row.device, row.sharing.to_string()));
    let planes: Vec<Plane> = planes.iter().map(|rows| plane(rows, &stressors)).collect();
    let planes =
        planes.into_iter().filter(|plane| plane.series.iter().any(|series| !series.points.is_empty()));
    in_figures(planes.collect()).into_iter().map(|(part, planes)| figure(run, part, planes)).collect()
}

fn figure(run: &Run, part: String, planes: Vec<Plane>) -> Figure {
    let blocks = run.curves.iter().map(|row| row.blocks).max().unwrap_or(0);
    let caption = format!(
        "Slowdown of each job beside stressors on {}, over the share of the time for which the stressor works (solid: how sensitive \
         the job is), and slowdown of the stressor beside the job (dashed: how aggressive it is). Up to {blocks} blocks; intervals are \
         95 %, over blocks.",
        run.devices()
    );
    let failed = run.curves.iter().filter(|row| row.status != Status::Ok || row.slowdown.is_none());
    let missing = failed.map(|row| {
        let why = row
            .err_detail
            .clone()
            .unwrap_or_else(|| row.err.map_or(row.status.to_string(), |err| err.to_string()));
        format!("{} beside {}@b{} ({}): {why}", row.job, row.stressor, row.dial_percent, row.side)
    });
    Figure {
        part,
        missing: missing.collect(),
        ..Figure::new("Sensitivity to stressors", caption, Chart::Planes(planes))
    }
}

/// The curves of one job. There is at least one row.
fn plane(rows: &[&Curve], stressors: &[&str]) -> Plane {
    let mut plane = Plane::new(
        Axis::new("dial of the stressor", "dial_percent", Unit::Percent),
        Axis::new("slowdown", "slowdown", Unit::Ratio).tight(),
    );
    plane.title =
        rows.first().map_or(String::new(), |row| format!("{} on {}, {}", row.job, row.device, row.sharing));
    plane.rules.push(Rule::At { y: 1.0, name: "as alone".into() });
    for (place, stressor) in stressors.iter().enumerate() {
        for (side, form) in [(Side::Sensitivity, Form::LineAndDots), (Side::Aggressiveness, Form::DashedLine)]
        {
            let of = rows.iter().filter(|row| row.stressor == *stressor && row.side == side);
            let points = of.filter_map(|row| point(row)).collect();
            plane.series.push(Series::new(*stressor, Colours::nth(place), form, points));
        }
    }
    plane
}

fn point(row: &Curve) -> Option<Point> {
    Some(Point {
        ci: together::ends(row.slowdown_ci_lo, row.slowdown_ci_hi),
        label: format!("{} of {} beside {}", row.side, row.job, row.stressor),
        ..Point::at(f64::from(row.dial_percent), together::finite(row.slowdown)?)
    })
}

#[cfg(test)]
mod tests {
    use schema::rows::from_json;

    use super::{super::together::testing, *};

    fn curve(stressor: &str, dial: u32, side: &str, slowdown: Option<f64>) -> Curve {
        let number = |value: Option<f64>| value.map_or("null".into(), |value| value.to_string());
        from_json(&format!(
            r#"{{"run":"r","job":"lstm@b20@dp1","device":"cpu:0","sharing":"time-slice","stressor":"{stressor}","dial_percent":{dial},
            "side":"{side}","blocks":3,"slowdown":{},"slowdown_ci_lo":{},"slowdown_ci_hi":{},"status":"{}","err":null,"err_detail":null}}"#,
            number(slowdown),
            number(slowdown.map(|value| value - 0.1)),
            number(slowdown.map(|value| value + 0.1)),
            if slowdown.is_some() { "ok" } else { "failed" }
        ))
        .expect("a row")
    }

    #[test]
    fn every_row_is_a_point_of_its_curve() {
        let mut run = testing::run(Vec::new());
        run.curves = vec![
            curve("stress-cache", 50, "sensitivity", Some(1.25)),
            curve("stress-cache", 100, "sensitivity", Some(1.5)),
            curve("stress-cache", 50, "aggressiveness", Some(1.1)),
            curve("stress-io", 50, "sensitivity", None),
        ];
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let points =
            |at: usize| planes[0].series[at].points.iter().map(|p| (p.x, p.y, p.ci)).collect::<Vec<_>>();
        assert_eq!(points(0), [(50.0, 1.25, Some((1.15, 1.35))), (100.0, 1.5, Some((1.4, 1.6)))]);
        assert_eq!(points(1).len(), 1);
        assert_eq!(figure.missing, ["lstm@b20@dp1 beside stress-io@b50 (sensitivity): failed"]);
    }
}
