//! The step time and the memory of all plans of a workload at one batch, and the plans that no other plan
//! beats in both.

use record::rows::{Status, Summary};

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

/// The number of fronts that the finding of a figure names.
const MOST_NAMED: usize = 4;

/// A plan, its median step and its peak of memory.
type Plan<'a> = (&'a Summary, f64, f64);

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let known = run.summaries.iter().filter_map(numbers);
    let mut groups = planes::grouped(known, |plan| (&plan.0.workload, plan.0.global_batch, &plan.0.vary));
    groups.retain(|group| group.len() > 1);
    planes::in_figures(groups).into_iter().map(|(part, groups)| figure(run, colours, part, &groups)).collect()
}

fn figure(run: &Run, colours: &Colours, part: String, groups: &[Vec<Plan>]) -> Figure {
    let names = Names::of(run);
    let caption = format!(
        "The median step and the peak of tensor memory of the largest rank, for the plans of each workload \
         and batch alone on {}. Plans of the Pareto front are ringed: no other plan is as fast with as \
         little memory and better in one of the two. The front is that of the medians; plans whose \
         intervals overlap may change places. Plans with several ranks use as many devices.",
        run.devices(),
    );
    let fronts: Vec<String> = groups.iter().take(MOST_NAMED).map(|group| front_of(group)).collect();
    let more = match groups.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" {more} more are in the figure."),
    };
    Figure {
        part,
        finding: format!("Pareto fronts of median step and memory: {}.{more}", fronts.join("; ")),
        doubts: alone::doubts(groups.iter().flatten().map(|(row, ..)| *row)),
        ..Figure::new(
            "Step time and memory of plans",
            caption,
            Chart::Planes(groups.iter().map(|group| plane(group, colours, &names)).collect()),
        )
    }
}

fn numbers(row: &Summary) -> Option<Plan<'_>> {
    let is_alone = row.group.is_none() && row.status == Status::Ok && row.plan.is_some();
    let numbers = row.step_ns_median.zip(row.peak_memory_bytes).filter(|_| is_alone);
    numbers.map(|(step, memory)| (row, step as f64, memory as f64))
}

fn plane(group: &[Plan], colours: &Colours, names: &Names) -> Plane {
    let x = Axis::new("median step", "step_ns_median", Unit::Ns);
    let y = Axis::new("peak memory", "peak_memory_bytes", Unit::Bytes).tight();
    let point = |plan: &Plan| Point {
        label: label(plan.0, names),
        doubt: doubt::of_job(plan.0),
        is_marked: is_on_front((plan.1, plan.2), group.iter().map(|of| (of.1, of.2))),
        ..Point::at(plan.1, plan.2)
    };
    let (row, ..) = group[0];
    let dots =
        Series::new(&row.workload, colours.of(&row.workload), Form::Dots, group.iter().map(point).collect());
    let x = alone::scaled(x, group.iter().map(|plan| plan.1));
    let y = alone::scaled(y, group.iter().map(|plan| plan.2));
    Plane { title: title(row), series: vec![dots], ..Plane::new(x, y) }
}

/// The job, and the interval of its step, which the horizontal axis does not show.
fn label(row: &Summary, names: &Names) -> String {
    let name = names.name(&row.job, &row.device);
    match alone::step_interval(row) {
        Some((lo, hi)) => format!("{name}, step {} to {}", Unit::Ns.show(lo), Unit::Ns.show(hi)),
        None => name,
    }
}

/// Whether no other plan has a step as short and a peak as low, and is better in one of the two.
pub(super) fn is_on_front((step, memory): (f64, f64), mut others: impl Iterator<Item = (f64, f64)>) -> bool {
    !others.any(|other| other != (step, memory) && other.0 <= step && other.1 <= memory)
}

fn title(row: &Summary) -> String {
    alone::title(&row.workload, row.global_batch, row.vary.as_deref())
}

/// The plans of a front, the fastest first.
fn front_of(group: &[Plan]) -> String {
    let is_on_front = |plan: &&Plan| is_on_front((plan.1, plan.2), group.iter().map(|of| (of.1, of.2)));
    let mut front: Vec<&Plan> = group.iter().filter(is_on_front).collect();
    front.sort_by(|one, other| one.1.total_cmp(&other.1));
    let plan = |(row, step, memory): &&Plan| {
        let name = row.plan.map_or_else(|| row.job.clone(), |plan| plan.to_string());
        format!("{name} ({}, {})", Unit::Ns.show(*step), Unit::Bytes.show(*memory))
    };
    format!("of {}: {}", title(group[0].0), front.iter().map(plan).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{record, run_of, summary};

    /// Walks from the fastest plan to the slowest and keeps each that needs less memory than all before it.
    fn front_by_walking(points: &[Point]) -> Vec<(u64, u64)> {
        let mut sorted: Vec<(u64, u64)> =
            points.iter().map(|point| (point.x as u64, point.y as u64)).collect();
        sorted.sort_unstable();
        let mut least = u64::MAX;
        sorted.retain(|(_, memory)| {
            let before = least;
            least = least.min(*memory);
            *memory < before
        });
        sorted
    }

    #[test]
    fn fronts_of_the_record_are_those_of_another_method() {
        let figures = make(&record("20261123-epyc/plans"), &Colours::default());
        let planes: Vec<&Plane> = figures
            .iter()
            .flat_map(|figure| match &figure.chart {
                Chart::Planes(planes) => planes,
                _ => panic!("planes"),
            })
            .collect();
        assert_eq!((figures.len(), planes.len()), (2, 18), "six workloads at three batches");
        assert_eq!(planes.iter().map(|plane| plane.series[0].points.len()).sum::<usize>(), 256);
        for plane in planes {
            let points = &plane.series[0].points;
            let mut marked: Vec<(u64, u64)> = points
                .iter()
                .filter(|point| point.is_marked)
                .map(|point| (point.x as u64, point.y as u64))
                .collect();
            marked.sort_unstable();
            assert_eq!(marked, front_by_walking(points), "{}", plane.title);
        }
    }

    #[test]
    fn the_front_is_named_and_a_single_plan_has_none() {
        let plan = |plan: &str, step, memory| {
            summary(&format!(
                r#""job": "a@b4@{plan}", "plan": "{plan}", "global_batch": 4, "step_ns_median": {step}, "peak_memory_bytes": {memory}"#
            ))
        };
        let run = run_of(vec![plan("dp1", 100, 2048), plan("gc", 200, 1024), plan("ga2", 300, 1024)]);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one") };
        let front = "of a@b4: dp1 (100 ns, 2.00 KiB), gc (200 ns, 1.00 KiB).";
        assert!(figure.finding.ends_with(front), "{}", figure.finding);
        assert_eq!(make(&run_of(vec![plan("dp1", 1, 1)]), &Colours::default()), []);
    }

    #[test]
    fn plans_with_other_values_are_in_another_plane() {
        let plan = |plan: &str, rate: f64, step: u32| {
            summary(&format!(
                r#""job": "a@b4@{plan} lr={rate}", "plan": "{plan}", "vary": "lr={rate}", "global_batch": 4, "step_ns_median": {step}, "peak_memory_bytes": 1"#
            ))
        };
        let run =
            run_of(vec![plan("dp1", 0.1, 1), plan("gc", 0.1, 2), plan("dp1", 0.5, 3), plan("gc", 0.5, 4)]);
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let titles: Vec<&str> = planes.iter().map(|plane| plane.title.as_str()).collect();
        assert_eq!(titles, ["a@b4 lr=0.1", "a@b4 lr=0.5"]);
    }
}
