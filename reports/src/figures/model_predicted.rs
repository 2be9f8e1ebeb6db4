//! Predicted against measured step times of a fitted model: each configuration as the other configurations predict it.

use formats::fitted::{FittedRow, FittedWorkload};

use crate::{
    chart::{Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    figure::Figure,
    figures::model_rows::label,
    fitted::FittedModel,
    scheduled::time_axis,
};

pub(super) fn make(model: &FittedModel, colours: &Colours) -> Vec<Figure> {
    let workloads = &model.file.workloads;
    let series: Vec<Series> = workloads.iter().map(|of| series(of, colours)).collect();
    let all = || series.iter().flat_map(|series| &series.points);
    let count = all().count();
    if count == 0 {
        return Vec::new();
    }
    let inside = all().filter(|point| point.ci.is_some_and(|(lo, hi)| (lo..=hi).contains(&point.x))).count();
    let axis = |label, column| time_axis(label, column, all().flat_map(|point| [point.x, point.y]));
    let mut plane =
        Plane::new(axis("measured step", "measured_step_ns"), axis("predicted step", "predicted_step_ns"));
    plane.rules.push(Rule::Equal);
    plane.series = series.into_iter().filter(|series| !series.points.is_empty()).collect();
    let caption = format!(
        "Step times of {count} rows of {} on {}: measured, and predicted by the first formula of the workload from all other configurations. \
         On the line, both are equal. Bars are 95 % intervals; {inside} of {count} rows are inside, by whose errors the intervals were set.",
        model.name, model.file.device_type
    );
    let rows = || workloads.iter().flat_map(|of| of.rows.iter().map(move |row| (of, row)));
    let doubtful = rows().filter(|(_, row)| row.doubtful);
    let missing = doubtful.map(|(of, row)| format!("{}: all other rows contradict it", label(of, row)));
    let others = rows().filter(|(_, row)| row.left_out.is_none() && !row.doubtful).count();
    let undescribed = (others > 0)
        .then(|| format!("{others} rows that the first formula does not describe, or that have too few other configurations"));
    vec![Figure {
        missing: missing.chain(undescribed).collect(),
        ..Figure::new("Predicted and measured step times", caption, Chart::Planes(vec![plane]))
    }]
}

fn series(workload: &FittedWorkload, colours: &Colours) -> Series {
    let point = |row: &FittedRow| {
        let left_out = row.left_out?;
        Some(Point {
            ci: Some((left_out.step_ns_ci_lo as f64, left_out.step_ns_ci_hi as f64)),
            label: label(workload, row),
            ..Point::at(row.step_ns as f64, left_out.step_ns as f64)
        })
    };
    let mut points: Vec<Point> = workload.rows.iter().filter_map(point).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    Series::new(&workload.workload, colours.of(&workload.workload), Form::Dots, points)
}
