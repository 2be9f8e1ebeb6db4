//! Traces, which list jobs and their arrival. A trace is a CSV file with one line per job.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use record::{
    lines,
    rows::{self, NoRow, Records, RowError, shown},
};
use schema::{job::Job, unfinished, words};
use serde::{Deserialize, Deserializer, Serialize};

use crate::loss_curve::LossCurve;

/// A hundred years. A larger time is an error of units, and sums of such times would overflow the range of
/// nanoseconds.
pub(crate) const LONGEST_S: f64 = 100.0 * 365.25 * 86_400.0;

/// A job of a trace, as one of its lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRow {
    /// Unique in the trace.
    pub name: String,
    /// Arrival from the start of the trace. Lines are in this order.
    pub submit_s: f64,
    /// Absent for a command. A workload without a catalog entry can be simulated if `step_ns` is present,
    /// but not run.
    pub job: Option<Job>,
    /// A program and its arguments, split as a shell would.
    pub command: Option<String>,
    /// Absent for a command that runs until it exits.
    pub steps: Option<u64>,
    /// The pattern for lines of a command's output that end a step, in the syntax of the crate `regex`.
    #[serde(default)]
    pub steps_regex: Option<String>,
    /// Number of devices; if absent, that of its plan.
    pub devices: Option<u32>,
    /// The type of the devices that it asks for, as rows name it; if absent, any.
    pub device_type: Option<String>,
    /// Cores of the host for each rank; if absent, the policy or the worker chooses.
    pub cpus: Option<u16>,
    /// Whether its devices and its plan may be changed.
    #[serde(default, deserialize_with = "or_default")]
    pub elastic: bool,
    /// The smallest number of devices of an elastic job; if absent, 1.
    pub min_devices: Option<u32>,
    /// The largest number of devices of an elastic job; if absent, there is no bound.
    pub max_devices: Option<u32>,
    #[serde(default, deserialize_with = "or_default")]
    pub class: Class,
    /// A larger number is more important.
    #[serde(default, deserialize_with = "or_default")]
    pub priority: i32,
    /// Its part of the time where jobs take turns, beside the weights of the others; if absent, 1.
    pub weight: Option<u32>,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub vc: String,
    /// The recurring job of which this job is an instance: the name under which its user submits it again and again.
    pub recurring_job: Option<String>,
    /// Date and time of the arrival where the trace was recorded, in UTC (RFC 3339). Unlike `submit_s`, it is kept when the
    /// arrivals are scaled, so that the hour of the day and the day of the week are known.
    pub submit_utc: Option<String>,
    /// Step time alone on what it asks for, if the trace has one from another source.
    pub step_ns: Option<u64>,
    /// The search over hyper-parameters of which it is a member.
    pub search: Option<String>,
    /// The learning rate; if absent, that of its workload.
    pub learning_rate: Option<f64>,
    /// The losses that it reports in a simulation; if absent, none.
    pub loss_curve: Option<LossCurve>,
}

words! {
    /// The guarantee for a job.
    #[derive(Default)]
    Class {
        /// All that it asks for, once it is started.
        #[default]
        Guaranteed = "guaranteed",
        /// Whatever is left over.
        BestEffort = "best-effort",
    }
}

/// An empty cell, as in traces written by hand, means the default.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(cell: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(cell)?.unwrap_or_default())
}

impl TraceRow {
    /// Number of devices: one if neither the job nor its plan gives another number. If the job names no
    /// plan, it has that of its workload, which is in the catalog.
    pub fn devices(&self) -> u32 {
        let of_plan = || self.job.as_ref().and_then(|job| job.plan).map_or(1, |plan| plan.ranks());
        self.devices.unwrap_or_else(of_plan)
    }

    /// Its duration alone on what it asks for, if the trace contains it.
    pub fn length_ns(&self) -> Option<u64> {
        self.steps?.checked_mul(self.step_ns?)
    }

    /// The time in `submit_utc`.
    pub fn submitted_at(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(self.submit_utc.as_deref()?).ok()
    }

    /// The column of a bound that excludes this number of devices, and the reason.
    pub fn out_of_bounds(&self, devices: u32) -> Option<(&'static str, String)> {
        let asked =
            |bound| format!("is {bound}, and the job asks for {devices} devices; correct one of them");
        let below = self.min_devices.filter(|min| devices < *min).map(|min| ("min_devices", asked(min)));
        below.or_else(|| self.max_devices.filter(|max| devices > *max).map(|max| ("max_devices", asked(max))))
    }

    /// The invalid column and the reason.
    fn problem(&self) -> Option<(&'static str, String)> {
        let problem = |column, message: &str| Some((column, message.to_owned()));
        if self.name.is_empty() {
            return problem("name", "is empty; give each job a name of its own");
        }
        if !(0.0..=LONGEST_S).contains(&self.submit_s) {
            let message = "is no time; write seconds from the start of the trace, from 0 to a hundred years";
            return Some(("submit_s", format!("{} {message}", self.submit_s)));
        }
        match (&self.job, &self.command) {
            (Some(_), Some(_)) => return problem("command", "stands beside a job; keep one of the two"),
            (None, None) => return problem("job", "is empty, and so is command; name one of the two"),
            (Some(_), None) if self.steps.is_none() => {
                return problem("steps", "is empty; only a command runs until it ends by itself");
            }
            _ => {}
        }
        if self.steps_regex.is_some() && self.command.is_none() {
            return problem("steps_regex", "says something of commands alone; leave it empty");
        }
        for (column, is_given) in [
            ("search", self.search.is_some()),
            ("learning_rate", self.learning_rate.is_some()),
            ("loss_curve", self.loss_curve.is_some()),
        ] {
            if is_given && self.command.is_some() {
                return problem(
                    column,
                    "says something of jobs of the catalog, and this is a command; leave it empty",
                );
            }
        }
        if let Some(rate) = self.learning_rate.filter(|rate| !rate.is_finite() || *rate <= 0.0) {
            return Some(("learning_rate", format!("is {rate}; write a finite number above 0")));
        }
        for (column, value) in [
            ("steps", self.steps),
            ("devices", self.devices.map(u64::from)),
            ("cpus", self.cpus.map(u64::from)),
            ("min_devices", self.min_devices.map(u64::from)),
            ("max_devices", self.max_devices.map(u64::from)),
            ("weight", self.weight.map(u64::from)),
            ("step_ns", self.step_ns),
        ] {
            if value == Some(0) {
                return problem(column, "is 0; write 1 or more, or leave it empty");
            }
        }
        for (column, bound) in [("min_devices", self.min_devices), ("max_devices", self.max_devices)] {
            if bound.is_some() && !self.elastic {
                return problem(column, "bounds an elastic job; write true in elastic, or leave it empty");
            }
        }
        if let (Some(min), Some(max)) = (self.min_devices, self.max_devices)
            && min > max
        {
            return Some((
                "min_devices",
                format!("is {min}, above max_devices, which is {max}; exchange them"),
            ));
        }
        if let Some(devices) = self.devices
            && let Some(problem) = self.out_of_bounds(devices)
        {
            return Some(problem);
        }
        if let Some(date) = &self.submit_utc
            && self.submitted_at().is_none()
        {
            return Some((
                "submit_utc",
                format!("'{}' is no time in UTC; write it as 2020-09-01T08:00:00Z", shown(date)),
            ));
        }
        if self.step_ns.is_some() && self.steps.is_none() {
            return problem(
                "step_ns",
                "says something of steps, and there are none; write how many in steps",
            );
        }
        let is_too_long = |length_ns: u64| length_ns as f64 > LONGEST_S * 1e9;
        if self.step_ns.is_some() && self.length_ns().is_none_or(is_too_long) {
            return problem("step_ns", "makes the job more than a hundred years long; write nanoseconds");
        }
        let job = self.job.as_ref()?;
        if job.device.is_some() {
            return problem("job", "names a device, which is for the policy to choose; drop @on=");
        }
        let ranks = job.plan?.ranks();
        let asked = self.devices.filter(|devices| *devices != ranks)?;
        Some(("devices", format!("is {asked}, and the plan of {job} takes {ranks}; leave it empty")))
    }
}

/// A trace that is valid by itself. Its caller checks it against a catalog and a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// In order, with unique names.
    pub rows: Vec<TraceRow>,
    file: PathBuf,
    /// The line of each row, counted from 1 with the header.
    lines: Vec<u64>,
}

/// A line of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceLine<'a> {
    file: &'a Path,
    /// Counted from 1 with the header.
    line: u64,
}

impl Trace {
    /// # Errors
    /// The first invalid line, with its column and a remedy. One wrong line makes the whole trace invalid.
    pub fn read(path: &Path) -> Result<Trace, RowError> {
        Trace::parse(path, &lines::read(path)?)
    }

    /// Parses the text that is, or will be, in `file`.
    ///
    /// # Errors
    /// See [`Trace::read`].
    pub fn parse(file: &Path, text: &[u8]) -> Result<Trace, RowError> {
        let mut trace = Trace { rows: Vec::new(), file: file.into(), lines: Vec::new() };
        Trace::parse_each(file, text, |row, at| {
            trace.rows.push(row);
            trace.lines.push(at.line);
            Ok(())
        })?;
        Ok(trace)
    }

    /// Passes on each row of a trace with its line, so that the rows are never in memory as a whole.
    ///
    /// # Errors
    /// See [`Trace::read`], and the first error of `visit`. The rows before the error have been visited.
    pub fn read_each(
        path: &Path,
        visit: impl FnMut(TraceRow, TraceLine<'_>) -> Result<(), RowError>,
    ) -> Result<(), RowError> {
        Trace::parse_each(path, &lines::read(path)?, visit)
    }

    /// As [`Trace::read_each`], for the text that is, or will be, in `file`.
    ///
    /// # Errors
    /// See [`Trace::read_each`].
    pub fn parse_each(
        file: &Path,
        text: &[u8],
        mut visit: impl FnMut(TraceRow, TraceLine<'_>) -> Result<(), RowError>,
    ) -> Result<(), RowError> {
        let mut records = Records::new(file, text)?;
        if records.header().is_empty() || records.header().iter().all(str::is_empty) {
            return Err(RowError::Row { file: file.into(), line: 1, message: "there is no header".into() });
        }
        let numbers = numbers(records.header());
        let mut order = Order::default();
        let mut last = None;
        while records.advance()? {
            let at = TraceLine { file, line: records.line() };
            if let Some((column, message)) = hexadecimal(&numbers, records.record()) {
                return Err(at.refuse(column, message));
            }
            let row: TraceRow = records.row().map_err(|error| records.refuse(misspelled(&records, error)))?;
            let problem = row.problem().or_else(|| order.problem(&row, at.line));
            if let Some((column, message)) = problem {
                return Err(at.refuse(column, message));
            }
            visit(row, at)?;
            last = Some(at);
        }
        match last {
            Some(at) if !text.ends_with(b"\n") => {
                // A number without its last digits would still be a number.
                let column = records.header().iter().next_back().unwrap_or_default();
                let message =
                    "the file ends within this line, which may be torn; complete it with a line break";
                Err(at.refuse(column, message))
            }
            _ => Ok(()),
        }
    }

    /// The line of a row.
    pub fn line(&self, row: usize) -> TraceLine<'_> {
        TraceLine { file: &self.file, line: self.lines[row] }
    }
}

impl TraceLine<'_> {
    /// The error for an invalid row, in the format of this module's errors.
    pub fn refuse(self, column: &str, message: impl Into<String>) -> RowError {
        RowError::Field {
            file: self.file.into(),
            line: self.line,
            column: column.into(),
            message: message.into(),
        }
    }
}

/// What a row is compared with: the rows before it.
#[derive(Default)]
struct Order {
    /// The line of each name, by two hashes of it: a million names between the rows would leave as many holes in memory.
    lines: HashMap<[u64; 2], u64>,
    hashes: [RandomState; 2],
    submit_s: f64,
}

impl Order {
    /// The invalid column and the reason. The row counts from then on.
    fn problem(&mut self, row: &TraceRow, line: u64) -> Option<(&'static str, String)> {
        let name = self.hashes.each_ref().map(|hash| hash.hash_one(&row.name));
        if let Some(first) = self.lines.insert(name, line) {
            let message =
                format!("'{}' stands in line {first} already; rename one of them", shown(&row.name));
            return Some(("name", message));
        }
        let before = std::mem::replace(&mut self.submit_s, row.submit_s);
        let message = || format!("{} is before {before}, the line above; sort the lines by it", row.submit_s);
        (row.submit_s < before).then(|| ("submit_s", message()))
    }
}

/// The columns of a header that have numbers, each with its name.
fn numbers(header: &csv::StringRecord) -> Vec<(usize, String)> {
    let numbers = [
        "submit_s",
        "steps",
        "devices",
        "cpus",
        "min_devices",
        "max_devices",
        "priority",
        "weight",
        "step_ns",
        "learning_rate",
    ];
    let columns = header.iter().enumerate().filter(|(_, column)| numbers.contains(column));
    columns.map(|(index, column)| (index, column.to_owned())).collect()
}

/// The hexadecimal number of a record, and its column.
fn hexadecimal<'a>(numbers: &'a [(usize, String)], record: &csv::StringRecord) -> Option<(&'a str, String)> {
    numbers.iter().find_map(|(index, column)| Some((&**column, rows::hexadecimal(record.get(*index)?)?)))
}

/// The reason with the column of a misspelled word, which has none.
fn misspelled(records: &Records<'_>, NoRow { column, message }: NoRow) -> NoRow {
    let mut cells = records.header().iter().zip(records.record());
    let of_word = || {
        cells.position(|(column, cell)| match column {
            "job" if !cell.is_empty() => cell.parse::<Job>().is_err(),
            "class" => cell.parse::<Class>().is_err(),
            "loss_curve" if !cell.is_empty() => cell.parse::<LossCurve>().is_err(),
            _ => false,
        })
    };
    NoRow { column: column.or_else(of_word), message }
}

/// Writes a trace as a header and one line per job.
///
/// # Errors
/// The error of `out`.
pub fn write(out: impl io::Write, rows: impl IntoIterator<Item: Borrow<TraceRow>>) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for row in rows {
        writer.serialize(row.borrow()).map_err(io::Error::from)?;
    }
    writer.flush()
}

/// Replaces the file of a trace by this text atomically.
///
/// # Errors
/// The file cannot be written.
pub fn replace(file: &Path, text: &[u8]) -> Result<(), RowError> {
    let written = unfinished::begin(file).and_then(|(mut out, unfinished)| {
        out.write_all(text)?;
        unfinished.put()
    });
    written.map_err(|cause| RowError::Write { file: file.into(), cause })
}

#[cfg(test)]
mod tests;
