//! One side of a comparison: the numbers of a run, by what they are about.

use std::{fmt, path::Path};

use anyhow::{Context as _, bail};
use record::{
    manifest::Manifest,
    rows::{self, ErrorKind, Interference, Quantity, Status, Summary, Warnings},
    run_dir::RunDir,
};
use schema::sharing::Sharing;
use statistics::welch::Launches;

/// A run, as far as it is compared.
pub(crate) struct ComparedRun {
    pub name: String,
    pub manifest: Manifest,
    pub summaries: Vec<Summary>,
    /// Empty in a run without groups.
    pub interference: Vec<Interference>,
}

/// A job alone, or a seat of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    pub(super) quantity: Quantity,
    pub(super) group: Option<String>,
    pub(super) sharing: Sharing,
    pub(super) seat: Option<u32>,
    pub(super) job: String,
    pub(super) device: String,
}

/// What a run has of a subject.
pub(super) struct Found {
    pub(super) number: Option<Number>,
    pub(super) has_failed: bool,
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
        let summaries = rows::read(&dir.summary_path()).with_context(|| {
            format!("{shown} has no rows to compare; `profile derive {shown}` makes them")
        })?;
        let interference = match manifest.groups.is_empty() {
            true => Vec::new(),
            false => rows::read(&dir.interference_path())
                .with_context(|| format!("{shown} has no slowdowns; `profile derive {shown}` makes them"))?,
        };
        Ok(ComparedRun { name: dir.name(), manifest, summaries, interference })
    }

    /// All jobs alone, and then all seats.
    pub(super) fn found(&self) -> impl Iterator<Item = (Subject, Found)> {
        let alone = self.summaries.iter().filter(|row| row.group.is_none()).map(alone);
        alone.chain(self.interference.iter().map(together))
    }
}

fn alone(row: &Summary) -> (Subject, Found) {
    let steps = (row.step_ns_median, row.step_ns_median_ci_lo, row.step_ns_median_ci_hi);
    let wall = (row.wall_ns, row.wall_ns_ci_lo, row.wall_ns_ci_hi);
    let (value, lo, hi) = if row.step_ns_median.is_some() { steps } else { wall };
    let subject = Subject {
        quantity: Quantity::Alone,
        group: None,
        sharing: row.sharing.clone(),
        seat: None,
        job: row.job.clone(),
        device: row.device.clone(),
    };
    let as_number = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let found = Found {
        number: Number::of(as_number(value), as_number(lo).zip(as_number(hi)), row.repeats),
        has_failed: false,
        err: row.err,
        err_detail: row.err_detail.clone(),
        warnings: row.warnings.clone(),
    };
    (subject, found.with(row.status))
}

fn together(row: &Interference) -> (Subject, Found) {
    let subject = Subject {
        quantity: Quantity::Slowdown,
        group: Some(row.group.clone()),
        sharing: row.sharing.clone(),
        seat: Some(row.seat),
        job: row.job.clone(),
        device: row.device.clone(),
    };
    let found = Found {
        number: Number::of(row.slowdown, row.slowdown_ci_lo.zip(row.slowdown_ci_hi), row.blocks),
        has_failed: false,
        err: row.err,
        err_detail: row.err_detail.clone(),
        warnings: row.warnings.clone(),
    };
    (subject, found.with(row.status))
}

impl Found {
    /// A row that failed has no number.
    fn with(self, status: Status) -> Found {
        let is_ok = status == Status::Ok;
        Found { number: self.number.filter(|_| is_ok), has_failed: !is_ok, ..self }
    }
}

impl Number {
    /// A number with the ends of its interval over this count of launches or blocks.
    fn of(value: Option<f64>, ends: Option<(f64, f64)>, count: u32) -> Option<Number> {
        let value = value.filter(|value| value.is_finite() && *value > 0.0)?;
        let launches = ends.and_then(|(lo, hi)| Launches::published(value, lo, hi, count as usize));
        Some(Number { value, launches })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.group, self.seat) {
            (Some(group), Some(seat)) => write!(f, "{group} ({}), seat {seat}", self.sharing),
            _ => write!(f, "{} on {}", self.job, self.device),
        }
    }
}
