//! Readings of each device over the time of the run, above the step times of the jobs alone on it.

mod readings;

use schema::{
    device::Device,
    manifest::DeviceFacts,
    rows::{self, DeviceSample},
};

use self::readings::{COUNTERS, GAUGES, gauge, shares};
use crate::{
    chart::{Axis, Chart, Form, Plane, Point, Series, Shade},
    colours::Colours,
    decimate::decimated,
    figure::Figure,
    run::Run,
    step_figure,
    steps::LaunchSteps,
    table::Unit,
};

const TITLE: &str = "Readings of a device";
/// About the number of points in a plane.
const POINTS: usize = 3_000;
/// The least number of points of a launch.
const LEAST_POINTS: usize = 30;
/// With more launches, their names would cover each other.
const MOST_NAMED: usize = 30;

pub fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
    let path = run.dir.devices_path();
    match rows::read_appended::<DeviceSample>(&path) {
        Ok(samples) => {
            run.manifest.devices.iter().filter_map(|of| figure(run, colours, of, &samples)).collect()
        }
        Err(error) => {
            let problem = run.dir.relative(&error.to_string(), &path);
            step_figure::unreadable(TITLE, &[problem]).into_iter().collect()
        }
    }
}

fn figure(run: &Run, colours: &Colours, facts: &DeviceFacts, samples: &[DeviceSample]) -> Option<Figure> {
    let device = facts.device.to_string();
    let start = samples.iter().map(|row| row.mono_ns.0).min()?;
    let rows: Vec<&DeviceSample> = samples.iter().filter(|row| row.device == device).collect();
    let launches: Vec<&LaunchSteps> = run
        .steps()
        .launches
        .iter()
        .filter(|launch| launch.device.split(',').any(|of| of == device))
        .collect();
    let mut planes = planes(&rows, cores(&facts.device), start);
    if planes.is_empty() {
        return None;
    }
    planes.extend(steps(&launches, colours, start));
    let shades: Vec<Shade> = launches.iter().filter_map(|of| shade(of, start, launches.len())).collect();
    planes.iter_mut().for_each(|plane| plane.shades.clone_from(&shades));
    let failed = rows.iter().filter(|row| row.err.is_some()).count();
    let caption = format!(
        "Readings of {device} ({}) over the time since the first reading of the run. Shares are of all its cores, over at \
         least a second. A line ends where readings failed or a counter fell. The time of jobs alone is shaded, and their \
         step times are at the end. {}",
        facts.name,
        step_figure::decimation(&planes),
    );
    let missing = (failed > 0).then(|| format!("{failed} of {} readings of {device} failed", rows.len()));
    let problems = run.steps().problems.iter().cloned();
    Some(Figure {
        part: device,
        missing: missing.into_iter().chain(problems).collect(),
        ..Figure::new(TITLE, caption, Chart::Planes(planes))
    })
}

/// The planes of what the device has readings of.
fn planes(rows: &[&DeviceSample], cores: usize, start: u64) -> Vec<Plane> {
    let counted =
        COUNTERS.iter().map(|(name, column, of)| (*name, *column, Unit::Percent, shares(rows, *of, cores)));
    let read = GAUGES.iter().map(|(name, column, unit, of)| (*name, *column, *unit, gauge(rows, *of)));
    let known: Vec<_> = counted.chain(read).filter(|(.., stretches)| !stretches.is_empty()).collect();
    let plane =
        |(place, (name, column, unit, stretches)): (usize, (&str, &str, Unit, Vec<Vec<(u64, f64)>>))| {
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

/// The step times of the launches; no plane if there are none.
fn steps(launches: &[&LaunchSteps], colours: &Colours, start: u64) -> Option<Plane> {
    let most = (POINTS / launches.len().max(1)).max(LEAST_POINTS);
    let series = launches.iter().map(|launch| {
        let points = launch.steps.iter().map(|step| Point {
            label: launch.launch.clone(),
            ..Point::at(step.end.0.saturating_sub(start) as f64, step.dur_ns as f64)
        });
        decimated(Series::new(&launch.job, colours.of(&launch.workload), Form::Line, points.collect()), most)
    });
    let y = Axis::new("time of a step", "step_ns", Unit::Ns);
    let times = launches.iter().flat_map(|launch| &launch.steps).map(|step| step.dur_ns as f64);
    let plane = Plane::new(time(), crate::alone::scaled(y, times));
    (!launches.is_empty()).then(|| Plane { title: "step time".into(), series: series.collect(), ..plane })
}

fn shade(launch: &LaunchSteps, start: u64, launches: usize) -> Option<Shade> {
    let name = if launches <= MOST_NAMED { launch.job.clone() } else { String::new() };
    let (first, last) = (launch.steps.first()?, launch.steps.last()?);
    let from = first.start().0.saturating_sub(start) as f64;
    Some(Shade { from, to: last.end.0.saturating_sub(start) as f64, name })
}

#[cfg(test)]
mod tests;
