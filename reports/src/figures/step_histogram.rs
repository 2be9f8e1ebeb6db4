//! The number of steady steps by their time, over all launches of each job alone.

mod bins;

use statistics::{median_in_place, quantile_of_sorted};

use crate::{
    alone::{self, Names},
    chart::{Axis, Chart, Form, Plane, Rule, Series},
    colours::{Colour, Colours},
    figure::Figure,
    planes,
    run::Run,
    step_figure,
    steps::StepsOfLaunch,
    table::Unit,
};

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let names = Names::of(run);
    let jobs = planes::in_figures(run.steps().by_job());
    jobs.into_iter().map(|(part, jobs)| figure(run, colours, part, &jobs, &names)).collect()
}

fn figure(run: &Run, colours: &Colours, part: String, jobs: &[Vec<&StepsOfLaunch>], names: &Names) -> Figure {
    let planes: Vec<Plane> = jobs.iter().map(|launches| plane(launches, colours, names)).collect();
    let caption = format!(
        "The number of steady steps by their time, over all launches of each job alone on {}. No step is \
         left out. Bins are of equal width on the axis; on a logarithmic axis, of equal ratio.",
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

fn plane(launches: &[&StepsOfLaunch], colours: &Colours, names: &Names) -> Plane {
    let mut ns = sorted(launches);
    let x = alone::scaled(Axis::new("time of a step", "step_ns", Unit::Ns).tight(), ns.iter().copied());
    let points = bins::histogram(&ns, x.scale);
    let colour = launches.first().map_or(Colour::Muted, |launch| colours.of(&launch.workload));
    let rules =
        (!ns.is_empty()).then(|| Rule::Upright { x: median_in_place(&mut ns), name: "median".into() });
    Plane {
        title: step_figure::title(launches, names),
        series: vec![Series::new("steps", colour, Form::Area, points)],
        rules: rules.into_iter().collect(),
        ..Plane::new(x, Axis::new("steps", "steps", Unit::Count))
    }
}

fn sorted(launches: &[&StepsOfLaunch]) -> Vec<f64> {
    let mut ns: Vec<f64> = launches.iter().flat_map(|launch| launch.used_ns()).map(|ns| ns as f64).collect();
    ns.sort_unstable_by(f64::total_cmp);
    ns
}

/// The job with the longest tail.
fn finding(jobs: &[Vec<&StepsOfLaunch>], names: &Names) -> String {
    let tail = |launches: &Vec<&StepsOfLaunch>| {
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
        "Longest tail: one in a hundred of the {steps} steady steps of {job} takes {ratio:.2} times the \
         median or more."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::tests::{Written, run_with_steps};

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
