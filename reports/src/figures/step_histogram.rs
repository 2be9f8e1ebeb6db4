//! The number of steady steps by their time, over all launches of each job alone.

use statistics::{median_in_place, quantile_of_sorted};

use crate::{
    alone::{self, Names},
    chart::{Axis, Chart, Form, Plane, Point, Rule, Scale, Series},
    colours::Colours,
    figure::Figure,
    planes,
    run::Run,
    step_figure,
    steps::LaunchSteps,
    table::Unit,
};

const LEAST_BINS: f64 = 10.0;
const MOST_BINS: f64 = 80.0;

pub fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let names = Names::of(run);
    let jobs = planes::in_figures(run.steps().by_job());
    jobs.into_iter().map(|(part, jobs)| figure(run, colours, part, &jobs, &names)).collect()
}

fn figure(run: &Run, colours: &Colours, part: String, jobs: &[Vec<&LaunchSteps>], names: &Names) -> Figure {
    let planes: Vec<Plane> = jobs.iter().map(|launches| plane(launches, colours, names)).collect();
    let caption = format!(
        "The number of steady steps by their time, over all launches of each job alone on {}. No step is left out. Bins \
         are of equal width on the axis; on a logarithmic axis, of equal ratio.",
        run.devices(),
    );
    Figure {
        part,
        finding: finding(jobs, names),
        doubts: step_figure::doubts(jobs),
        missing: run.steps().problems.clone(),
        ..Figure::new("Histogram of step times", caption, Chart::Planes(planes))
    }
}

fn plane(launches: &[&LaunchSteps], colours: &Colours, names: &Names) -> Plane {
    let mut ns = sorted(launches);
    let x = alone::scaled(Axis::new("time of a step", "step_ns", Unit::Ns).tight(), ns.iter().copied());
    let points = histogram(&ns, x.scale);
    let colour =
        launches.first().map_or(crate::colours::Colour::Muted, |launch| colours.of(&launch.workload));
    let rules =
        (!ns.is_empty()).then(|| Rule::Upright { x: median_in_place(&mut ns), name: "median".into() });
    Plane {
        title: step_figure::title(launches, names),
        series: vec![Series::new("steps", colour, Form::Area, points)],
        rules: rules.into_iter().collect(),
        ..Plane::new(x, Axis::new("steps", "steps", Unit::Count))
    }
}

fn sorted(launches: &[&LaunchSteps]) -> Vec<f64> {
    let mut ns: Vec<f64> = launches.iter().flat_map(|launch| launch.used_ns()).map(|ns| ns as f64).collect();
    ns.sort_unstable_by(f64::total_cmp);
    ns
}

/// The left edge of each bin with its number of steps, and the right edge of the last with none.
fn histogram(sorted: &[f64], scale: Scale) -> Vec<Point> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let on_axis = |ns: f64| if scale == Scale::Log { ns.ln() } else { ns };
    let from_axis = |place: f64| if scale == Scale::Log { place.exp() } else { place };
    if first == last {
        // Equal times still have a width.
        return vec![Point::at(first - 0.5, sorted.len() as f64), Point::at(first + 0.5, 0.0)];
    }
    let quartiles = on_axis(quantile_of_sorted(sorted, 0.75)) - on_axis(quantile_of_sorted(sorted, 0.25));
    // The width of D. Freedman and P. Diaconis ("On the histogram as a density estimator", 1981).
    let width = 2.0 * quartiles / (sorted.len() as f64).cbrt();
    let (begin, range) = (on_axis(*first), on_axis(*last) - on_axis(*first));
    let bins = (range / width).ceil();
    let bins = if bins.is_finite() { bins.clamp(LEAST_BINS, MOST_BINS) } else { MOST_BINS };
    let edge = |bin: f64| from_axis(begin + range * bin / bins);
    let mut counts = vec![0_u64; bins as usize];
    for ns in sorted {
        let bin = ((on_axis(*ns) - begin) / range * bins) as usize;
        counts[bin.min(bins as usize - 1)] += 1;
    }
    let left = counts.iter().enumerate().map(|(bin, count)| Point::at(edge(bin as f64), *count as f64));
    left.chain([Point::at(*last, 0.0)]).collect()
}

/// The job with the longest tail.
fn finding(jobs: &[Vec<&LaunchSteps>], names: &Names) -> String {
    let tail = |launches: &Vec<&LaunchSteps>| {
        let ns = sorted(launches);
        let (least_of_tail, median) = (quantile_of_sorted(&ns, 0.99), quantile_of_sorted(&ns, 0.5));
        let ratio = least_of_tail / median;
        (ns.len() >= 200 && ratio.is_finite()).then(|| (ratio, ns.len(), step_figure::title(launches, names)))
    };
    let tails = jobs.iter().filter_map(tail);
    let Some((ratio, steps, job)) = tails.max_by(|one, other| one.0.total_cmp(&other.0)) else {
        return String::new();
    };
    format!(
        "Longest tail: one in a hundred of the {steps} steady steps of {job} takes {ratio:.2} times the median or more."
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::steps::tests::{Written, run_with_steps};

    proptest! {
        #[test]
        fn each_step_is_in_the_bin_that_holds_it(
            mut ns in prop::collection::vec((1..1_000_000_u64).prop_map(|ns| ns as f64), 1..400), is_log: bool,
        ) {
            ns.sort_unstable_by(f64::total_cmp);
            let points = histogram(&ns, if is_log { Scale::Log } else { Scale::Linear });
            prop_assert_eq!(points.iter().map(|point| point.y).sum::<f64>(), ns.len() as f64);
            prop_assert!(points[0].x <= ns[0] * (1.0 + 1e-9));
            prop_assert!(points[points.len() - 1].x >= ns[ns.len() - 1]);
            for pair in points.windows(2) {
                prop_assert!(pair[0].x < pair[1].x);
                // Times at an edge may be on either side of it, because of rounding.
                let (lo, hi) = (pair[0].x * (1.0 - 1e-9), pair[1].x * (1.0 + 1e-9));
                let surely = ns.iter().filter(|ns| (pair[0].x * (1.0 + 1e-9)..pair[1].x * (1.0 - 1e-9)).contains(ns)).count();
                let perhaps = ns.iter().filter(|ns| (lo..=hi).contains(ns)).count();
                prop_assert!((surely as f64..=perhaps as f64).contains(&pair[0].y));
            }
        }
    }

    #[test]
    fn launches_are_together_and_warm_up_is_left_out() {
        let launch = |repeat| Written {
            repeat,
            lengths: vec![
                (0..150)
                    .map(|step| {
                        if step == 0 {
                            900_000
                        } else {
                            1_000 + 10 * (step % 5) + 1_000 * u64::from(step == 7 || step == 9)
                        }
                    })
                    .collect(),
            ],
            used: 1..150,
            ..Written::default()
        };
        let written = run_with_steps(&[launch(0), launch(1)]);
        let [figure] = &make(&written.run, &Colours::default())[..] else { panic!("one figure") };
        let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
        let points = &planes[0].series[0].points;
        assert_eq!(points.iter().map(|point| point.y).sum::<f64>(), 298.0);
        assert_eq!(points.last().map(|point| point.x), Some(2_040.0), "the slowest steady step");
        assert_eq!(planes[0].rules, [Rule::Upright { x: 1_020.0, name: "median".into() }]);
        assert!(figure.finding.contains("of the 298 steady steps of a@b1@dp1 takes"), "{}", figure.finding);
    }
}
