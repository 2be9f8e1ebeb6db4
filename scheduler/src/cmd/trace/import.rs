//! `sched trace import`: imports published traces.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use formats::import::{self, Columns, Imported, Source, TraceFormat};
use record::rows::RowError;
use rig::{Exit, output};

use super::{Clock, Shaped};

/// Convert a published trace.
///
/// acme: the jobs of Seren or Kalos, two clusters of Shanghai AI Lab, with arrival, GPUs, cores, duration and user.
/// csv: a table of your own, whose columns --columns names.
/// elasticflow: a trace of the artifact of ElasticFlow, with arrival, GPUs, steps and duration.
/// gavel: a trace of the artifact of Gavel and its simulation_throughputs.json, with arrival, GPUs, steps and the time of a step on V100
/// GPUs.
/// helios: the jobs of a cluster of SenseTime, with arrival, GPUs, cores, duration, user and virtual cluster. Files of the artifact of
/// Lucid have the names of recurring jobs, too.
/// pai-2020: the jobs of a cluster of Alibaba, with the sum of their tasks, users and groups.
/// pai-2023: the pods of a cluster of Alibaba, with arrival, GPUs, cores and duration.
/// philly: the 82,247 jobs of a cluster of Microsoft, with arrival, GPUs and duration.
/// pollux: the 160 jobs of a workload of Pollux's artifact, with their numbers of GPUs and batches; times come from --table.
/// rubick: the 406 jobs of seven models of Rubick's artifact, with their plans and steps; the times of their steps come from
/// --table of `sched sim`, so that --load does not apply.
/// sacct: your own jobs of Slurm, as `sacct --allusers --allocations --parsable2
/// --format JobID,JobName,User,Partition,State,Submit,Elapsed,AllocCPUS,AllocTRES` prints them.
/// shockwave: a trace of the artifact of Shockwave, with arrival, GPUs, steps and duration.
///
/// Jobs can be simulated, but not run, except for those of pollux and rubick, whose models the catalog has.
///
/// The files may be compressed with gzip or zstd, be UTF-8 or UTF-16, and have cells that are separated by commas, semicolons or
/// tabs. Rows that are invalid, or are no jobs for devices, are left out, with a note that counts them for each reason.
///
/// Example: `sched trace import --format csv jobs.csv --columns submit=submitted,duration=run_s,gpus=n_gpus,user=owner --out t.csv`
///
/// Example: `sched trace import --format rubick workload-mt.csv --time-scale 0.1 --out mt.csv`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The file, or - for standard input; for pai-2020 the tables of jobs, of tasks and, if wanted, of group tags, in
    /// this order, and for gavel the trace and the throughputs.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the file: acme, csv, elasticflow, gavel, helios, pai-2020, pai-2023, philly, pollux, rubick, sacct or shockwave.
    #[arg(long)]
    format: TraceFormat,
    /// The columns of --format csv: submit=COLUMN and gpus=COLUMN, duration=COLUMN or start=COLUMN and end=COLUMN, and, if wanted, those
    /// of name, user, vc, cpus (all cores of the job), steps, recurring_job and device_type. Times are dates, Unix times or seconds
    /// from the start, and durations are seconds or [DAYS-]HOURS:MINUTES:SECONDS.
    #[arg(long, value_name = "KEY=COLUMN,..")]
    columns: Option<Columns>,
    /// Refuse the first invalid row, with its file, line and column, instead of leaving invalid rows out.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    shaped: Shaped,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let texts = args.files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let sources: Vec<Source<'_>> = texts.iter().map(|(file, text)| Source { file, text }).collect();
    let Imported { rows, left_out } =
        import::read(args.format, &sources, args.columns.as_ref(), args.strict)?;
    let reasons: Vec<String> = left_out.iter().map(|(reason, rows)| counted(reason, *rows)).collect();
    let files =
        || sources.iter().map(|source| source.file.display().to_string()).collect::<Vec<_>>().join(", ");
    if rows.is_empty() {
        let why = if reasons.is_empty() {
            "has no jobs".into()
        } else {
            format!("has no jobs: {}", reasons.join("; "))
        };
        return Err(Exit::NothingMatched.because(format!("{} {why}", files())));
    }
    for reason in &reasons {
        output::note(format_args!("trace: {reason}"));
    }
    let shaped = args.shaped.shape(|| rows.iter().cloned(), Clock::default(), |row| {
        let known = row.step_ns.map(|ns| ns as f64);
        known.with_context(|| {
            format!(
                "{}: --format {} has no time of a step, so that its load is not known; remove --load, or scale the trace with \
                 --time-scale",
                row.name, args.format
            )
        })
    });
    args.shaped.write(shaped.with_context(files)?, reasons)
}

/// The number of rows that are left out for a reason.
fn counted(reason: &str, rows: usize) -> String {
    let rows = if rows == 1 { "1 row is".into() } else { format!("{rows} rows are") };
    format!("{rows} left out: {reason}")
}

/// The name of a file in messages, and its text.
fn read(file: &Path) -> anyhow::Result<(&Path, Vec<u8>)> {
    if file == Path::new("-") {
        let name = Path::new("standard input");
        return Ok((name, import::decode(name, std::io::stdin())?));
    }
    let open = File::open(file).map_err(|cause| RowError::Io { file: file.into(), cause })?;
    Ok((file, import::decode(file, open)?))
}
