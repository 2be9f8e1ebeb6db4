//! The memory of groups beside the sum of what their members take alone.

use super::together::{self, Together};
use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let parts = together::parts(run);
    let groups = || parts.iter().flat_map(|part| &part.groups);
    let mut plane = Plane::new(
        Axis::new("sum of the peaks alone", "alone_memory_sum_bytes", Unit::Bytes).tight(),
        Axis::new("sum of the peaks in the group", "group_memory_bytes", Unit::Bytes).tight(),
    );
    for (place, part) in parts.iter().enumerate() {
        let points: Vec<Point> = part.groups.iter().filter_map(point).collect();
        if !points.is_empty() {
            plane.series.push(Series::new(&part.name, Colours::nth(place), Form::Dots, points));
        }
    }
    if plane.series.is_empty() {
        return Vec::new();
    }
    plane.rules.push(Rule::Equal);
    let caption = format!(
        "The memory of each group on {}: the sum of its members' peaks in the group over that of their peaks alone, as the \
         driver reports it on a GPU, and resident memory on cores. {}; a peak is the largest over blocks, so that it has no \
         interval.",
        run.devices(),
        together::repeats(groups())
    );
    let finding = finding(&plane);
    let mut figure = Figure::new("Memory of groups", caption, Chart::Planes(vec![plane]));
    figure.finding = finding;
    figure.doubts = together::doubts(groups());
    let without = groups().filter(|group| point(group).is_none());
    figure.missing = without.map(|group| format!("{}: its memory is not known", group.name())).collect();
    vec![figure]
}

/// A group, whose memory all of its rows have.
fn point(group: &Together) -> Option<Point> {
    let row = group.rows.first()?;
    let (alone, in_group) = row.alone_memory_sum_bytes.zip(row.group_memory_bytes)?;
    Some(Point { label: group.name(), doubt: group.doubt(), ..Point::at(alone as f64, in_group as f64) })
}

/// The range of the ratios of both sums.
fn finding(plane: &Plane) -> String {
    let points = plane.series.iter().flat_map(|series| &series.points).filter(|point| point.x > 0.0);
    let ratios: Vec<f64> = points.map(|point| point.y / point.x).collect();
    let (least, largest) = (
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    match ratios.len() {
        0 => String::new(),
        1 => format!("the group takes {least:.2} times the memory that its members take alone"),
        count => format!(
            "{count} groups take {least:.2} to {largest:.2} times the memory that their members take alone"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    #[test]
    fn each_group_is_a_point_of_its_two_sums() {
        let run = testing::record("20261123-epyc/colocate/all-pairs-1");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let [series] = &planes[0].series[..] else { panic!("one sharing mode") };
        let expected = run.interference.iter().step_by(2);
        let expected: Vec<_> =
            expected.map(|row| (row.alone_memory_sum_bytes, row.group_memory_bytes)).collect();
        let drawn = series.points.iter().map(|point| (Some(point.x as u64), Some(point.y as u64)));
        assert_eq!(drawn.collect::<Vec<_>>(), expected);
        assert!(planes[0].rules.contains(&Rule::Equal));
        assert!(figure.finding.starts_with("21 groups take 0.9"), "{}", figure.finding);
    }

    #[test]
    fn memory_that_is_not_known_is_missing() {
        let known = |row: record::rows::Interference| record::rows::Interference {
            alone_memory_sum_bytes: Some(200),
            group_memory_bytes: Some(100),
            ..row
        };
        let mut rows: Vec<_> = testing::pair("a", "b", [1.0, 1.0]).into_iter().map(known).collect();
        rows.extend(testing::pair("a", "c", [1.0, 1.0]));
        let [figure] = &make(&testing::run(rows), &Colours::default())[..] else { panic!("one figure") };
        assert_eq!(figure.missing, ["a + c: its memory is not known"]);
        assert_eq!(figure.finding, "the group takes 0.50 times the memory that its members take alone");
        assert!(make(&testing::run(testing::pair("a", "c", [1.0, 1.0])), &Colours::default()).is_empty());
    }
}
