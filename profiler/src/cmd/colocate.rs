//! `profile colocate`: jobs together, and how much they slow each other down.

use std::path::PathBuf;

use anyhow::bail;
use cli::{heading, options::RunOptions};
use jobs::{
    command_line::CommandLine,
    manifest::{self, RunRequest},
    plans::Estimates,
    users_programs,
    vary::{Varied, VariedName},
};
use record::{manifest::Manifest, rows};
use rig::{Exit, output};
use schema::{catalog::Catalog, footprint::Footprints, job::Job, sharing::Sharing, units::Nanos};

use super::{
    options::{JobKinds, MeasureOptions, ResumeOptions, RunFormat},
    runs,
};
use crate::{
    blocks,
    groups::{self, Company, GroupRequest},
    run_tables,
};

/// The set of the catalog whose workloads each load one resource. Their batch is the intensity in percent.
const STRESSORS: &str = "stress";

/// Measure jobs together, and how much they slow each other down.
///
/// The jobs run at the same time on the devices they name, which may be the same or different ones. A block measures every job
/// alone, every group, and every job alone again in reverse order; each repeat is a block. Members of a group warm up one after
/// another and are released together. A member that ends early is started again, and only the time in which all are steady
/// counts. A slowdown is the step time in the group over the step time alone in the same block, with an interval over blocks.
///
/// If a run is resumed in the middle of a block, the groups whose launches alone are incomplete are measured again, with new
/// launches alone before and after them.
///
/// interference.csv has a row for each member of each group; measurements.csv and summary.csv have all launches, alone and
/// together. A group whose members do not fit on a device together is not started, and its rows have the reason.
///
/// Example: `profile colocate resnet18-mini lstm --device cpu:0`
///
/// Example: `profile colocate resnet50@b64@bf16 gpt2 --sharing time-slice,step-gate:250ms:2/1 --device cuda:0`
///
/// Example: `profile colocate lstm@on=cpu:0 vae@on=cpu:1 --repeats 5`
///
/// Example: `profile colocate set:quick --all-pairs --seconds 5 --budget 8h`
///
/// Example: `profile colocate set:quick --all-pairs --apart --device cuda:0,cuda:1`
///
/// Example: `profile colocate lstm --cmd "python3 train.py --epochs 1" --device cpu:0`
///
/// Example: `profile colocate --cmd "python3 train.py" --name small --cmd "python3 train.py --large" --name large`
///
/// Example: `profile colocate lstm --cmd "python3 train.py --workers {workers}" --vary workers=0,2,4 --device cpu:0`
///
/// Example: `profile colocate resnet18-mini --sensitivity --device cpu:0`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Jobs to run together: `WORKLOAD[@bN][@PLAN][@on=DEVICE]`, or `set:NAME` for all workloads of a set.
    ///
    /// All jobs that are named form one group, or one for each combination of --vary. A job that is named twice is two members of it.
    jobs: Vec<Job>,
    /// How a group shares its devices; each mode is measured [default: time-slice].
    ///
    /// time-slice[:SLICE]: all members run at once, scheduled by the device or the kernel; on cores, a time slice such as 20ms,
    /// up to 100ms, can be given where the kernel's own are shorter. step-gate[:QUANTUM][:WEIGHTS]: one member runs at a time,
    /// in turns that end at a step. A turn lasts QUANTUM, a number of steps such as 8 or a time such as 250ms or 2s (default
    /// 1s), times the member's weight, as in 2/1. mps[:PERCENTS][:SIZES]: all members run at once on one GPU as clients of a daemon of
    /// NVIDIA's MPS that the run starts and ends, with all multiprocessors and all memory unless limits are given: one for all
    /// members, as in 50 or 20GiB, or one for each, as in 70/30:20GiB/10GiB. cpu-shares:WEIGHTS: all members run at once, and have CPU time by weight.
    /// sequential: one member runs after the other, each for the whole measured time. This is the baseline for the throughput
    /// of a group; its members have no slowdown.
    #[arg(long, value_name = "MODE,..", value_delimiter = ',')]
    sharing: Vec<Sharing>,
    /// Measure every pair of the jobs, including each job beside itself.
    #[arg(long, conflicts_with_all = ["size", "sensitivity"])]
    all_pairs: bool,
    /// Measure every group of K of the jobs, in which a job may occur more than once.
    #[arg(long, value_name = "K", conflicts_with = "sensitivity", value_parser = clap::value_parser!(u8).range(2..=16))]
    size: Option<u8>,
    /// Put the members of a group on separate devices, the next ones of --device, to measure the interference between
    /// neighbours.
    #[arg(long, conflicts_with = "sensitivity")]
    apart: bool,
    /// Measure each job beside a stressor of each resource: curves.csv has the slowdown of the job and of the stressor.
    #[arg(long)]
    sensitivity: bool,
    /// Intensities of the stressors, in percent of the time in which they work [default: 25,50,75,100].
    #[arg(long, help_heading = heading::JOBS, value_name = "PCT,..", value_delimiter = ',', requires = "sensitivity",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    dial: Vec<u32>,
    /// The number of samples in a step of the programs, over all ranks of a program. Their rows then have the global batch and
    /// samples/s.
    #[arg(long, help_heading = heading::JOBS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Values for a name in braces in the commands of programs, as lr=0.1,0.01 for {lr}. May be given for several names.
    ///
    /// All jobs that are named form one group for each combination of values. With --all-pairs, --size and --sensitivity, each
    /// combination is a job. Names of the definition of a program are those in its [program.defaults]. {{lr}} is the text {lr}.
    #[arg(long, help_heading = heading::JOBS, value_name = "NAME=V,..")]
    vary: Vec<VariedName>,
    /// Number of blocks. An interval needs at least two, and three make it useful.
    #[arg(short = 'n', long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    measure: MeasureOptions,
    /// Resume a run that was interrupted: only what is missing is measured.
    ///
    /// The budget starts anew. --data and --catalog keep their paths. A run is not resumed with another version of Tandem,
    /// libtorch or the GPU driver, after a restart of the machine, or with programs or files of another folder.
    #[arg(long, value_name = "RUN", conflicts_with_all = [
        "jobs", "sharing", "all_pairs", "size", "apart", "sensitivity", "dial", "batch", "vary", "repeats", "RunOptions", "MeasureOptions",
    ])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    resumable: ResumeOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let began = Nanos::monotonic_now();
    if !args.measure.dry_run {
        args.resumable.format.table.check(&run_tables::INTERFERENCE_COLUMNS)?;
    }
    if let Some(path) = &args.resume {
        return runs::resume("colocate", path, &args.resumable, began);
    }
    args.resumable.check_new()?;
    let (manifest, footprints) = prepare(args)?;
    if args.measure.dry_run {
        return dry_run(&manifest, &args.resumable.format);
    }
    runs::begin(("colocate", began), args.run.out.as_deref(), &manifest, &footprints, &args.resumable)
}

fn prepare(args: &Args) -> anyhow::Result<(Manifest, Footprints)> {
    let (has_jobs, has_commands) = (!args.jobs.is_empty(), !args.measure.cmd.is_empty());
    let (catalog, pool) = args.measure.resolve(&args.run, &args.jobs, has_commands)?;
    if !has_jobs && !has_commands {
        bail!("name two jobs, as in `profile colocate lstm vae`; `profile list` shows the workloads");
    }
    let kinds = JobKinds::named(&catalog, &args.jobs, has_commands);
    args.measure.check_use(&args.run, kinds)?;
    args.measure.check_first_step_timeout(has_jobs)?;
    if let Some(job) = args.jobs.iter().find(|job| args.apart && job.device.is_some()) {
        bail!("--apart chooses the device of each job, and job '{job}' names its own; remove one of them");
    }
    let modes = modes(args)?;
    let mut settings = args.measure.settings(&args.run, args.repeats, has_jobs);
    settings.surroundings = args.measure.surroundings(&args.run, &pool, kinds.programs)?;
    settings.budget_s = args.resumable.budget.map(|budget| budget.as_secs_f64());
    let surroundings = settings.surroundings.clone().unwrap_or_default();
    let commands = || args.measure.cmd.iter().map(|CommandLine(argv)| &argv[..]);
    let vary = Varied::new(&args.vary)?;
    vary.check_used(commands(), &catalog, &args.jobs)?;
    if args.batch.is_some() && !has_commands {
        bail!(
            "--batch is the number of samples in a step of programs, and none is named; name the batch of a job in it, as in lstm@b64"
        );
    }
    args.measure.check_batch(args.batch.is_some())?;
    let programs = users_programs::programs(&catalog, commands(), &args.measure.name, args.batch, &vary)?;
    let mut estimates = Estimates::new(&settings, args.run.seed);
    let company = match (args.all_pairs, args.size, args.sensitivity) {
        (true, ..) => Company::Every(2),
        (_, Some(size), _) => Company::Every(size.into()),
        (_, _, true) => {
            let (names, others) = stressors(&catalog, &args.dial)?;
            settings.stressors = names;
            Company::Beside(others)
        }
        _ => Company::All,
    };
    let request = GroupRequest {
        jobs: &args.jobs,
        programs: &programs,
        vary: &vary,
        surroundings: &surroundings,
        company,
        apart: args.apart,
        modes: &modes,
        pool: &pool,
    };
    let (cells, groups) = groups::of(&catalog, &request, &mut estimates)?;
    if let [only] = &groups[..]
        && let Some(reason) = &only.unsupported
    {
        return Err(Exit::Usage.because(format!("{} cannot run here: {reason}", only.name)));
    }
    args.measure.check_cells(&cells)?;
    let request = RunRequest { cells, groups, settings, seed: args.run.seed, tags: args.run.tags.clone() };
    Ok((manifest::make(&catalog, request)?, estimates.footprints()))
}

fn modes(args: &Args) -> anyhow::Result<Vec<Sharing>> {
    let mut modes = Vec::new();
    for mode in &args.sharing {
        if *mode == Sharing::Alone {
            bail!(
                "--sharing alone: every block measures each job alone already; name another mode, or remove the option"
            );
        }
        if args.sensitivity && *mode == Sharing::Sequential {
            bail!(
                "--sensitivity needs slowdowns, and {mode} has none; name another mode, or remove --sharing"
            );
        }
        if modes.contains(mode) {
            bail!("--sharing names {mode} twice; name each mode once");
        }
        modes.push(mode.clone());
    }
    if modes.is_empty() {
        modes.push(Sharing::TIME_SLICE);
    }
    Ok(modes)
}

/// The names of all stressors, and a job for each stressor at each intensity.
fn stressors(catalog: &Catalog, dial: &[u32]) -> anyhow::Result<(Vec<String>, Vec<Job>)> {
    let names: Vec<String> = catalog.set(STRESSORS).map(|workload| workload.name.clone()).collect();
    if names.is_empty() {
        bail!("--sensitivity: the catalog has no workloads in the set {STRESSORS}");
    }
    let dial = if dial.is_empty() { &[25, 50, 75, 100] } else { dial };
    let at = |workload: &String, percent: u32| Job {
        workload: workload.clone(),
        global_batch: Some(percent),
        plan: None,
        device: None,
    };
    let jobs = names.iter().flat_map(|name| dial.iter().map(move |&percent| at(name, percent))).collect();
    Ok((names, jobs))
}

fn dry_run(manifest: &Manifest, format: &RunFormat) -> anyhow::Result<Exit> {
    if format.json {
        output::print(rows::to_json(&manifest.groups))?;
        return Ok(Exit::Ok);
    }
    let repeats = manifest.settings.repeats;
    format.table.print(&run_tables::of_groups(&manifest.groups, repeats))?;
    format.table.layout().print(&run_tables::of_cells("alone", &manifest.cells, 2 * repeats))?;
    match blocks::estimate(manifest) {
        Some(time) => output::print(format_args!("about {time} in all"))?,
        None => output::print("how long it takes depends on the steps or the program")?,
    }
    Ok(Exit::Ok)
}
