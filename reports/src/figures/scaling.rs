//! The throughput of jobs on one device and on several, beside that of ideal scaling.

mod ranks;

use record::rows::Summary;

use self::ranks::Scaled;
use crate::{
    alone::{self, throughput},
    chart::{Axis, Chart, Form, Plane, Point, Series},
    colours::{Colour, Colours},
    doubt,
    figure::Figure,
    planes,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let of_planes = planes::grouped(ranks::all(run), |scaled| (scaled.workload, scaled.batch, scaled.vary));
    planes::in_figures(of_planes).into_iter().map(|(part, of)| figure(run, part, &of)).collect()
}

fn figure(run: &Run, part: String, of_planes: &[Vec<Scaled>]) -> Figure {
    let caption = format!(
        "Samples per second of jobs alone over their data-parallel ranks, each with a device of its own of \
         {}, at the same global batch and an otherwise equal plan. Dashed lines are multiples of the rate \
         with one rank. Intervals are 95 %, between launches, where a job was launched more than once. Of \
         several devices of a kind, the fastest row is shown.",
        run.devices(),
    );
    let rows = || of_planes.iter().flatten().flat_map(|scaled| scaled.by_ranks.values());
    Figure {
        part,
        finding: finding(of_planes),
        doubts: alone::doubts(rows().copied()),
        ..Figure::new(
            "Scaling over devices",
            caption,
            Chart::Planes(of_planes.iter().map(|of| plane(of)).collect()),
        )
    }
}

fn plane(of: &[Scaled]) -> Plane {
    let x = Axis::new("data-parallel ranks", "ranks", Unit::Count);
    let y = Axis::new("throughput in samples", "samples_per_s", Unit::PerS);
    let series =
        of.iter().enumerate().flat_map(|(place, scaled)| lines(scaled, Colours::nth(place))).collect();
    let title = alone::title(of[0].workload, of[0].batch, of[0].vary);
    Plane { title, series, ..Plane::new(x, y) }
}

/// The measured rates, and the ideal ones.
fn lines(scaled: &Scaled, colour: Colour) -> Vec<Series> {
    let point = |(ranks, row): (&u16, &&Summary)| {
        let (rate, ci) = throughput(row)?;
        let (label, doubt) = (format!("{} on {}", row.job, row.device), doubt::of_job(row));
        Some(Point { ci, label, doubt, ..Point::at(f64::from(*ranks), rate) })
    };
    let measured: Vec<Point> = scaled.by_ranks.iter().filter_map(point).collect();
    let ideal = scaled.by_ranks.get(&1).and_then(|row| throughput(row)).zip(measured.last()).map(
        |((one, _), last)| {
            let ends = vec![Point::at(1.0, one), Point::at(last.x, one * last.x)];
            Series::new("ideal", colour, Form::DashedLine, ends)
        },
    );
    ideal
        .into_iter()
        .chain([Series::new(scaled.plan.to_string(), colour, Form::LineAndDots, measured)])
        .collect()
}

/// The largest and the least gain from several devices.
fn finding(of_planes: &[Vec<Scaled>]) -> String {
    let gain = |scaled: &Scaled| {
        let (one, of_one) = throughput(scaled.by_ranks.get(&1)?)?;
        let (ranks, row) = scaled.by_ranks.last_key_value()?;
        let (rate, of_all) = throughput(row)?;
        let certainty = match of_one.zip(of_all) {
            None => ", without an interval",
            Some((one, all)) if one.0 <= all.1 && all.0 <= one.1 => ", within noise of no gain",
            Some(_) => "",
        };
        let ratio = rate / one;
        Some((ratio, ratio / f64::from(*ranks), format!("{}{certainty}", row.job)))
            .filter(|_| ratio.is_finite())
    };
    let mut gains: Vec<_> = of_planes.iter().flatten().filter_map(gain).collect();
    gains.sort_by(|one, other| one.1.total_cmp(&other.1));
    let told = |(ratio, of_ideal, job): &(f64, f64, String)| {
        format!("{ratio:.2} times the rate of one rank ({:.0} % of ideal) with {job}", 100.0 * of_ideal)
    };
    match &gains[..] {
        [] => String::new(),
        [only] => format!("Scaling: {}.", told(only)),
        [least, .., most] => format!("Scaling: best {}, worst {}.", told(most), told(least)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::{record, run_of, summary};

    #[test]
    fn lines_of_the_record_are_its_rates_and_twice_that_of_one_rank() {
        let run = record("20261123-epyc/plans");
        let figures = make(&run, &Colours::default());
        let Chart::Planes(planes) = &figures[0].chart else { panic!("planes") };
        let rate =
            |job: &str| run.summaries.iter().find(|row| row.job == job).unwrap().samples_per_s.unwrap();
        let plane = planes.iter().find(|plane| plane.title == "resnet18-mini@b8").unwrap();
        let series = |name: &str| plane.series.iter().find(|series| series.name == name).unwrap();
        let points =
            |series: &Series| series.points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>();
        let (one, two) = (rate("resnet18-mini@b8@ga2-gc"), rate("resnet18-mini@b8@dp2-ga2-gc"));
        assert_eq!(points(series("ga2-gc")), [(1.0, one), (2.0, two)]);
        assert_eq!(
            points(&plane.series[0]),
            [(1.0, rate("resnet18-mini@b8@dp1")), (2.0, 2.0 * rate("resnet18-mini@b8@dp1"))]
        );
        assert!(
            plane.series.iter().all(|series| series.name != "bf16"),
            "it was measured on one device alone"
        );
    }

    #[test]
    fn the_gain_is_beside_the_ideal_one() {
        let row = |plan: &str, device: &str, rate: f64| {
            summary(&format!(
                r#""job": "a@b8@{plan}", "plan": "{plan}", "device": "{device}", "global_batch": 8, "samples_per_s": {rate}"#
            ))
        };
        let run = run_of(vec![
            row("dp1", "cpu:0", 90.0),
            row("dp1", "cpu:1", 100.0),
            row("dp4", "cpu:0,cpu:1,cpu:2,cpu:3", 300.0),
        ]);
        // The record has no cpu:1; its facts are those of cpu:0 in a run with both.
        let mut run = run;
        run.manifest.devices = record("20261123-epyc/plans").manifest.devices;
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one") };
        assert_eq!(
            figure.finding,
            "Scaling: 3.00 times the rate of one rank (75 % of ideal) with a@b8@dp4, without an interval."
        );
        assert_eq!(make(&run_of(vec![row("dp2", "cpu:0,cpu:1", 1.0)]), &Colours::default()), []);
    }
}
