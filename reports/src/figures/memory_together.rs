//! The memory of groups against the sum of what their members take alone.

use super::together::{self, GroupsOfFigure, Together};
use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let parts = together::parts(run);
    let mut plane = Plane::new(
        Axis::new("sum of the members alone", "alone_memory_sum_bytes", Unit::Bytes),
        Axis::new("members together", "group_memory_bytes", Unit::Bytes),
    );
    plane.series = parts.iter().enumerate().map(|(place, part)| series(part, place)).collect();
    plane.series.retain(|series| !series.points.is_empty());
    plane.rules.push(Rule::Equal);
    let points: Vec<&Point> = plane.series.iter().flat_map(|series| &series.points).collect();
    if points.is_empty() {
        return Vec::new();
    }
    let ratios = points.iter().filter(|point| point.x > 0.0).map(|point| point.y / point.x);
    let (least, most) = ratios
        .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), ratio| (least.min(ratio), most.max(ratio)));
    let groups: Vec<&Together> = parts.iter().flat_map(|part| &part.groups).collect();
    let caption = format!(
        "Sum of the peaks of the members of each group, together and alone, on {}: device memory as the driver reports it on a GPU, \
         resident memory on cores. On the line, both are equal. {}; values have no intervals.",
        run.devices(),
        together::repeats(groups.iter().copied())
    );
    let absent = groups.len() - points.len();
    vec![Figure {
        finding: format!(
            "Groups take {least:.2} to {most:.2} times the memory that their members take alone."
        ),
        missing: (absent > 0)
            .then(|| format!("{absent} groups whose memory is not known"))
            .into_iter()
            .collect(),
        ..Figure::new("Memory together and alone", caption, Chart::Planes(vec![plane]))
    }]
}

fn series(part: &GroupsOfFigure, place: usize) -> Series {
    let point = |group: &Together| {
        let row = group.rows.first()?;
        let (x, y) = (row.alone_memory_sum_bytes? as f64, row.group_memory_bytes? as f64);
        Some(Point { label: group.name(), doubt: group.doubt(), ..Point::at(x, y) })
    };
    Series::new(&part.name, Colours::nth(place), Form::Dots, part.groups.iter().filter_map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    #[test]
    fn every_group_of_a_record_is_a_point() {
        let run = testing::record("20261123-epyc/colocate/all-pairs-2");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let found: Vec<(f64, f64)> =
            planes[0].series[0].points.iter().map(|point| (point.x, point.y)).collect();
        let of = |pair: &[schema::rows::Interference]| {
            (pair[0].alone_memory_sum_bytes.unwrap() as f64, pair[0].group_memory_bytes.unwrap() as f64)
        };
        assert_eq!(found, run.interference.chunks(2).map(of).collect::<Vec<_>>());
        assert!(make(&testing::run(testing::pair("a", "b", [1.0, 1.0])), &Colours::default()).is_empty());
    }
}
