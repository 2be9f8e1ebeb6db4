//! Converts published traces and step times.

mod decode;
mod helios;
mod pai2020;
mod philly;
mod pollux;
mod rubick;
pub mod times;

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub use decode::decode;
use serde::de::DeserializeOwned;

use crate::{
    rows::{self, RowError, words},
    trace::TraceRow,
};

words! {
    /// The source of a trace.
    TraceFormat {
        /// SenseTime's clusters in 2020 (Hu et al., SC 2021): `cluster_log.csv` of S-Lab-System-Group/HeliosData, and the files of
        /// the artifact of Lucid, which are made from it (S-Lab-System-Group/Lucid, ASPLOS 2023).
        Helios = "helios",
        /// Alibaba's PAI in 2020 (Weng et al., NSDI 2022): the tables `pai_job_table`, `pai_task_table` and `pai_group_tag_table`
        /// of alibaba/clusterdata, `cluster-trace-gpu-v2020`.
        Pai2020 = "pai-2020",
        /// Microsoft's cluster in 2017 (Jeon et al., USENIX ATC 2019), as in the artifact of Pollux
        /// (petuum/adaptdl, branch osdi21-artifact, `simulator/traces/philly.csv`).
        Philly = "philly",
        /// The workloads of the artifact of Pollux (petuum/adaptdl, branch osdi21-artifact, `simulator/workloads*/*.csv`, OSDI
        /// 2021).
        Pollux = "pollux",
        /// The artifact of Rubick (AlibabaPAI/reconfigurable-dl-scheduler, MLSys 2025).
        Rubick = "rubick",
    }
}

impl TraceFormat {
    /// The files of the format, as a message names them.
    fn files(self) -> &'static str {
        match self {
            TraceFormat::Pai2020 => {
                "pai_job_table.csv, pai_task_table.csv and, if wanted, pai_group_tag_table.csv, in this order"
            }
            TraceFormat::Helios | TraceFormat::Philly | TraceFormat::Pollux | TraceFormat::Rubick => {
                "one file"
            }
        }
    }
}

/// A file of a published trace.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub file: &'a Path,
    pub text: &'a [u8],
}

/// The reason why a trace cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("--format {format} reads {}; the number of files is {found}", .format.files())]
    Files { format: TraceFormat, found: usize },
    #[error(transparent)]
    Row(#[from] RowError),
}

/// The jobs of a published trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// In order of arrival. The first arrives at its own time in the file or, if that is a date, at 0.
    pub rows: Vec<TraceRow>,
    /// The number of jobs of the file that are not in `rows`, for each reason.
    pub left_out: BTreeMap<&'static str, usize>,
}

/// Reads the jobs of a published trace.
///
/// # Errors
/// Another number of files than the format has, or the first line that does not fit the format, with its column.
pub fn read(format: TraceFormat, sources: &[Source<'_>]) -> Result<Imported, ImportError> {
    let mut imported = match (format, sources) {
        (TraceFormat::Helios, &[log]) => helios::read(log)?,
        (TraceFormat::Pai2020, &[jobs, tasks]) => pai2020::read(jobs, tasks, None)?,
        (TraceFormat::Pai2020, &[jobs, tasks, groups]) => pai2020::read(jobs, tasks, Some(groups))?,
        (TraceFormat::Philly, &[jobs]) => philly::read(jobs)?,
        (TraceFormat::Pollux, &[jobs]) => pollux::read(jobs)?,
        (TraceFormat::Rubick, &[jobs]) => rubick::read(jobs)?,
        (format, sources) => return Err(ImportError::Files { format, found: sources.len() }),
    };
    // The sort is stable, so that simultaneous jobs keep their order in the file.
    imported.rows.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
    Ok(imported)
}

/// A value of a row, or the invalid column and the reason.
type Found<T> = Result<T, (&'static str, String)>;

/// What a line of a published trace becomes.
enum Line {
    Job(Box<TraceRow>),
    /// A job that is left out, for this reason.
    LeftOut(&'static str),
}

impl From<TraceRow> for Line {
    fn from(row: TraceRow) -> Line {
        Line::Job(Box::new(row))
    }
}

impl Imported {
    fn add(&mut self, line: Line) {
        match line {
            Line::Job(row) => self.rows.push(*row),
            Line::LeftOut(why) => *self.left_out.entry(why).or_default() += 1,
        }
    }

    /// Moves the first arrival to 0.
    fn starting_at_zero(mut self) -> Imported {
        let first = self.rows.iter().map(|row| row.submit_s).fold(f64::INFINITY, f64::min);
        self.rows.iter_mut().for_each(|row| row.submit_s -= first);
        self
    }
}

/// Converts the rows of a file with a function for one row.
fn rows_of<T: DeserializeOwned>(
    Source { file, text }: Source<'_>,
    mut line: impl FnMut(usize, T) -> Found<Line>,
) -> Result<Imported, RowError> {
    let theirs: Vec<T> = rows::parse(file, csv::Reader::from_reader(text))?;
    let mut imported = Imported::default();
    for (number, theirs) in theirs.into_iter().enumerate() {
        imported.add(line(number, theirs).map_err(|(column, message)| RowError::Field {
            file: file.into(),
            // None of these formats quotes line breaks, and the first line is the header.
            line: number as u64 + 2,
            column: column.into(),
            message,
        })?);
    }
    Ok(imported)
}

/// The time of a date such as `2017-10-09 07:01:55`, in Unix time. A trace does not name its time zone, which is taken to be UTC.
fn date(column: &'static str, text: &str) -> Found<Duration> {
    let at = humantime::parse_rfc3339_weak(text).ok();
    let at = at.and_then(|at: SystemTime| at.duration_since(UNIX_EPOCH).ok());
    at.ok_or_else(|| (column, format!("'{text}' is no 2017-10-09 07:01:55")))
}

/// The column `submit_utc` for a Unix time.
fn submit_utc(at: Duration) -> Option<String> {
    Some(humantime::format_rfc3339(UNIX_EPOCH + at).to_string())
}

/// A duration in seconds, above 0.
fn seconds(column: &'static str, value: f64) -> Found<f64> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err((column, format!("{value} is no length of time; drop the line"))),
    }
}

/// The number of steps of a job of which only the duration is known, and their time: steps of about one second.
fn steps_of_a_second(length_s: f64) -> (Option<u64>, Option<u64>) {
    let steps = (length_s.round() as u64).max(1);
    (Some(steps), Some(((length_s * 1e9 / steps as f64).round() as u64).max(1)))
}

/// The number of cores of the host for each rank of a job, rounded up. `None` if the job asks for no cores.
fn cores_per_rank(column: &'static str, cores: u32, ranks: u32) -> Found<Option<u16>> {
    let each = u16::try_from(cores.div_ceil(ranks));
    let each =
        each.map_err(|_| (column, format!("{cores} cores are too many for {ranks} GPUs; drop the line")))?;
    Ok(Some(each).filter(|each| *each > 0))
}

/// Imports the text of one file, for the tests of the formats.
#[cfg(test)]
fn read_text(format: TraceFormat, file: &str, text: &str) -> Result<Imported, ImportError> {
    read(format, &[Source { file: Path::new(file), text: text.as_bytes() }])
}
