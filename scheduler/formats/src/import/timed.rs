//! Traces of jobs whose models are unknown: their arrival, their devices and how long they ran.
//!
//! The jobs have a workload that no catalog defines, with steps of about one second that add up to their duration, or with as many
//! steps as the trace says.

use record::rows::RowError;
use schema::job::Job;

use super::{
    Imported, Jobs, LeftOut, Odd, Source, cores_per_rank, devices, steps_of_a_second, submit_utc,
    table::{Cells, Table},
};
use crate::trace::TraceRow;

/// The columns of a format. Those that are empty or `None` are not part of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout<'a> {
    /// The workload of the jobs, and the start of the names of jobs that have no name.
    pub(super) workload: &'a str,
    /// All columns of a format without a header, whose cells are separated by tabs.
    pub(super) headless: &'a [&'a str],
    pub(super) name: &'a str,
    pub(super) arrival: &'a str,
    pub(super) gpus: &'a str,
    pub(super) length: Length<'a>,
    /// The number of steps, which the format has beside its length of time.
    pub(super) steps: &'a str,
    /// Cores of all hosts of the job, and how many of them are one.
    pub(super) cores: Option<(&'a str, f64)>,
    pub(super) user: &'a str,
    pub(super) vc: &'a str,
    pub(super) recurring_job: &'a str,
    pub(super) device_type: &'a str,
    /// The state of a job, and those states in which it has not ended.
    pub(super) state: Option<(&'a str, &'a [&'a str])>,
    /// Whether a file without one of the columns is refused, and not only one without the columns that each job needs.
    pub(super) needs_all: bool,
    /// Whether rows whose name has a point are parts of a job.
    pub(super) has_parts: bool,
}

/// The columns that say how long a job ran.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length<'a> {
    Duration(&'a str),
    /// From a start to an end.
    Between(&'a str, &'a str),
}

impl Default for Length<'_> {
    fn default() -> Self {
        Length::Duration("")
    }
}

impl Layout<'_> {
    /// Reads the jobs, of which the first arrives at 0.
    pub(super) fn read(&self, source: Source<'_>, left_out: LeftOut) -> Result<Imported, RowError> {
        let (first, second) = match self.length {
            Length::Duration(column) => (column, ""),
            Length::Between(start, end) => (start, end),
        };
        let mut needed = vec![self.name, self.arrival, self.gpus, first, second, self.steps];
        if self.needs_all {
            let cores = self.cores.map_or("", |(column, _)| column);
            needed.extend([cores, self.user, self.vc, self.recurring_job, self.device_type]);
        }
        let needed: Vec<&str> = needed.into_iter().filter(|column| !column.is_empty()).collect();
        let table = match self.headless {
            [] => Table::new(source, &needed)?,
            columns => Table::without_header(source, b"\t", columns),
        };
        let name = if self.name.is_empty() { self.arrival } else { self.name };
        Jobs::read(table, (name, self.arrival), left_out, |cells| self.job(cells))?.finish(true)
    }

    fn job(&self, cells: &Cells<'_>) -> Result<Option<TraceRow>, Odd> {
        let name = match self.name {
            "" => format!("{}-{}", self.workload, cells.line),
            column => cells.text(column)?.to_owned(),
        };
        if self.has_parts && name.contains('.') {
            return Ok(None);
        }
        if let Some((column, running)) = self.state
            && running.contains(&cells.get(column))
        {
            return Err(Odd::job(column, "a job that had not ended"));
        }
        let devices = devices(self.gpus, cells.gpus(self.gpus)?)?;
        let (at, date) = cells.arrival(self.arrival)?;
        let length_s = match self.length {
            Length::Duration(column) => cells.elapsed(column)?,
            Length::Between(start, end) => {
                cells.between((start, cells.arrival(start)?.0), (end, cells.arrival(end)?.0))?
            }
        };
        let (steps, step_ns) = match self.steps {
            "" => steps_of_a_second(length_s),
            column => match cells.whole::<u64>(column)? {
                0 => return Err(Odd::cell(column, "is no number above 0", "0")),
                steps => (Some(steps), Some(((length_s * 1e9 / steps as f64).round() as u64).max(1))),
            },
        };
        let cpus = match self.cores {
            Some((column, unit)) if !cells.get(column).is_empty() => {
                cores_per_rank(column, (cells.number(column)? / unit).ceil() as u32, devices)?
            }
            _ => None,
        };
        let cell = |column: &str| cells.get(column).to_owned();
        Ok(Some(TraceRow {
            name,
            submit_s: at,
            submit_utc: date.and_then(submit_utc),
            job: Some(Job { workload: self.workload.into(), global_batch: None, plan: None, device: None }),
            steps,
            step_ns,
            devices: Some(devices),
            // Some formats name several types, of which one is enough.
            device_type: Some(cell(self.device_type))
                .filter(|types| !types.is_empty() && !types.contains('|')),
            cpus,
            user: cell(self.user),
            vc: cell(self.vc),
            recurring_job: Some(cell(self.recurring_job)).filter(|name| !name.is_empty()),
            ..TraceRow::default()
        }))
    }
}
