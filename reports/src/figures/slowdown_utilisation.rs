//! Whether the slowdown of jobs follows from how busy each keeps the device alone: points, and the line through them.
//!
//! Gandiva packs jobs whose utilisation leaves room for each other, because the gain of packing falls with the sum of their
//! utilisation (W. Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018, table 1).

use std::collections::BTreeMap;

use record::rows::{Interference, Status};
use statistics::{Line, line};

use super::together::{self, GroupsOfFigure, Together};
use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::{Colour, Colours},
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    // Utilisations of different devices do not add up.
    let parts = together::parts(run);
    parts.iter().filter(|part| !part.is_apart).filter_map(|part| figure(run, part, colours)).collect()
}

fn figure(run: &Run, part: &GroupsOfFigure, colours: &Colours) -> Option<Figure> {
    let mut series: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    let mut missing = together::failures(&part.groups);
    for group in &part.groups {
        let Some(x) = utilisation(run, group) else {
            missing.push(format!("{}: the utilisation of a member alone is not known", group.name()));
            continue;
        };
        for (place, row) in group.rows.iter().enumerate() {
            let Some(y) = together::finite(row.slowdown) else { continue };
            let label = format!("{} beside {}", row.job, group.beside(place));
            let ci = together::ends(row.slowdown_ci_lo, row.slowdown_ci_hi);
            let point = Point { ci, label, doubt: together::doubt(row), ..Point::at(x, y) };
            series.entry(&row.workload).or_default().push(point);
        }
    }
    if series.is_empty() {
        return None;
    }
    let law = Law::of(run, part);
    let mut plane = Plane::new(
        Axis::new("summed utilisation of the members alone", "device_util_percent_sum", Unit::Percent),
        Axis::new("slowdown", "slowdown", Unit::Ratio).tight(),
    );
    let of_workload =
        |(name, points): (&str, Vec<Point>)| Series::new(name, colours.of(name), Form::Dots, points);
    plane.series = series.into_iter().map(of_workload).collect();
    plane.series.extend(law.as_ref().map(Law::series));
    plane.rules.push(Rule::At { y: 1.0, name: "as alone".into() });
    let caption = format!(
        "The slowdown of each member under {}, over the sum of the utilisation that each member of its group has alone, on {}: \
         {}. Intervals are 95 %, over blocks; hollow points are doubtful. {}",
        part.sharing,
        run.devices(),
        together::repeats(&part.groups),
        law.as_ref().map_or_else(
            || format!("There is no line, because that takes {MIN_GROUPS} groups without doubts."),
            Law::caption
        )
    );
    let title = format!("Slowdown and utilisation: {}", part.name);
    let mut figure = Figure::new(title, caption, Chart::Planes(vec![plane]));
    figure.part = part.name.clone();
    figure.finding = law.map(|law| law.finding(&part.name)).unwrap_or_default();
    figure.doubts = together::doubts(&part.groups);
    figure.missing = missing;
    Some(figure)
}

/// The sum of the utilisation that each member has alone; `None` if one is not known.
fn utilisation(run: &Run, group: &Together) -> Option<f64> {
    let alone = |row: &Interference| {
        let mut of_job = run.summaries.iter().filter(|summary| {
            summary.group.is_none()
                && summary.job == row.job
                && summary.device == row.device
                && summary.status == Status::Ok
        });
        together::finite(of_job.next()?.device_util_percent_mean)
    };
    group.rows.iter().map(alone).sum()
}

/// Fewer groups have no line: they often have nearly the same utilisation.
const MIN_GROUPS: usize = 5;

/// The line through the mean slowdowns of the groups without doubts.
struct Law {
    line: Line,
    /// The least and the largest summed utilisation.
    range: (f64, f64),
    /// Root mean square of the errors of single slowdowns, each predicted from the other groups.
    left_out_error: Option<f64>,
}

impl Law {
    /// `None` for fewer than [`MIN_GROUPS`], or if all have the same utilisation.
    fn of(run: &Run, part: &GroupsOfFigure) -> Option<Law> {
        let of_group = |group: &Together| {
            let slowdowns: Option<Vec<f64>> =
                group.rows.iter().map(|row| together::finite(row.slowdown)).collect();
            let slowdowns = slowdowns.filter(|all| !all.is_empty())?;
            let mean = slowdowns.iter().sum::<f64>() / slowdowns.len() as f64;
            Some(((utilisation(run, group)?, mean), slowdowns))
        };
        let (points, slowdowns): (Vec<(f64, f64)>, Vec<Vec<f64>>) =
            part.without_doubts().filter_map(of_group).unzip();
        let line = Line::through(&points).filter(|line| line.n >= MIN_GROUPS)?;
        let errors = line::without_each(&points).map(|predicted| {
            let of_group = |(predicted, slowdowns): (&f64, &Vec<f64>)| {
                slowdowns.iter().map(|slowdown| (slowdown - predicted).powi(2)).collect::<Vec<_>>()
            };
            let squares: Vec<f64> = predicted.iter().zip(&slowdowns).flat_map(of_group).collect();
            (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
        });
        let xs = || points.iter().map(|(x, _)| *x);
        let range = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        Some(Law { line, range, left_out_error: errors })
    }

    fn series(&self) -> Series {
        let end = |x: f64| Point::at(x, self.line.at(x));
        Series::new(
            "least squares",
            Colour::Ink,
            Form::DashedLine,
            vec![end(self.range.0), end(self.range.1)],
        )
    }

    fn caption(&self) -> String {
        let explained = self.line.r_squared.map(|part| format!(" (R^2 {part:.2})")).unwrap_or_default();
        let error = self.left_out_error.map_or_else(String::new, |error| {
            format!(
                " A slowdown that is predicted from the line through the other groups is off by {error:.2} (root mean square)."
            )
        });
        format!(
            "The line is fitted by least squares to the mean slowdowns of the {} groups without doubts: {:.2} and {:.3} for each \
             percent{explained}. Groups of the same job share its times alone, so that the interval of the slope may be too \
             narrow.{error}",
            self.line.n, self.line.intercept, self.line.slope
        )
    }

    fn finding(&self, part: &str) -> String {
        let Some(slope) = self.line.slope_interval() else { return String::new() };
        let [each, lo, hi] = [slope.estimate, slope.lo, slope.hi].map(|slope| 10.0 * slope);
        let noise = if slope.contains(0.0) { ", which is within noise of no effect" } else { "" };
        let error = self
            .left_out_error
            .map(|error| format!("; groups left out are predicted to {error:.2}"))
            .unwrap_or_default();
        format!(
            "under {part}, 10 % more of summed utilisation go with {each:.3} ({lo:.3} to {hi:.3}) more of slowdown, over {} \
             groups{noise}{error}",
            self.line.n
        )
    }
}

#[cfg(test)]
mod tests;
