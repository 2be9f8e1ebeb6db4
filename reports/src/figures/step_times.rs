//! The time of each step of the jobs alone, over the time of their launches.

use record::steps::StepTime;

use crate::{
    alone::{self, Names},
    chart::{Axis, Chart, Form, Plane, Point, Series},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    planes,
    run::Run,
    step_figure,
    steps::StepsOfLaunch,
    table::Unit,
};

const TITLE: &str = "Step time over time";
/// About the number of points in a plane, over all of its launches.
const POINTS_IN_PLANE: usize = 3_000;
/// The least number of points of a stretch of a launch.
const LEAST_POINTS: usize = 30;

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let names = Names::of(run);
    let jobs = planes::in_figures(run.steps().by_job());
    if jobs.is_empty() {
        return step_figure::unreadable(TITLE, &run.steps().problems).into_iter().collect();
    }
    jobs.into_iter().map(|(part, jobs)| figure(run, part, &jobs, &names)).collect()
}

fn figure(run: &Run, part: String, jobs: &[Vec<&StepsOfLaunch>], names: &Names) -> Figure {
    let planes: Vec<Plane> = jobs.iter().map(|launches| plane(launches, names)).collect();
    let caption = format!(
        "The time of each step of the jobs alone on {}, over the time since the first step of its launch. \
         Dashed are the steps that do not count: the warm-up before the steady state, and steps after there \
         were enough. {}",
        run.devices(),
        step_figure::decimation(&planes),
    );
    Figure {
        part,
        doubts: step_figure::doubts(jobs),
        missing: run.steps().problems.clone(),
        ..Figure::new(TITLE, caption, Chart::Planes(planes))
    }
}

fn plane(launches: &[&StepsOfLaunch], names: &Names) -> Plane {
    let most = (POINTS_IN_PLANE / (3 * launches.len())).max(LEAST_POINTS);
    let all = launches.iter().flat_map(|launch| launch.steps.iter().map(|step| step.dur_ns as f64));
    let y = alone::scaled(Axis::new("time of a step", "step_ns", Unit::Ns), all);
    let x = Axis::new("time since the first step", "elapsed_ns", Unit::Ns);
    let series = launches.iter().flat_map(|launch| of_launch(launch, most)).collect();
    Plane { title: step_figure::title(launches, names), series, ..Plane::new(x, y) }
}

/// The warm-up, the steady state and what came after it.
fn of_launch(launch: &StepsOfLaunch, most: usize) -> Vec<Series> {
    let start = launch.steps.first().map_or(0, |step| step.start().0);
    let point = |step: &StepTime| Point::at(step.end.0.saturating_sub(start) as f64, step.dur_ns as f64);
    let (name, colour) = (launch.name(), launch.colour());
    let series = |name: String, form, steps: &[StepTime]| {
        let series = Series::new(name, colour, form, steps.iter().map(point).collect());
        (!steps.is_empty()).then(|| decimated(series, most))
    };
    let (warm_up, others) = launch.steps.split_at(launch.used.start);
    let (used, after) = others.split_at(launch.used.len());
    let uncounted = format!("{name}, not counted");
    [
        series(uncounted.clone(), Form::DashedLine, warm_up),
        series(name, Form::Line, used),
        series(uncounted, Form::DashedLine, after),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::{Written, run_with_steps};

    #[test]
    fn each_step_is_a_point_at_its_end() {
        let launch = Written {
            lengths: vec![vec![9_000, 8_000, 5_000, 5_000, 5_100, 7_000]],
            used: 2..5,
            ..Written::default()
        };
        let written = run_with_steps(&[launch]);
        let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let points =
            |series: &Series| series.points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>();
        let series = planes[0].series.iter().map(|of| (&*of.name, of.form, points(of))).collect::<Vec<_>>();
        assert_eq!(
            series,
            [
                ("launch 1, not counted", Form::DashedLine, vec![(9e3, 9e3), (17e3, 8e3)]),
                ("launch 1", Form::Line, vec![(22e3, 5e3), (27e3, 5e3), (32.1e3, 5.1e3)]),
                ("launch 1, not counted", Form::DashedLine, vec![(39.1e3, 7e3)]),
            ]
        );
        assert!(figure.caption.contains("All points are drawn."), "{}", figure.caption);
    }

    #[test]
    fn a_long_launch_keeps_its_slowest_and_fastest_steps() {
        let mut lengths: Vec<u64> = (0..20_000).map(|step| 1_000 + step % 7).collect();
        (lengths[777], lengths[15_001]) = (90_000, 3);
        let written =
            run_with_steps(&[Written { lengths: vec![lengths], used: 10..20_000, ..Written::default() }]);
        let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let points = &planes[0].series[1].points;
        let y = || points.iter().map(|point| point.y);
        assert!(points.len() <= 1_001 && y().fold(0.0, f64::max) == 90e3 && y().fold(1e9, f64::min) == 3.0);
        let told = format!("{} of 20000 points are drawn", 10 + points.len());
        assert!(figure.caption.contains(&told), "{}", figure.caption);
    }

    #[test]
    fn unreadable_events_are_told() {
        let written =
            run_with_steps(&[Written { lengths: vec![vec![5, 5]], used: 0..2, ..Written::default() }]);
        std::fs::write(written.run.dir.events_path("0001-a", 0), "<script>\n").unwrap();
        let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Table(table) = &figure.chart else { panic!("a table of problems") };
        assert!(
            table.rows[0][0].in_csv().starts_with("events/0001-a.0.jsonl: line 1: not an event"),
            "{table:?}"
        );
    }

    #[test]
    fn a_run_without_events_has_no_figure() {
        let run = crate::alone::tests::record("20261121-epyc");
        assert_eq!(make(&run, &Colours::default()), []);
        assert!(run.steps().problems.is_empty());
    }
}
