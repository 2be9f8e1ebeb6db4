//! Converts published traces and step times.

mod clusters;
mod columns;
mod decode;
mod gavel;
mod helios;
mod jobs;
mod pai2020;
pub mod pairs;
mod philly;
mod pollux;
mod rubick;
pub mod step_times;
mod table;
mod timed;
pub mod times;

use std::{collections::BTreeMap, path::Path, time::Duration};

pub use columns::Columns;
pub use decode::decode;
use jobs::Jobs;
use record::rows::RowError;
use schema::words;
use table::{LeftOut, Odd};

use crate::trace::TraceRow;

words! {
    /// The source of a trace.
    TraceFormat {
        /// Two clusters of Shanghai AI Lab in 2023 (Hu et al., NSDI 2024): `trace_seren.csv` and `trace_kalos.csv` of
        /// InternLM/AcmeTrace.
        Acme = "acme",
        /// A table of the user, with columns that [`Columns`] names.
        Csv = "csv",
        /// The artifact of ElasticFlow (Gu et al., ASPLOS 2023; pkusys/ElasticFlow, `traces_for_ElasticFlow/*.csv`).
        ElasticFlow = "elasticflow",
        /// The artifact of Gavel (Narayanan et al., OSDI 2020; stanford-futuredata/gavel, `scheduler/traces/**/*.trace` and
        /// `scheduler/simulation_throughputs.json`).
        Gavel = "gavel",
        /// SenseTime's clusters in 2020 (Hu et al., SC 2021): `cluster_log.csv` of S-Lab-System-Group/HeliosData, and the files of
        /// the artifact of Lucid, which are made from it (S-Lab-System-Group/Lucid, ASPLOS 2023).
        Helios = "helios",
        /// Alibaba's PAI in 2020 (Weng et al., NSDI 2022): the tables `pai_job_table`, `pai_task_table` and `pai_group_tag_table`
        /// of alibaba/clusterdata, `cluster-trace-gpu-v2020`.
        Pai2020 = "pai-2020",
        /// Alibaba's PAI in 2023 (Weng et al., USENIX ATC 2023): `openb_pod_list_*.csv` of alibaba/clusterdata,
        /// `cluster-trace-gpu-v2023`.
        Pai2023 = "pai-2023",
        /// Microsoft's cluster in 2017 (Jeon et al., USENIX ATC 2019), as in the artifact of Pollux
        /// (petuum/adaptdl, branch osdi21-artifact, `simulator/traces/philly.csv`).
        Philly = "philly",
        /// The workloads of the artifact of Pollux (petuum/adaptdl, branch osdi21-artifact, `simulator/workloads*/*.csv`, OSDI
        /// 2021).
        Pollux = "pollux",
        /// The artifact of Rubick (AlibabaPAI/reconfigurable-dl-scheduler, MLSys 2025).
        Rubick = "rubick",
        /// Jobs of Slurm, as `sacct --parsable2` prints them.
        Sacct = "sacct",
        /// The artifact of Shockwave (Zheng et al., NSDI 2023; uw-mad-dash/shockwave, `scheduler/traces/**/*.trace`).
        Shockwave = "shockwave",
    }
}

impl TraceFormat {
    /// The files of the format, as a message names them.
    fn files(self) -> &'static str {
        match self {
            TraceFormat::Pai2020 => {
                "pai_job_table.csv, pai_task_table.csv and, if wanted, pai_group_tag_table.csv, in this order"
            }
            TraceFormat::Gavel => "a trace and simulation_throughputs.json, in this order",
            _ => "one file",
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
    #[error("--format csv has no columns of its own; name those of the file with --columns")]
    NoColumns,
    #[error(
        "--columns names the columns of --format csv, and {0} has columns of its own; remove one of the two"
    )]
    TwiceColumns(TraceFormat),
    #[error(transparent)]
    Row(#[from] RowError),
}

/// The jobs of a published trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// In order of arrival. The first arrives at its own time in the file or, if that is a date, at 0.
    pub rows: Vec<TraceRow>,
    /// The number of rows of the files that are in no row of the trace, for each reason.
    pub left_out: BTreeMap<String, usize>,
}

/// Reads the jobs of a published trace, or of a table of the user with these columns. Rows that are invalid are left out, or refused
/// if `is_strict`.
///
/// # Errors
/// Another number of files than the format has, missing or needless columns, a file that is no table of the format, or the first row that is refused.
pub fn read(
    format: TraceFormat,
    sources: &[Source<'_>],
    columns: Option<&Columns>,
    is_strict: bool,
) -> Result<Imported, ImportError> {
    if columns.is_some() && format != TraceFormat::Csv {
        return Err(ImportError::TwiceColumns(format));
    }
    let left_out = LeftOut { is_strict, ..LeftOut::default() };
    let layout = match format {
        TraceFormat::Acme => clusters::acme(),
        TraceFormat::Csv => columns.ok_or(ImportError::NoColumns)?.layout(),
        TraceFormat::ElasticFlow => clusters::elastic_flow(),
        TraceFormat::Gavel => match sources {
            &[jobs, throughputs] => return Ok(gavel::read(jobs, throughputs, left_out)?),
            sources => return Err(ImportError::Files { format, found: sources.len() }),
        },
        TraceFormat::Helios => helios::layout(),
        TraceFormat::Pai2023 => clusters::pai_2023(),
        TraceFormat::Philly => philly::layout(),
        TraceFormat::Sacct => clusters::sacct(),
        TraceFormat::Shockwave => clusters::shockwave(),
        TraceFormat::Pai2020 => match sources {
            &[jobs, tasks] => return Ok(pai2020::read(jobs, tasks, None, left_out)?),
            &[jobs, tasks, groups] => return Ok(pai2020::read(jobs, tasks, Some(groups), left_out)?),
            sources => return Err(ImportError::Files { format, found: sources.len() }),
        },
        TraceFormat::Pollux => return Ok(pollux::read(only(format, sources)?, left_out)?),
        TraceFormat::Rubick => return Ok(rubick::read(only(format, sources)?, left_out)?),
    };
    Ok(layout.read(only(format, sources)?, left_out)?)
}

/// The file of a format that has one.
fn only<'a>(format: TraceFormat, sources: &[Source<'a>]) -> Result<Source<'a>, ImportError> {
    match sources {
        &[source] => Ok(source),
        sources => Err(ImportError::Files { format, found: sources.len() }),
    }
}

/// A value of a row, or the invalid column and the reason.
type Found<T> = Result<T, (&'static str, String)>;

/// The column `submit_utc` for a Unix time.
fn submit_utc(unix_s: f64) -> Option<String> {
    Some(humantime::format_rfc3339(std::time::UNIX_EPOCH + Duration::from_secs_f64(unix_s)).to_string())
}

/// The number of steps of a job of which only the duration is known, and their time: steps of about one second.
fn steps_of_a_second(length_s: f64) -> (Option<u64>, Option<u64>) {
    let steps = (length_s.round() as u64).max(1);
    (Some(steps), Some(((length_s * 1e9 / steps as f64).round() as u64).max(1)))
}

/// The number of devices of a job, which is above 0.
fn devices(column: &str, gpus: u32) -> Result<u32, Odd> {
    match gpus {
        0 => Err(Odd::unsuitable(column, "no GPU requested")),
        gpus => Ok(gpus),
    }
}

/// The number of cores of the host for each rank of a job, rounded up. `None` if the job asks for no cores.
fn cores_per_rank(column: &str, cores: u32, ranks: u32) -> Result<Option<u16>, Odd> {
    let each = u16::try_from(cores.div_ceil(ranks)).map_err(|_| {
        let odd = Odd::job(column, "more cores than 65,535 for each GPU");
        odd.with_message(format!("{cores} cores are too many for {ranks} GPUs"))
    })?;
    Ok(Some(each).filter(|each| *each > 0))
}

/// Imports the text of one file, for the tests of the formats.
#[cfg(test)]
fn read_text(format: TraceFormat, file: &str, text: &str) -> Result<Imported, ImportError> {
    read(format, &[Source { file: Path::new(file), text: text.as_bytes() }], None, false)
}

/// The error for the first invalid row of one file, for the tests of the formats.
#[cfg(test)]
fn refusal(format: TraceFormat, file: &str, text: &str) -> String {
    let error =
        read(format, &[Source { file: Path::new(file), text: text.as_bytes() }], None, true).unwrap_err();
    error.to_string()
}
