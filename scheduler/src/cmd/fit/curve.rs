//! `sched fit --curve`: errors over device seconds, by the order of measurement.

use std::{collections::BTreeMap, path::Path};

use anyhow::bail;
use cli::table::{self, TableOptions};
use formats::rows::{CurvePoint, MeasuringOrder};
use model::{Launches, LearningCurve, MeasuredConfiguration, Options, observation};
use record::rows::{self};
use rig::{Exit, output};

use super::{Format, busy};
use crate::measured::{Measured, OfWorkload};

/// Number of seeds.
const SEEDS: u64 = 20;

/// Configurations between two points without `--suggest`.
const STEP: u32 = 8;

/// The means of the points of one order over all seeds, by the number of configurations.
type Means = BTreeMap<u32, Mean>;

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    device_s: f64,
    mean_percent: f64,
    p95_percent: f64,
}

pub(super) fn run(
    out: &Path,
    measured: &Measured,
    step: Option<u32>,
    options: &Options,
    format: &Format,
) -> anyhow::Result<Exit> {
    let launches = measured.launched.unwrap_or(Launches::DEFAULT);
    let of = |of: &OfWorkload| {
        let rows = of.rows.iter().zip(&of.device_s);
        let configuration = |(row, device_s): (_, &Option<f64>)| {
            let observation = observation(of.facts, row);
            let usual = || launches.device_s(&observation.setting, observation.step_s);
            MeasuredConfiguration { observation, device_s: device_s.unwrap_or_else(usual) }
        };
        rows.map(configuration).collect::<Vec<_>>()
    };
    let curve = LearningCurve::new(measured.workloads.iter().map(of), launches, *options);
    if curve.configurations() == 0 {
        bail!(
            "no workload has four configurations that one formula describes; measure more plans, batches or devices"
        );
    }
    let step = step.unwrap_or(STEP) as usize;
    let mut points = Vec::new();
    for order in [MeasuringOrder::Suggested, MeasuringOrder::Random, MeasuringOrder::Grid] {
        let spinner = busy(format!("fit: {order} order"));
        // The order of the grid has no chance in it.
        let seeds = if order == MeasuringOrder::Grid { 1 } else { SEEDS };
        points.extend((0..seeds).flat_map(|seed| curve.points(order, options.seed.wrapping_add(seed), step)));
        spinner.finish_and_clear();
    }
    rows::write(out, &points)?;
    match format.json {
        true => output::print(rows::to_json(&points))?,
        false => show(&curve, &points, &format.table)?,
    }
    output::news(format_args!("fit: {}: {} points", out.display(), points.len()));
    Ok(Exit::Ok)
}

fn show(curve: &LearningCurve, points: &[CurvePoint], options: &TableOptions) -> anyhow::Result<()> {
    let means = [MeasuringOrder::Suggested, MeasuringOrder::Random, MeasuringOrder::Grid]
        .map(|order| (order, means(points, order)));
    let whole = curve.configurations() as u32;
    let mut lines = table::new(&["order", "configurations", "device seconds", "mean error", "p95"]);
    for (order, means) in &means {
        let mut shown = Vec::new();
        for eighths in [0, 1, 2, 4, 6] {
            let nearest = means.keys().copied().min_by_key(|count| count.abs_diff(whole * eighths / 8));
            shown.extend(nearest);
        }
        shown.dedup();
        for (number, count) in shown.into_iter().enumerate() {
            let Mean { device_s, mean_percent, p95_percent } = means[&count];
            lines.add_row([
                if number == 0 { order.to_string() } else { String::new() },
                format!("{count} of {whole}"),
                format!("{device_s:.0}"),
                format!("{mean_percent:.1} %"),
                format!("{p95_percent:.1} %"),
            ]);
        }
    }
    options.print(&lines)?;
    let [(_, suggested), (_, random), _] = &means;
    let half = random.iter().min_by_key(|(count, _)| count.abs_diff(whole / 2));
    let Some((half, aim)) = half else { return Ok(()) };
    let mean = aim.mean_percent;
    let reached = suggested.iter().find(|(_, point)| point.mean_percent <= mean);
    match reached {
        Some((count, point)) => output::print(format_args!(
            "random order has a mean error of {mean:.1} % at {half} configurations, after {:.0} device seconds; the suggested order has \
             it at {count}, after {:.0}: {:+.0} %",
            aim.device_s,
            point.device_s,
            100.0 * (point.device_s / aim.device_s - 1.0)
        ))?,
        None => output::print(format_args!(
            "the suggested order never reaches {mean:.1} %, the mean error of random order at {half} configurations"
        ))?,
    }
    Ok(())
}

fn means(points: &[CurvePoint], order: MeasuringOrder) -> Means {
    let mut sums: BTreeMap<u32, (f64, Mean)> = BTreeMap::new();
    for point in points.iter().filter(|point| point.order == order) {
        let (count, sum) = sums.entry(point.configurations).or_default();
        *count += 1.0;
        sum.device_s += point.device_s;
        sum.mean_percent += point.mean_percent;
        sum.p95_percent += point.p95_percent;
    }
    let of = |(configurations, (count, sum)): (u32, (f64, Mean))| {
        let mean = Mean {
            device_s: sum.device_s / count,
            mean_percent: sum.mean_percent / count,
            p95_percent: sum.p95_percent / count,
        };
        (configurations, mean)
    };
    sums.into_iter().map(of).collect()
}
