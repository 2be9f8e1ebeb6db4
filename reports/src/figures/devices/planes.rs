//! The planes of a device: one for each quantity that it has readings of, and the step times of jobs alone.

use record::rows::DeviceSample;
use schema::device::Device;

use super::readings::{COUNTERS, GAUGES, Stretch, gauge, rates};
use crate::{
    alone,
    chart::{Axis, Form, Plane, Point, Series},
    colours::Colours,
    decimate::decimated,
    steps::StepsOfLaunch,
    table::Unit,
};

/// About the number of points in a plane.
pub(super) const POINTS: usize = 3_000;
/// The least number of points of a launch.
const LEAST_POINTS: usize = 30;

/// The planes of what the device has readings of.
pub(super) fn of_readings(rows: &[&DeviceSample], device: &Device, start: u64) -> Vec<Plane> {
    let counted = COUNTERS
        .iter()
        .map(|counter| (counter.name, counter.column, counter.unit, rates(rows, counter, cores(device))));
    let read = GAUGES.iter().map(|(name, column, unit, of)| (*name, *column, *unit, gauge(rows, *of)));
    let known: Vec<_> = counted.chain(read).filter(|(.., stretches)| !stretches.is_empty()).collect();
    let plane = |(place, (name, column, unit, stretches)): (usize, (&str, &str, Unit, Vec<Stretch>))| {
        let all: usize = stretches.iter().map(Vec::len).sum();
        let series = stretches.into_iter().map(|stretch| {
            let most = (POINTS * stretch.len() / all.max(1)).max(3);
            let point = |(at, value): (u64, f64)| Point::at(at.saturating_sub(start) as f64, value);
            let points = stretch.into_iter().map(point).collect();
            decimated(Series::new(name, Colours::nth(place), Form::Steps, points), most)
        });
        Plane {
            title: name.into(),
            series: series.collect(),
            ..Plane::new(time(), Axis::new(name, column, unit))
        }
    };
    known.into_iter().enumerate().map(plane).collect()
}

fn time() -> Axis {
    Axis::new("time since the first reading", "elapsed_ns", Unit::Ns)
}

fn cores(device: &Device) -> usize {
    match device {
        Device::Cpu(cores) => cores.len(),
        Device::Cuda(_) | Device::AllCores => 0,
    }
}

/// The step times of the launches; `None` without launches.
pub(super) fn of_steps(launches: &[&StepsOfLaunch], colours: &Colours, start: u64) -> Option<Plane> {
    let most = (POINTS / launches.len().max(1)).max(LEAST_POINTS);
    let series = launches.iter().map(|launch| {
        let points = launch.steps.iter();
        let points = points.map(|of| Point::at(of.end.0.saturating_sub(start) as f64, of.dur_ns as f64));
        decimated(
            Series::new(&launch.workload, colours.of(&launch.workload), Form::Line, points.collect()),
            most,
        )
    });
    let y = Axis::new("time of a step", "step_ns", Unit::Ns);
    let times = launches.iter().flat_map(|launch| &launch.steps).map(|step| step.dur_ns as f64);
    let plane = Plane::new(time(), alone::scaled(y, times));
    (!launches.is_empty()).then(|| Plane { title: "step time".into(), series: series.collect(), ..plane })
}
