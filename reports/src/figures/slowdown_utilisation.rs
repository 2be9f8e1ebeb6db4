//! Whether the slowdown of a job follows from the utilisation of all members alone, with the line that fits.

use statistics::line::{Line, without_each};

use super::together::{self, Together};
use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Series},
    colours::{Colour, Colours},
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    together::parts(run)
        .iter()
        .filter(|part| !part.is_apart)
        .filter_map(|part| figure(run, colours, part))
        .collect()
}

fn figure(run: &Run, colours: &Colours, part: &together::GroupsOfFigure) -> Option<Figure> {
    let mut plane = Plane::new(
        Axis::new("summed utilisation of the members alone", "alone_util_percent_sum", Unit::Percent),
        Axis::new("slowdown", "slowdown", Unit::Ratio),
    );
    let mut unknown = 0;
    for group in &part.groups {
        match summed_utilisation(run, group) {
            None => unknown += 1,
            Some(x) => plane.series.extend(members(group, x, colours)),
        }
    }
    plane.series.retain(|series| !series.points.is_empty());
    if plane.series.is_empty() {
        return None;
    }
    let valid: Vec<(f64, f64)> = part
        .valid()
        .filter_map(|group| Some((summed_utilisation(run, group)?, group)))
        .flat_map(|(x, group)| {
            group.rows.iter().filter_map(move |row| Some((x, together::finite(row.slowdown)?)))
        })
        .collect();
    let law = Line::through(&valid).filter(|line| line.n > 2);
    plane.series.extend(law.map(|line| drawn(&line, &valid)));
    let caption = format!(
        "Slowdown of each member of a group on {} under {}, over the utilisation of all members alone, summed: {}. Intervals are 95 %, \
         over blocks; hollow points are not valid. {} Gandiva (OSDI 2018, Table 1) packs by this sum.",
        run.devices(),
        part.name,
        together::repeats(&part.groups),
        words(law.as_ref(), &valid)
    );
    let mut missing = together::failures(&part.groups);
    missing.extend(
        (unknown > 0)
            .then(|| format!("{unknown} groups, because the utilisation of a member alone is not known")),
    );
    Some(Figure {
        part: part.name.clone(),
        doubts: together::doubts(&part.groups),
        missing,
        ..Figure::new(format!("Slowdown and utilisation, {}", part.name), caption, Chart::Planes(vec![plane]))
    })
}

/// The sum over the members of the utilisation of their device by their job alone.
fn summed_utilisation(run: &Run, group: &Together) -> Option<f64> {
    let alone = |job: &str, device: &str| {
        let is_of =
            |row: &&schema::rows::Summary| row.group.is_none() && row.job == job && row.device == device;
        run.summaries.iter().find(is_of).and_then(|row| together::finite(row.device_util_percent_mean))
    };
    group.rows.iter().map(|row| alone(&row.job, &row.device)).sum()
}

fn members<'a>(group: &'a Together, x: f64, colours: &'a Colours) -> impl Iterator<Item = Series> + use<'a> {
    group.rows.iter().enumerate().filter_map(move |(place, row)| {
        let point = Point {
            ci: together::ends(row.slowdown_ci_lo, row.slowdown_ci_hi),
            label: format!("{} beside {}", row.job, group.beside(place)),
            doubt: if row.valid { String::new() } else { together::doubt(row) },
            ..Point::at(x, together::finite(row.slowdown)?)
        };
        Some(Series::new(&row.workload, colours.of(&row.workload), Form::Dots, vec![point]))
    })
}

fn drawn(line: &Line, valid: &[(f64, f64)]) -> Series {
    let xs = || valid.iter().map(|(x, _)| *x);
    let ends = [xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max)];
    let points = ends.map(|x| Point::at(x, line.at(x))).to_vec();
    Series::new("least squares of valid points", Colour::Muted, Form::DashedLine, points)
}

/// The law, and how well it predicts what it was not fitted to.
fn words(law: Option<&Line>, valid: &[(f64, f64)]) -> String {
    let Some(line) = law else {
        return format!("The {} valid points have no line.", valid.len());
    };
    let slope = line.slope_interval().map_or(String::new(), |of| format!(" ({:.4} to {:.4})", of.lo, of.hi));
    let explained = line.r_squared.map_or(String::new(), |part| format!(", R^2 {part:.2}"));
    let errors = without_each(valid).map(|predicted| {
        let error = |(of, (_, y)): (&f64, &(f64, f64))| (of / y - 1.0).abs();
        100.0 * predicted.iter().zip(valid).map(error).sum::<f64>() / valid.len() as f64
    });
    let error = errors.map_or(String::new(), |percent| {
        format!(", mean error {percent:.1} % if each point is left out in turn")
    });
    format!(
        "Line through the {} valid points: slowdown = {:.3} + {:.4}{slope} per percent{explained}{error}.",
        valid.len(),
        line.intercept,
        line.slope
    )
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    #[test]
    fn points_are_the_rows_and_the_line_is_that_of_the_valid_ones() {
        let run = testing::record("20261123-epyc/colocate/all-pairs-1");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let of_rows = planes[0].series.iter().filter(|series| series.form == Form::Dots);
        let ys: Vec<f64> = of_rows.flat_map(|series| &series.points).map(|point| point.y).collect();
        assert_eq!(ys, run.interference.iter().filter_map(|row| row.slowdown).collect::<Vec<_>>());
        let alone = |job: &str| {
            let row = run.summaries.iter().find(|row| row.group.is_none() && row.job == job);
            row.and_then(|row| row.device_util_percent_mean).expect("a core has a utilisation")
        };
        let first = &planes[0].series[0].points[0];
        assert_eq!(first.x, 2.0 * alone(&run.interference[0].job));
        let valid = run.interference.iter().filter(|row| row.valid).count();
        assert!(figure.caption.contains(&format!("the {valid} valid points")), "{}", figure.caption);
    }
}
