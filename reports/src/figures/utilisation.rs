//! Busy devices and waiting jobs over the time of runs of `sched`.

use outcomes::totals::makespan_ns;

use crate::{
    activity::{Activity, steps_of},
    chart::{Axis, Chart, Form, Plane, Point, Series},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    run::Run,
    scheduled::{other_traces, places, points_drawn, sides},
    table::Unit,
};

/// The largest number of points of a line.
const MOST_POINTS: usize = 2_000;

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let sides = sides(runs, colours);
    let time = || Axis::new("time from the start of the run", "at_ns", Unit::Ns);
    let mut busy = Plane::new(time(), Axis::new("busy devices", "busy_percent", Unit::Percent));
    let mut waiting = Plane::new(time(), Axis::new("waiting jobs", "waiting_jobs", Unit::Count));
    (busy.title, waiting.title) = ("busy devices".into(), "waiting jobs".into());
    let (mut means, mut missing) = (Vec::new(), other_traces(&sides));
    for side in &sides {
        let Some(activity) = side.run.activity() else {
            missing.push(format!("{}: it has no journal", side.name));
            continue;
        };
        missing.extend(activity.problem.iter().map(|problem| format!("{}: {problem}", side.name)));
        if side.run.outcomes.is_empty() {
            missing.push(format!(
                "{}: it has no outcomes yet, and jobs that failed last count as waiting",
                side.name
            ));
        }
        let devices = side.run.device_names().len();
        let series =
            |points| decimated(Series::new(side.name.clone(), side.colour, Form::Steps, points), MOST_POINTS);
        busy.series.push(series(busy_points(activity, devices)));
        let waits = activity.waiting(&side.run.outcomes).into_iter().map(|(_, interval)| interval);
        waiting.series.push(series(points(&steps_of(waits), 1.0)));
        let mean =
            makespan_ns(&side.run.outcomes).and_then(|makespan| percent_of(activity, makespan, devices));
        means.extend(mean.map(|mean| format!("{} {mean:.1} %", side.name)));
    }
    if busy.series.is_empty() {
        return Vec::new();
    }
    let drawn = points_drawn([&busy, &waiting].into_iter().flat_map(|plane| &plane.series));
    let caption = format!(
        "The part of the devices on which at least one job runs, and the number of jobs that have arrived and have no devices, on {}. \
         Means over the makespan: {}. Each line is of one run and has no interval.{drawn}",
        places(&sides),
        if means.is_empty() { "not known".into() } else { means.join(", ") },
    );
    vec![Figure {
        missing,
        ..Figure::new("Utilisation over time", caption, Chart::Planes(vec![busy, waiting]))
    }]
}

/// The part of the devices that is busy, in percent.
fn busy_points(activity: &Activity, devices: usize) -> Vec<Point> {
    points(&steps_of(activity.busy().into_values().flatten()), 100.0 / devices.max(1) as f64)
}

fn points(steps: &[(u64, u64)], unit: f64) -> Vec<Point> {
    steps.iter().map(|(at, count)| Point::at(*at as f64, *count as f64 * unit)).collect()
}

/// The busy time of all devices over their time within the makespan, in percent. `None` without any makespan or device.
pub(super) fn percent_of(activity: &Activity, makespan_ns: u64, devices: usize) -> Option<f64> {
    let lengths = activity.busy().into_values().flatten().map(|(from, until)| u128::from(until - from));
    let there = u128::from(makespan_ns) * devices as u128;
    (there > 0).then(|| lengths.sum::<u128>() as f64 / there as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn the_mean_of_the_line_is_the_utilisation_of_the_totals() {
        let runs = recorded();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let mut compared = 0;
        for (series, run) in planes[0].series.iter().zip(&runs) {
            let area = |pair: &[Point]| pair[0].y * (pair[1].x - pair[0].x);
            let area: f64 = series.points.windows(2).map(area).sum();
            let totals = outcomes::totals::totals("", &run.outcomes, 2);
            let makespan = totals.makespan_ns.expect("jobs ended");
            let Some(expected) = totals.util_percent else { continue };
            assert!((area / makespan as f64 - expected).abs() < 1e-9, "{}", series.name);
            let direct = percent_of(run.activity().expect("a journal"), makespan, 2).expect("it is known");
            assert!((direct - expected).abs() < 1e-9);
            compared += 1;
        }
        assert!(compared >= 11, "{compared}");
        // All jobs have left the queue at the end, and the area is the sum of waiting.
        for (series, run) in planes[1].series.iter().zip(&runs) {
            let area: f64 = series.points.windows(2).map(|pair| pair[0].y * (pair[1].x - pair[0].x)).sum();
            let queued: u64 = run.outcomes.iter().filter_map(|row| row.queued_ns).sum();
            assert!((area - queued as f64).abs() < 1.0, "{area} is not {queued}");
        }
    }
}
