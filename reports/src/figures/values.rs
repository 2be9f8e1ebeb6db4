//! The median step over the values of a name of `--vary`, of jobs that differ in this value alone.

use record::rows::{Status, Summary};
use schema::values::{self, Values};

use crate::{
    alone::{self, Names},
    chart::{Axis, Chart, Form, Plane, Point, Series},
    colours::Colours,
    doubt,
    figure::Figure,
    planes,
    run::Run,
    table::Unit,
};

/// The number of planes that the finding of a figure describes.
const MOST_NAMED: usize = 4;

/// A job under one of its names of `--vary`.
struct ValuePoint<'a> {
    row: &'a Summary,
    name: String,
    text: String,
    /// `None` if the text is no number. Such a value has no place on an axis.
    value: Option<f64>,
    /// The values of all other names.
    others: Values,
    median_ns: f64,
}

impl ValuePoint<'_> {
    fn point(&self, names: &Names) -> Option<Point> {
        let label = names.name(&self.row.job, &self.row.device);
        let (ci, doubt) = (alone::step_interval(self.row), doubt::of_job(self.row));
        Some(Point { ci, label, doubt, ..Point::at(self.value?, self.median_ns) })
    }
}

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let all = run.summaries.iter().flat_map(of_row);
    let mut groups = planes::grouped(all, |one| (one.name.clone(), &*one.row.workload, one.row.global_batch));
    groups.retain(|group| has_several_numbers(group));
    planes::in_figures(groups).into_iter().map(|(part, groups)| figure(run, part, &groups)).collect()
}

/// A row for each of its names.
fn of_row(row: &Summary) -> Vec<ValuePoint<'_>> {
    let is_alone = row.group.is_none() && row.status == Status::Ok;
    let Some(median_ns) = row.step_ns_median.filter(|_| is_alone) else { return Vec::new() };
    let values = row.vary.as_deref().map_or_else(Values::new, values::read);
    let varied = |(name, text): (&String, &String)| {
        let mut others = values.clone();
        others.remove(name);
        let value = text.parse().ok().filter(|value: &f64| value.is_finite());
        ValuePoint { row, name: name.clone(), text: text.clone(), value, others, median_ns: median_ns as f64 }
    };
    values.iter().map(varied).collect()
}

fn has_several_numbers(group: &[ValuePoint]) -> bool {
    let mut values = group.iter().filter_map(|one| one.value);
    values.next().is_some_and(|first| values.any(|other| other != first))
}

fn figure(run: &Run, part: String, groups: &[Vec<ValuePoint>]) -> Figure {
    let caption = format!(
        "The median step of jobs alone on {}, over the values of a name of --vary. The jobs of a line differ in this \
         value alone. Intervals are 95 %, between launches, where a job was launched more than once. Values that are no \
         numbers are in the figure of step times.",
        run.devices(),
    );
    let all = || groups.iter().flatten();
    let without_number = all().filter(|one| one.value.is_none());
    let mut doubts = alone::doubts(all().filter(|one| one.value.is_some()).map(|one| one.row));
    doubts.sort();
    doubts.dedup();
    let more = match groups.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" {more} more are in the figure."),
    };
    let findings: Vec<String> = groups.iter().take(MOST_NAMED).filter_map(|group| finding(group)).collect();
    let names = Names::of(run);
    Figure {
        part,
        finding: format!("Median step: {}.{more}", findings.join("; ")),
        doubts,
        missing: without_number.map(|one| format!("{}: {} is no number", one.row.job, one.text)).collect(),
        ..Figure::new(
            "Step time over values",
            caption,
            Chart::Planes(groups.iter().map(|group| plane(group, &names)).collect()),
        )
    }
}

/// The points that differ in the value of their name alone.
fn lines<'a>(group: &'a [ValuePoint<'a>]) -> Vec<Vec<&'a ValuePoint<'a>>> {
    planes::grouped(group, |one| (one.row.plan, &one.others, &one.row.device))
}

fn plane(group: &[ValuePoint], names: &Names) -> Plane {
    let ValuePoint { row, name, .. } = &group[0];
    let x = alone::scaled(Axis::new(name, name, Unit::Plain), group.iter().filter_map(|one| one.value));
    let y = alone::scaled(
        Axis::new("median step", "step_ns_median", Unit::Ns),
        group.iter().map(|one| one.median_ns),
    );
    let has_several_devices = group.iter().any(|one| one.row.device != row.device);
    let line = |(index, line): (usize, Vec<&ValuePoint>)| {
        let mut points: Vec<Point> = line.iter().filter_map(|one| one.point(names)).collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        let first = line[0];
        let plan = first.row.plan.map(|plan| plan.to_string());
        let device = has_several_devices.then(|| format!("on {}", first.row.device));
        let parts: Vec<String> = [plan, values::text(&first.others), device].into_iter().flatten().collect();
        let label = if parts.is_empty() { first.row.workload.clone() } else { parts.join(" ") };
        Series::new(label, Colours::nth(index), Form::LineAndDots, points)
    };
    let series = lines(group).into_iter().enumerate().map(line).collect();
    Plane { title: alone::title(&row.workload, row.global_batch, None), series, ..Plane::new(x, y) }
}

/// The values with the shortest and the longest step of the line on which they differ most, and whether their intervals are apart.
fn finding(group: &[ValuePoint]) -> Option<String> {
    let ratio = |(fast, slow): &(&ValuePoint, &ValuePoint)| slow.median_ns / fast.median_ns;
    let all = lines(group).into_iter().filter_map(fastest_and_slowest);
    let (fast, slow) = all.max_by(|one, other| ratio(one).total_cmp(&ratio(other)))?;
    let certainty = match alone::step_interval(fast.row).zip(alone::step_interval(slow.row)) {
        None => ", without an interval",
        Some((fast, slow)) if slow.0 <= fast.1 => ", and the intervals overlap",
        Some(_) => "",
    };
    let step = |one: &ValuePoint| format!("{} with {}", Unit::Ns.show(one.median_ns), one.row.job);
    Some(format!("over {}, {} to {}{certainty}", fast.name, step(fast), step(slow)))
}

fn fastest_and_slowest<'a>(
    line: Vec<&'a ValuePoint<'a>>,
) -> Option<(&'a ValuePoint<'a>, &'a ValuePoint<'a>)> {
    let numbers = || line.iter().copied().filter(|one| one.value.is_some());
    let fast = numbers().min_by(|one, other| one.median_ns.total_cmp(&other.median_ns))?;
    let slow = numbers().max_by(|one, other| one.median_ns.total_cmp(&other.median_ns))?;
    Some((fast, slow))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{run_of, summary};

    fn row(workers: &str, lr: &str, step: u64, spread: u64) -> Summary {
        let (lo, hi) = (step - spread, step + spread);
        summary(&format!(
            r#""job": "a@b8@dp1 lr={lr} workers={workers}", "vary": "lr={lr} workers={workers}", "plan": "dp1",
            "global_batch": 8, "step_ns_median": {step}, "step_ns_median_ci_lo": {lo}, "step_ns_median_ci_hi": {hi},
            "half_width_percent": 1.0, "repeats": 5"#
        ))
    }

    fn planes(figure: &Figure) -> &[Plane] {
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        planes
    }

    #[test]
    fn each_name_has_a_plane_with_a_line_for_every_value_of_the_others() {
        let rows = [("4", "0.1", 100), ("0", "0.1", 300), ("0", "0.001", 310), ("4", "0.001", 110)];
        let run = run_of(rows.map(|(workers, lr, step)| row(workers, lr, step, 5)).into());
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        let [lr, workers] = planes(figure) else { panic!("two names") };
        assert_eq!((&*lr.x.column, &*workers.x.column, &*workers.title), ("lr", "workers", "a@b8"));
        let points = |plane: &Plane| -> Vec<(String, Vec<(f64, f64)>)> {
            let coordinates =
                |series: &Series| series.points.iter().map(|point| (point.x, point.y)).collect();
            plane.series.iter().map(|series| (series.name.clone(), coordinates(series))).collect()
        };
        assert_eq!(
            points(workers),
            [
                ("dp1 lr=0.1".into(), vec![(0.0, 300.0), (4.0, 100.0)]),
                ("dp1 lr=0.001".into(), vec![(0.0, 310.0), (4.0, 110.0)])
            ]
        );
        assert_eq!(
            points(lr),
            [
                ("dp1 workers=4".into(), vec![(0.001, 110.0), (0.1, 100.0)]),
                ("dp1 workers=0".into(), vec![(0.001, 310.0), (0.1, 300.0)])
            ]
        );
        assert_eq!(workers.series[0].points[1].ci, Some((95.0, 105.0)));
        let over_lr =
            "over lr, 100 ns with a@b8@dp1 lr=0.1 workers=4 to 110 ns with a@b8@dp1 lr=0.001 workers=4";
        let over_workers =
            "over workers, 100 ns with a@b8@dp1 lr=0.1 workers=4 to 300 ns with a@b8@dp1 lr=0.1 workers=0";
        assert_eq!(
            figure.finding,
            format!("Median step: {over_lr}, and the intervals overlap; {over_workers}.")
        );
        assert_eq!(figure.missing, [] as [&str; 0]);
    }

    #[test]
    fn words_have_no_place_and_intervals_that_overlap_are_said() {
        let rows = [row("1", "x", 100, 60), row("2", "x", 140, 60), row("auto", "x", 90, 5)];
        let run = run_of(rows.into());
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one figure") };
        assert_eq!(planes(figure).len(), 1);
        assert_eq!(figure.missing, ["a@b8@dp1 lr=x workers=auto: auto is no number"]);
        assert!(figure.finding.ends_with("workers=2, and the intervals overlap."), "{}", figure.finding);
        assert_eq!(
            make(&run_of(vec![row("1", "x", 100, 5)]), &Colours::default()),
            [],
            "one value is no line"
        );
    }
}
