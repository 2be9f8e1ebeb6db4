//! The distribution of completion times over jobs, one line for each run of `sched`.

use crate::{
    chart::{Axis, Chart, Form, Plane, Series},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    run::Run,
    scheduled::{cdf, completion_times, left_out, places, points_drawn, sides, time_axis},
    table::Unit,
};

/// The largest number of points of a line.
const MOST_POINTS: usize = 2_000;

pub(super) fn make(runs: &[Run], colours: &Colours) -> Vec<Figure> {
    let sides = sides(runs, colours);
    let times: Vec<Vec<u64>> = sides.iter().map(|side| completion_times(side.run)).collect();
    let all = times.iter().flatten().map(|ns| *ns as f64);
    let mut plane = Plane::new(
        time_axis("completion time of a job (JCT)", "jct_ns", all),
        Axis::new("jobs that completed within it", "jobs_percent", Unit::Percent),
    );
    for (side, times) in sides.iter().zip(&times).filter(|(_, times)| !times.is_empty()) {
        let series = Series::new(side.name.clone(), side.colour, Form::Steps, cdf(times));
        plane.series.push(decimated(series, MOST_POINTS));
    }
    if plane.series.is_empty() {
        return Vec::new();
    }
    let counts: Vec<String> =
        sides.iter().zip(&times).map(|(side, times)| format!("{} {}", side.name, times.len())).collect();
    let caption = format!(
        "Part of the jobs that completed within a time after their arrival, on {}. Jobs that ended well: {}. The lines are of one \
         run each and have no intervals.{}",
        places(&sides),
        counts.join(", "),
        points_drawn(&plane.series)
    );
    let missing = left_out(&sides);
    let chart = Chart::Planes(vec![plane]);
    vec![Figure { missing, ..Figure::new("Completion times of jobs by policy", caption, chart) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn half_of_the_jobs_are_below_the_median_of_the_run() {
        let runs = recorded();
        let [figure] = &make(&runs, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        assert_eq!(planes[0].series.len(), runs.len());
        for (series, run) in planes[0].series.iter().zip(&runs) {
            let totals = outcomes::totals::totals("", &run.outcomes, 2);
            let median = totals.jct_ns_median.expect("jobs ended well") as f64;
            let below = series.points.iter().take_while(|point| point.x <= median).last().expect("a point");
            let jobs = run.outcomes.len();
            assert_eq!(below.y, jobs.div_ceil(2) as f64 / jobs as f64 * 100.0, "{}", series.name);
            assert_eq!(series.points.last().map(|point| point.y), Some(100.0));
        }
        assert!(make(&[], &Colours::default()).is_empty());
    }
}
