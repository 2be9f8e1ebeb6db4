//! Readings of each device over the time of the run, above the step times of the jobs alone on it.

mod planes;
mod readings;

use record::{
    manifest::DeviceFacts,
    rows::{self, DeviceSample},
};

use crate::{
    chart::{Chart, Shade},
    colours::Colours,
    figure::Figure,
    run::Run,
    step_figure,
    steps::StepsOfLaunch,
};

const TITLE: &str = "Readings of a device";
/// With more launches, their names would cover each other.
const MOST_NAMED: usize = 30;

pub(super) fn make(run: &Run, colours: &Colours) -> Vec<Figure> {
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
    let launches: Vec<&StepsOfLaunch> = run
        .steps()
        .launches
        .iter()
        .filter(|launch| launch.device.split(',').any(|of| of == device))
        .collect();
    let mut planes = planes::of_readings(&rows, &facts.device, start);
    if planes.is_empty() {
        return None;
    }
    planes.extend(planes::of_steps(&launches, colours, start));
    let shades: Vec<Shade> = launches.iter().filter_map(|of| shade(of, start, launches.len())).collect();
    planes.iter_mut().for_each(|plane| plane.shades.clone_from(&shades));
    let failed = rows.iter().filter(|row| row.err.is_some()).count();
    let is_forwarded = run.manifest.scheduling.as_ref().is_some_and(|of| of.fast_forward.is_some());
    let forwarded = match is_forwarded {
        true => " The run skipped steps, so that this time is shorter than the time of the run.",
        false => "",
    };
    let caption = format!(
        "Readings of {device} ({}) over the time since the first reading of the run.{forwarded} Shares are of all its \
         cores, over at least a second. A line ends where readings failed or a counter fell. The time of \
         jobs alone is shaded, and their step times are at the end. {}",
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

fn shade(launch: &StepsOfLaunch, start: u64, launches: usize) -> Option<Shade> {
    let name = if launches <= MOST_NAMED { launch.job.clone() } else { String::new() };
    let (first, last) = (launch.steps.first()?, launch.steps.last()?);
    let from = first.start().0.saturating_sub(start) as f64;
    Some(Shade { from, to: last.end.0.saturating_sub(start) as f64, name })
}

#[cfg(test)]
mod tests;
