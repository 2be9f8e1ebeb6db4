//! One side of a comparison: the numbers of a run, by what they are about.

use std::{fmt, path::Path};

use anyhow::{Context as _, bail};
use record::{
    manifest::Manifest,
    rows::{self, ChangeQuantity, ErrorKind, Interference, Measurement, Status, Summary, Warnings},
    run_dir::RunDir,
};
use schema::sharing::Sharing;
use statistics::welch::Launches;

/// A run, as far as it is compared.
pub(crate) struct ComparedRun {
    pub name: String,
    pub manifest: Manifest,
    pub summaries: Vec<Summary>,
    pub measurements: Vec<Measurement>,
    /// Empty in a run without groups.
    pub interference: Vec<Interference>,
}

/// A job alone, or a seat of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    /// The group and the seat.
    pub(super) seat: Option<(String, u32)>,
    pub(super) sharing: Sharing,
    pub(super) job: String,
    pub(super) device: String,
}

/// What a run has of a subject.
pub(super) struct Cell {
    /// The time of a job alone, or the slowdown of a seat.
    pub(super) number: Option<Number>,
    /// Of a job alone.
    pub(super) memory: Option<Memory>,
    pub(super) has_failed: bool,
    /// Launches, or blocks of a group, that failed, and all of them.
    pub(super) failures: (u32, u32),
    pub(super) err: Option<ErrorKind>,
    pub(super) err_detail: Option<String>,
    pub(super) warnings: Warnings,
}

/// A positive number.
pub(super) struct Number {
    pub(super) value: f64,
    /// Absent without an interval.
    pub(super) launches: Option<Launches>,
}

/// The peak of a job's memory.
pub(super) struct Memory {
    pub(super) quantity: ChangeQuantity,
    pub(super) number: Number,
}

impl ComparedRun {
    /// Reads a run of `profile single` or `profile colocate`.
    ///
    /// # Errors
    /// It is no run or one of the scheduler, or its tables are missing or cannot be read.
    pub(crate) fn open(path: &Path) -> anyhow::Result<ComparedRun> {
        let dir = RunDir::open(path)?;
        let manifest = dir.manifest()?;
        let shown = path.display();
        if manifest.scheduling.is_some() {
            bail!("{shown} is a run of the scheduler; `sched fidelity A B` compares those");
        }
        let no_rows = || format!("{shown} has no rows to compare; `profile derive {shown}` makes them");
        let summaries = rows::read(&dir.summary_path()).with_context(no_rows)?;
        let measurements = rows::read(&dir.measurements_path()).with_context(no_rows)?;
        let interference = match manifest.groups.is_empty() {
            true => Vec::new(),
            false => rows::read(&dir.interference_path())
                .with_context(|| format!("{shown} has no slowdowns; `profile derive {shown}` makes them"))?,
        };
        Ok(ComparedRun { name: dir.name(), manifest, summaries, measurements, interference })
    }

    /// All jobs alone, and then all seats.
    pub(super) fn cells(&self) -> impl Iterator<Item = (Subject, Cell)> {
        let alone = self.summaries.iter().filter(|row| row.group.is_none());
        alone.map(|row| self.alone(row)).chain(self.interference.iter().map(together))
    }

    /// Whether the run was to measure this.
    pub(super) fn requests(&self, subject: &Subject) -> bool {
        match &subject.seat {
            Some((group, _)) => {
                let mut groups = self.manifest.groups.iter();
                groups.any(|requested| requested.name == *group && requested.sharing == subject.sharing)
            }
            None => self.manifest.cells.iter().any(|requested| {
                let devices: Vec<String> = requested.devices.iter().map(ToString::to_string).collect();
                requested.job == subject.job && devices.join(",") == subject.device
            }),
        }
    }

    fn alone(&self, row: &Summary) -> (Subject, Cell) {
        let steps = (row.step_ns_median, row.step_ns_median_ci_lo, row.step_ns_median_ci_hi);
        let wall = (row.wall_ns, row.wall_ns_ci_lo, row.wall_ns_ci_hi);
        let (value, lo, hi) = if row.step_ns_median.is_some() { steps } else { wall };
        let subject = Subject {
            seat: None,
            sharing: row.sharing.clone(),
            job: row.job.clone(),
            device: row.device.clone(),
        };
        let as_number = |ns: Option<u64>| ns.map(|ns| ns as f64);
        let number = Number::published(as_number(value), as_number(lo).zip(as_number(hi)), row.repeats);
        let has_failed = row.status != Status::Ok;
        let cell = Cell {
            number: number.filter(|_| !has_failed),
            memory: self.memory(row),
            has_failed,
            failures: (row.repeats_failed, row.repeats + row.repeats_failed),
            err: row.err,
            err_detail: row.err_detail.clone(),
            warnings: row.warnings.clone(),
        };
        (subject, cell)
    }

    /// The memory of tensors, or else that of processes.
    fn memory(&self, row: &Summary) -> Option<Memory> {
        let is_launch = |launch: &&Measurement| {
            launch.group.is_none()
                && launch.status == Status::Ok
                && (&launch.job, &launch.device, &launch.sharing) == (&row.job, &row.device, &row.sharing)
        };
        let launches = || self.measurements.iter().filter(is_launch);
        let tensors = Number::measured(launches().filter_map(|launch| launch.peak_memory_bytes));
        let processes = || Number::measured(launches().filter_map(|launch| launch.host_rss_peak_bytes));
        let of_tensors = tensors.map(|number| Memory { quantity: ChangeQuantity::PeakMemory, number });
        of_tensors
            .or_else(|| processes().map(|number| Memory { quantity: ChangeQuantity::HostMemory, number }))
    }
}

fn together(row: &Interference) -> (Subject, Cell) {
    let subject = Subject {
        seat: Some((row.group.clone(), row.seat)),
        sharing: row.sharing.clone(),
        job: row.job.clone(),
        device: row.device.clone(),
    };
    let number = Number::published(row.slowdown, row.slowdown_ci_lo.zip(row.slowdown_ci_hi), row.blocks);
    let has_failed = row.status != Status::Ok;
    let cell = Cell {
        number: number.filter(|_| !has_failed),
        memory: None,
        has_failed,
        failures: (row.blocks_failed, row.blocks + row.blocks_failed),
        err: row.err,
        err_detail: row.err_detail.clone(),
        warnings: row.warnings.clone(),
    };
    (subject, cell)
}

impl Number {
    /// A number with the ends of its interval over this count of launches or blocks.
    fn published(value: Option<f64>, ends: Option<(f64, f64)>, count: u32) -> Option<Number> {
        let value = value.filter(|value| value.is_finite() && *value > 0.0)?;
        let launches = ends.and_then(|(lo, hi)| Launches::published(value, lo, hi, count as usize));
        Some(Number { value, launches })
    }

    /// The geometric mean of the launches with more than 0 bytes.
    fn measured(bytes: impl Iterator<Item = u64>) -> Option<Number> {
        let values: Vec<f64> = bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64).collect();
        let launches = Launches::measured(&values);
        let value = match launches {
            Some(launches) if launches.log_deviation > 0.0 => launches.log_mean.exp(),
            _ => *values.first()?,
        };
        Some(Number { value, launches })
    }
}

impl Subject {
    pub(super) fn quantity(&self) -> ChangeQuantity {
        if self.seat.is_some() { ChangeQuantity::Slowdown } else { ChangeQuantity::Alone }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.seat {
            Some((group, seat)) => write!(f, "{group} ({}), seat {seat}", self.sharing),
            None => write!(f, "{} on {}", self.job, self.device),
        }
    }
}
