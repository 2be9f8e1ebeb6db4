//! `sched fit`: fits models of step times to what was measured.

mod curve;
mod duration;
mod interference;
mod show;
mod suggest;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use cli::{heading, table::TableOptions};
use formats::fitted::{FittedWorkload, ModelFile};
use jobs::{plans::memory::DeviceMemory, software};
use model::{Options, RowsLeftOut, fit_and_predict};
use record::{calibration::Calibration, rows};
use rig::{Exit, output};
use schema::{
    catalog::Catalog,
    job::{Job, JobError},
};

use super::busy;
use crate::{
    measured::{self, Inputs, Measured, OfWorkload},
    parts, rank_memory,
};

/// Fit models of step times to measurements, for plans, batches and devices that were not measured.
///
/// Rows are those of jobs alone, of runs of `profile` (RUN), of its exports, of tables of step times of any origin (--csv):
/// `job,devices,step_s`, and of two published layouts: `exec_plan,placement,iter_time` of Rubick, and `placement,local_bsz,step_time`
/// of Pollux. All rows have to be of devices of one type.
///
/// Each formula that describes three or more different configurations of a workload is fitted. The errors that are printed are
/// those of predictions of rows that were left out of the fit: one configuration after another, or a twentieth of more than
/// twenty (leave-one-out), and a part of them at once (held out). The formula that describes the most rows is asked first, unless
/// another has surely smaller errors on the rows that both describe. Rows that the others contradict are named, and are not fitted
/// to. The table has the mean errors of the first formula, and how many of its parameters the rows do not determine; --verbose prints
/// all formulas and parameters, which the model has, too. Where a run has several launches of a configuration, their differences are
/// printed as well, because no prediction of a launch can be better.
///
/// Workloads with too few rows are left out, and the command exits with 1.
///
/// --published adds workloads without a row, by the parameters of Rubick's formulas that its artifact publishes. What they leave open
/// is said on stderr, and their predictions are marked as published.
///
/// --interference fits how much jobs on the same devices slow each other down, to runs of `profile colocate`, exports of them, or tables
/// of pairs of any origin: `mode,job_a,job_b` with `alone_a,alone_b,together_a,together_b` in seconds, or `speed_a,speed_b`. Groups that
/// were not measured are answered for from what each job does alone, if the rows tell its utilisation, and by the names of the jobs. The
/// printed errors are those of workloads, and of groups, that were left out of the fit.
///
/// With --suggest, --out is a table of the configurations that are worth measuring next, which `profile single --grid` measures. Each
/// one lowers the variances of all predictions most for a second of device time, after those before it. They are plans that are
/// valid at a batch of the rows on up to as many devices of one node as rows have, and that no row has. For a workload with too few
/// rows for a fit, the priors decide. Whether a plan fits into memory is checked when it is measured.
///
/// Example: `sched fit runs/two-ranks runs/four-ranks --out MODEL.json`
///
/// Example: `sched fit runs/first --suggest 8 --out next.csv`
///
/// Example: `sched fit runs/two-ranks --curve curve.csv`
///
/// Example: `sched fit --csv bert.csv t5.csv --held-out 0.7 --seed 2 --out a800.json`
///
/// Example: `sched fit --duration philly-trace.csv --out shapes.csv`
///
/// Example: `sched fit --interference runs/pairs runs/triples --out INTERFERENCE.json`
///
/// Example: `sched fit --csv bert.csv t5.csv --published parameters.csv --forward-like bert-large --out a800.json`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of runs of `profile`.
    #[arg(value_name = "RUN", required_unless_present_any = ["csv", "duration", "interference"])]
    runs: Vec<PathBuf>,
    /// Tables of step times: exports of `profile`, job,devices,step_s of any origin, or of a published layout, which is found by the names of
    /// the columns.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    csv: Vec<PathBuf>,
    /// The workload of published tables as NAME[@bN] [default: by the name of the file]. Rubick's need the global batch of their rows,
    /// unless the file has the name that its authors gave to a table of this workload, such as bert.csv.
    #[arg(long, help_heading = heading::PUBLISHED, value_name = "JOB", requires = "csv", value_parser = workload)]
    workload: Option<Job>,
    /// Published parameters of Rubick's formulas (`model,k_bwd,k_sync,..`), for those of its models of which no table has rows.
    ///
    /// Their forward pass is not published: see --forward-like. Bandwidths are the assumed ones, or those of --machine.
    #[arg(long, help_heading = heading::PUBLISHED, value_name = "FILE", requires = "csv", requires = "forward_like", conflicts_with_all = ["suggest", "curve"])]
    published: Option<PathBuf>,
    /// With --published: the workload of --csv whose forward pass takes as long for each parameter and position.
    #[arg(long, help_heading = heading::PUBLISHED, value_name = "NAME", requires = "published")]
    forward_like: Option<String>,
    /// The type of the devices whose rows are used; published tables are taken to be of it [default: the type of all rows, and for
    /// published tables the devices of their authors].
    #[arg(long, help_heading = heading::FIT, value_name = "NAME")]
    device_type: Option<String>,
    /// The model to write, or with --suggest the table; an existing file is replaced.
    #[arg(long, value_name = "FILE", required_unless_present = "curve")]
    out: Option<PathBuf>,
    /// Choose up to K configurations to measure next, instead of writing the model to --out.
    #[arg(long, help_heading = heading::SUGGESTIONS, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    suggest: Option<u32>,
    /// With --suggest: the largest number of devices of a suggestion [default: the largest of a node in the rows].
    #[arg(long, help_heading = heading::SUGGESTIONS, value_name = "N", requires = "suggest", value_parser = clap::value_parser!(u32).range(1..=1024))]
    devices: Option<u32>,
    /// With --suggest: the model to write.
    #[arg(long, help_heading = heading::SUGGESTIONS, value_name = "FILE", requires = "suggest")]
    model_out: Option<PathBuf>,
    /// Write how errors fall while configurations of the runs are measured as --suggest says, at random, and in the order of the
    /// table; no model is written.
    ///
    /// The first three configurations of each workload are drawn from the seed. After every K of --suggest (8 unless given), the
    /// formula that describes most is fitted, and the table has its errors on all configurations that are not measured yet. Twenty
    /// seeds are used, from --seed on. The cost of a row of --csv is that of five launches that start in 10 s and step for 10 s.
    #[arg(long, help_heading = heading::SUGGESTIONS, value_name = "FILE", conflicts_with_all = ["out", "devices", "model_out", "held_out"])]
    curve: Option<PathBuf>,
    /// Fit how long jobs run instead, to a trace with lengths or the outcomes of a run. --out gets the shapes of the additive model.
    ///
    /// The printed errors are those of estimates of the last part of the jobs (--held-out), each made when a job arrives, from the jobs
    /// that had ended by then.
    #[arg(long, value_name = "HISTORY", conflicts_with_all = ["runs", "csv", "suggest", "curve", "within_rows", "device_type", "machine", "seed"])]
    duration: Option<PathBuf>,
    /// Fit the slowdowns of jobs that share devices, too: runs of `profile colocate`, exports of `profile`, and tables
    /// mode,job_a,job_b,.. of pairs of any origin. Without RUN and --csv, the model has no times of jobs alone.
    #[arg(long, value_name = "RUN|FILE", num_args = 1.., conflicts_with_all = ["suggest", "curve", "duration"])]
    interference: Vec<PathBuf>,
    /// Let the model predict only what its rows cover: plans with the same kinds of parallelism, stage of ZeRO, offload, gc and precision
    /// as a row of the workload, on as many devices and with as many samples in a micro-batch as such rows have, from the fewest to
    /// the most.
    ///
    /// With such a model a policy never picks a plan whose time is a guess, and neither does a simulation whose truth it is. Workloads
    /// of --published have no rows, and are predicted on up to 8 devices, and under ZeRO for stage 2.
    #[arg(long, help_heading = heading::FIT, conflicts_with_all = ["suggest", "curve"])]
    within_rows: bool,
    /// The share of the configurations that the held-out errors are of. The others are fitted to.
    #[arg(long, help_heading = heading::FIT, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    held_out: f64,
    /// Seed of the starting points of fits, and of the choice of held-out configurations.
    #[arg(long, help_heading = heading::FIT, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What `profile calibrate` has measured of the machine of the rows. Its bandwidths replace what is otherwise assumed.
    #[arg(long, help_heading = heading::FIT, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// A file with additional workloads and programs.
    #[arg(long, help_heading = heading::FIT, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    format: Format,
    /// Print the errors of every formula by kind of plan, and all parameters; of slowdowns the terms, and the errors by contention, too.
    #[arg(short, long, help_heading = heading::PRINTED, conflicts_with_all = ["json", "suggest", "curve", "duration", "columns"])]
    verbose: bool,
}

/// How the result of a fit is printed.
#[derive(clap::Args)]
struct Format {
    /// Print the model as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let catalog = Catalog::open(&args.catalog)?;
    let writes_table = args.suggest.is_some() || args.duration.is_some();
    let table = args.out.iter().filter(|_| writes_table).chain(&args.curve);
    if let Some(model) = table.into_iter().find(|path| ModelFile::read(path).is_ok()) {
        bail!(
            "{} is a model of `sched fit`, and a table would replace it; name another file",
            model.display()
        );
    }
    if let Some((history, out)) = args.duration.as_deref().zip(args.out.as_deref()) {
        return duration::run(history, (out, args.held_out, &args.format), &catalog);
    }
    let together = match args.interference.as_slice() {
        [] => None,
        paths => Some(measured::together::read(paths, args.device_type.as_deref())?),
    };
    if let Some(together) = together.as_ref().filter(|_| args.runs.is_empty() && args.csv.is_empty()) {
        return interference::run(together, args, &catalog);
    }
    if args.curve.is_none() && args.suggest.is_none() {
        args.format.table.check(&show::SUMMARY_COLUMNS)?;
    }
    let measured = measured::read(&Inputs {
        runs: &args.runs,
        tables: &args.csv,
        workload: args.workload.as_ref(),
        device_type: args.device_type.as_deref(),
        catalog: &catalog,
    })?;
    let calibration = args.machine.as_deref().map(Calibration::read).transpose()?;
    let options = Options::new(
        parts::of(measured.is_on_cores, &measured.device_type, calibration.as_ref())?,
        args.seed,
    );
    for (why, rows) in &measured.left_out {
        output::note(format_args!("fit: {rows} rows are left out: {why}"));
    }
    if let Some(note) = disturbances(&measured) {
        output::note(format_args!("fit: {note}"));
    }
    if !measured.unfit.is_empty() {
        output::note(format_args!(
            "fit: {} rows did not fit: plans that need as much memory as one of them are taken not to fit",
            measured.unfit.len()
        ));
    }
    if let Some(path) = &args.curve {
        return curve::run(path, &measured, args.suggest, &options, &args.format);
    }
    let (mut fitted, left_out, refused) = fit(&measured, args.held_out, &options);
    add_memory(&mut fitted, &catalog, measured.is_on_cores);
    if let (Some(count), Some(out)) = (args.suggest, &args.out) {
        let file = model_file(args, &measured, fitted);
        if let Some(path) = &args.model_out {
            file.write(path)?;
        }
        let wanted = suggest::Wanted { count: count as usize, devices: args.devices, out };
        return suggest::run(&wanted, &file, &measured, &catalog, &options.parts, &args.format);
    }
    if let ([], [first, ..]) = (&fitted[..], &refused[..]) {
        let files = args.runs.iter().chain(&args.csv).map(|path| path.display().to_string());
        anyhow::bail!("{}: {first}", files.collect::<Vec<_>>().join(", "));
    }
    for why in &refused {
        output::note(format_args!("fit: left out: {why}"));
    }
    let mut sources = Vec::new();
    if let (Some(path), Some(like)) = (&args.published, &args.forward_like) {
        let (source, found) = measured::parameters((path, like), &fitted, &catalog, &options.parts)?;
        sources.push(source);
        fitted.extend(found);
    }
    let mut file = model_file(args, &measured, fitted);
    file.sources.extend(sources);
    if let Some(together) = &together {
        ensure!(
            together.device_type == file.device_type,
            "jobs alone are of devices of type '{}', and those of --interference of type '{}'; name one with --device-type",
            file.device_type,
            together.device_type
        );
        file.interference = Some(interference::fit(together, &catalog));
    }
    for doubtful in show::doubtful(&file)? {
        output::note(format_args!("fit: {doubtful}"));
    }
    let out = args.out.as_deref().context("--out names the file to write")?;
    file.write(out)?;
    match args.format.json {
        true => output::print(rows::to_json(&file))?,
        false => {
            let shown = show::Shown::new(&file, &measured, &left_out);
            if args.verbose {
                shown.details(args.format.table.layout())?;
            } else {
                shown.summary(&args.format.table)?;
            }
            if let Some(interference) = &file.interference {
                if !args.verbose {
                    output::print("")?;
                }
                let options = args.format.table.layout().into();
                interference::show(interference, args.verbose, &options)?;
            }
        }
    }
    output::news(format_args!(
        "fit: {}: {} workloads on {}",
        out.display(),
        file.workloads.len(),
        file.device_type
    ));
    Ok(if refused.is_empty() { Exit::Ok } else { Exit::SomeFailed })
}

fn model_file(args: &Args, measured: &Measured, workloads: Vec<FittedWorkload>) -> ModelFile {
    ModelFile {
        format: ModelFile::FORMAT,
        version: software::VERSION.into(),
        seed: args.seed,
        device_type: measured.device_type.clone(),
        is_on_cores: measured.is_on_cores,
        within_rows: args.within_rows,
        sources: measured.sources.clone(),
        workloads,
        unfit: measured.unfit.clone(),
        interference: None,
    }
}

/// Fits each workload. With the predictions of rows of all of them that were left out, and the reason for each workload that cannot be
/// fitted.
fn fit(
    measured: &Measured,
    held_out: f64,
    options: &Options,
) -> (Vec<FittedWorkload>, RowsLeftOut, Vec<String>) {
    let (mut fitted, mut left_out, mut refused) = (Vec::new(), RowsLeftOut::default(), Vec::new());
    for of in &measured.workloads {
        let OfWorkload { workload, facts, rows, launches_differ, .. } = of;
        let spinner = busy(format!("fit: {workload}: {} rows", rows.len()));
        let found = match of.problem() {
            Some(problem) => Err(problem),
            None => fit_and_predict(workload, *facts, rows.clone(), held_out, options)
                .map_err(|error| error.to_string()),
        };
        spinner.finish_and_clear();
        match found {
            Ok((found, rows)) => {
                fitted.push(FittedWorkload { launches_differ: *launches_differ, ..found });
                left_out.singly.extend(rows.singly);
                left_out.held_out.extend(rows.held_out);
            }
            Err(problem) => refused.push(format!("workload '{workload}': {problem}")),
        }
    }
    (fitted, left_out, refused)
}

/// The number of disturbed rows that a note names.
const MOST_NAMED: usize = 3;

/// Which rows were measured beside other users of the machine, or did not settle.
fn disturbances(measured: &Measured) -> Option<String> {
    let rows = measured.workloads.iter().map(|workload| workload.rows.len()).sum::<usize>();
    let disturbed = &measured.disturbed;
    let named: Vec<String> =
        disturbed.iter().take(MOST_NAMED).map(|(job, warnings)| format!("{job} ({warnings})")).collect();
    let more = match disturbed.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!disturbed.is_empty()).then(|| {
        format!(
            "{} of {rows} rows were disturbed or did not settle, and are fitted like the others: {}{more}; measure these jobs again on a \
             quiet machine",
            disturbed.len(),
            named.join(", ")
        )
    })
}

/// Fits the memory of each workload and each program of the catalog.
fn add_memory(fitted: &mut [FittedWorkload], catalog: &Catalog, is_on_cores: bool) {
    let memory = if is_on_cores { DeviceMemory::Host } else { DeviceMemory::Own };
    for fitted in fitted {
        fitted.memory =
            catalog.entry(&fitted.workload).and_then(|entry| rank_memory::fit(entry, fitted, memory));
    }
}

/// `NAME[@bN]`.
fn workload(text: &str) -> Result<Job, String> {
    let job: Job = text.parse().map_err(|error: JobError| error.to_string())?;
    match (job.plan, &job.device) {
        (None, None) => Ok(job),
        _ => Err(format!("'{text}' has more than a workload and a batch; write NAME[@bN]")),
    }
}

/// A share of configurations.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| format!("'{text}' is no share; write a number between 0 and 1, such as 0.5"))
}
