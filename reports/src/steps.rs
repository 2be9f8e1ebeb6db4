//! The steps of the launches that measured a job alone, from the raw events of a run.

use std::{ops::Range, path::Path};

use record::{
    rows::{Measurement, Status},
    run_dir::RunDir,
    steps::{StepTime, read_times, step_times},
};

use crate::{
    colours::{Colour, Colours},
    planes::grouped,
};

/// The steps of all launches that measured a job alone.
#[derive(Debug, Default)]
pub struct RunSteps {
    /// In order of the table of measurements. A launch without event files is left out, as in a run that was
    /// published without its raw files.
    pub launches: Vec<StepsOfLaunch>,
    /// Files that cannot be read, each with the reason.
    pub problems: Vec<String>,
}

/// The steps of one launch.
#[derive(Debug)]
pub struct StepsOfLaunch {
    pub job: String,
    pub workload: String,
    pub device: String,
    /// The block that it belongs to, from 0.
    pub repeat: u32,
    /// Warnings of its row.
    pub doubt: String,
    pub steps: Vec<StepTime>,
    /// Positions of the steps in its steady window. Those before it are the warm-up.
    pub used: Range<usize>,
}

impl RunSteps {
    /// Reads the steps, launch by launch.
    pub fn read(dir: &RunDir, measurements: &[Measurement]) -> RunSteps {
        let mut all = RunSteps::default();
        for row in measurements.iter().filter(|row| row.group.is_none() && row.status == Status::Ok) {
            match of_row(dir, row) {
                Ok(launch) => all.launches.extend(launch),
                Err(problem) => all.problems.push(problem),
            }
        }
        all
    }
}

impl RunSteps {
    /// The launches of each job on each device, in order of first appearance.
    pub fn by_job(&self) -> Vec<Vec<&StepsOfLaunch>> {
        let with_numbers = self.launches.iter().filter(|launch| !launch.used.is_empty());
        grouped(with_numbers, |launch| (&launch.job, &launch.device))
    }
}

impl StepsOfLaunch {
    /// The name of the launch among those of its job. Launches of one block have it in common in all planes.
    pub fn name(&self) -> String {
        format!("launch {}", u64::from(self.repeat) + 1)
    }

    pub fn colour(&self) -> Colour {
        Colours::nth(self.repeat as usize)
    }

    /// The times of the steps in the steady window.
    pub fn used_ns(&self) -> impl Iterator<Item = u64> {
        self.steps.get(self.used.clone()).into_iter().flatten().map(|step| step.dur_ns)
    }
}

/// The steps of a row's launch; `None` if it has no numbers of steps or no event files.
fn of_row(dir: &RunDir, row: &Measurement) -> Result<Option<StepsOfLaunch>, String> {
    let Some(warmup_steps) = row.warmup_steps else { return Ok(None) };
    if !dir.spec_path(&row.launch).is_file() {
        return Ok(None);
    }
    let spec = dir.spec(&row.launch).map_err(|error| relative(dir, &error, &dir.spec_path(&row.launch)))?;
    let paths: Vec<_> = (0..dir.ranks(&spec)).map(|rank| dir.events_path(&spec.launch, rank)).collect();
    if paths.iter().all(|path| !path.is_file()) {
        return Ok(None);
    }
    let of_rank = |(path, rank)| read_times(path, rank).map_err(|error| relative(dir, &error, path));
    let ranks =
        paths.iter().map(|path| path.as_path()).zip(0..).map(of_rank).collect::<Result<Vec<_>, _>>()?;
    // The times of a single rank are those of the job, and are not copied.
    let steps = match <[_; 1]>::try_from(ranks) {
        Ok([only]) => only,
        Err(ranks) => step_times(&ranks),
    };
    let used = used(warmup_steps, row.steps_used, steps.len()).ok_or_else(|| {
        format!(
            "{}: its events have {} steps, fewer than its row uses; derive it again",
            row.launch,
            steps.len()
        )
    })?;
    Ok(Some(StepsOfLaunch {
        job: row.job.clone(),
        workload: row.workload.clone(),
        device: row.device.clone(),
        repeat: row.repeat,
        doubt: row.warnings.to_string(),
        steps,
        used,
    }))
}

fn used(first: u64, count: u64, of: usize) -> Option<Range<usize>> {
    let end = first.checked_add(count).filter(|end| *end <= of as u64)?;
    Some(first as usize..end as usize)
}

fn relative(dir: &RunDir, error: &dyn std::error::Error, file: &Path) -> String {
    dir.relative(&error.to_string(), file)
}

#[cfg(test)]
pub(crate) mod tests;
