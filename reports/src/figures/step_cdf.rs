//! The distribution of the steady steps of each launch alone.

use crate::{
    alone::{self, Names},
    chart::{Axis, Chart, Form, Plane, Point, Rule, Series},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    planes,
    run::Run,
    step_figure,
    steps::StepsOfLaunch,
    table::Unit,
};

/// About the number of points of a launch.
const POINTS: usize = 600;

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let names = Names::of(run);
    let jobs = planes::in_figures(run.steps().by_job());
    jobs.into_iter().map(|(part, jobs)| figure(run, part, &jobs, &names)).collect()
}

fn figure(run: &Run, part: String, jobs: &[Vec<&StepsOfLaunch>], names: &Names) -> Figure {
    let planes: Vec<Plane> = jobs.iter().map(|launches| plane(launches, names)).collect();
    let caption = format!(
        "The part of the steady steps of each launch that took at most a time, of the jobs alone on {}. \
         Curves of one job that lie apart show a difference between its launches. {}",
        run.devices(),
        step_figure::decimation(&planes),
    );
    Figure {
        part,
        doubts: step_figure::doubts(jobs),
        missing: run.steps().problems.clone(),
        ..Figure::new("Distribution of step times", caption, Chart::Planes(planes))
    }
}

fn plane(launches: &[&StepsOfLaunch], names: &Names) -> Plane {
    let all = launches.iter().flat_map(|launch| launch.used_ns()).map(|ns| ns as f64);
    let x = alone::scaled(Axis::new("time of a step", "step_ns", Unit::Ns).tight(), all);
    let y = Axis::new("steps that took at most this", "steps_percent", Unit::Percent);
    let series = |launch: &&StepsOfLaunch| {
        decimated(
            Series::new(launch.name(), launch.colour(), Form::Steps, curve(launch.used_ns().collect())),
            POINTS,
        )
    };
    Plane {
        title: step_figure::title(launches, names),
        series: launches.iter().map(series).collect(),
        rules: vec![Rule::At { y: 50.0, name: "median".into() }],
        ..Plane::new(x, y)
    }
}

/// The percentage of times up to each different time. It begins at zero.
fn curve(mut ns: Vec<u64>) -> Vec<Point> {
    ns.sort_unstable();
    let count = ns.len() as f64;
    let mut below = 0;
    let begin = ns.first().map(|first| Point::at(*first as f64, 0.0));
    let others = ns.chunk_by(|one, other| one == other).map(|equal| {
        below += equal.len();
        Point::at(equal[0] as f64, 100.0 * below as f64 / count)
    });
    begin.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use statistics::median;

    use super::*;
    use crate::steps::tests::{Written, run_with_steps};

    #[test]
    fn half_of_the_steps_are_up_to_the_median() {
        let lengths: Vec<u64> = (0..3_001).map(|step| 10_000 + step * 7_919 % 3_001).collect();
        let used = 1..3_000;
        let expected = median(&lengths[used.clone()]).unwrap();
        let written = run_with_steps(&[Written { lengths: vec![lengths], used, ..Written::default() }]);
        let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let points = &planes[0].series[0].points;
        // The value of a line of steps at the median is that of the last point up to it.
        let at = points.iter().take_while(|point| point.x <= expected).last().unwrap();
        assert!((at.y - 50.0).abs() < 0.5, "{at:?}");
        assert_eq!((points[0].y, points.last().unwrap().y), (0.0, 100.0));
        assert!(points.is_sorted_by(|one, other| one.x <= other.x && one.y < other.y));
    }

    #[test]
    fn equal_times_are_one_jump() {
        let jumps: Vec<(f64, f64)> = curve(vec![5, 3, 5, 9]).iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(jumps, [(3.0, 0.0), (3.0, 25.0), (5.0, 75.0), (9.0, 100.0)]);
        assert_eq!(curve(vec![]), []);
    }
}
