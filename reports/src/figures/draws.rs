//! The prediction over draws: the distributions of the average completion time and the makespan, and what was found.

use formats::rows::Draw;
use outcomes::{
    draws::range,
    totals::{average, makespan_ns},
};

use crate::{
    chart::{Axis, Chart, Form, Plane, Rule, Series, Shade},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    run::{Run, RunKind},
    scheduled::{cdf, completion_times, place, points_drawn},
    table::Unit,
};

/// The largest number of points of a line.
const MOST_POINTS: usize = 2_000;

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let times = completion_times(run);
    let found = [(!times.is_empty()).then(|| average(&times)), makespan_ns(&run.outcomes)];
    let of: [fn(&Draw) -> Option<u64>; 2] = [|row| row.jct_ns_mean, |row| row.makespan_ns];
    let names = [("average JCT", "jct_ns_mean"), ("makespan", "makespan_ns")];
    let is_real = run.kind() == RunKind::Scheduled;
    let what = if is_real { "measured" } else { "simulated without draws" };
    let mut planes = Vec::new();
    for ((label, column), (of, found)) in names.into_iter().zip(of.into_iter().zip(found)) {
        let mut values: Vec<u64> = run.draws.iter().filter_map(of).collect();
        values.sort_unstable();
        let Some(range) = range(&values) else { continue };
        let mut plane = Plane::new(
            Axis::new(label, column, Unit::Ns).tight(),
            Axis::new("draws up to it", "draws_percent", Unit::Percent),
        );
        plane.title = label.into();
        let series = Series::new("draws", Colours::nth(0), Form::Steps, cdf(&values));
        plane.series.push(decimated(series, MOST_POINTS));
        let shade = Shade { from: range.ci_lo_ns as f64, to: range.ci_hi_ns as f64, name: "95 %".into() };
        plane.shades.push(shade);
        if let Some(ns) = found {
            plane.rules.push(Rule::Upright { x: ns as f64, name: what.into() });
        }
        planes.push(plane);
    }
    if planes.is_empty() {
        return Vec::new();
    }
    let caption = format!(
        "Distributions over {} simulations of the trace, each with its own draw of step times, drift of the machine and costs of \
         switches. The background is the 95 % interval over draws, and the line what was {what} on {}.{}",
        run.draws.len(),
        place(run),
        points_drawn(planes.iter().flat_map(|plane| &plane.series))
    );
    let missing = match found.iter().all(Option::is_some) {
        true => Vec::new(),
        false => vec!["what was found, because no job has ended well".to_owned()],
    };
    vec![Figure { missing, ..Figure::new("Prediction over draws", caption, Chart::Planes(planes)) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::tests::recorded;

    #[test]
    fn lines_are_of_all_draws_and_the_rule_is_the_measured_value() {
        let runs = recorded();
        for run in &runs[12..] {
            let [figure] = &make(run, &Colours::default())[..] else { panic!("one figure") };
            let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
            let measured = outcomes::totals::totals("", &run.outcomes, 2);
            let expected = [measured.jct_ns_mean, measured.makespan_ns];
            let found: Vec<Option<u64>> = planes
                .iter()
                .map(|plane| match plane.rules[..] {
                    [Rule::Upright { x, .. }] => Some(x as u64),
                    _ => None,
                })
                .collect();
            assert_eq!(found, expected);
            let drawn = outcomes::draws::totals_of_draws(&run.draws).expect("there are draws");
            let half = planes[1].series[0].points.iter().find(|point| point.y >= 50.0).expect("half of them");
            assert_eq!(half.x, drawn.makespan_ns.median_ns as f64);
            assert_eq!(planes[0].shades[0].from, drawn.jct_ns_mean.ci_lo_ns as f64);
        }
        assert!(make(&runs[0], &Colours::default()).is_empty());
    }
}
