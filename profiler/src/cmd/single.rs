//! `profile single`: jobs, each alone on its device.

mod grid;

use std::{path::PathBuf, time::Duration};

use anyhow::bail;
use cli::{heading, options::RunOptions};
use jobs::{
    catalog_programs,
    cells::{self, Grid, Plans},
    command_line::CommandLine,
    manifest::{self, RunRequest},
    plans::Estimates,
    users_programs,
    vary::{Varied, VariedName},
    workload_lookup,
};
use record::{
    manifest::{Cell, Manifest, Settings},
    rows::{self, JobTable},
};
use rig::{Exit, output};
use schema::{catalog::Catalog, footprint::Footprints, job::Job, plan::Plan, units::Nanos};

use super::{
    options::{JobKinds, MeasureOptions, ResumeOptions, RunFormat, positive},
    runs,
};
use crate::{blocks, run_tables};

/// The budget of a run with `--ci` and without `--budget`.
const DEFAULT_BUDGET: Duration = Duration::from_secs(3600);

/// Measure jobs, each alone on its device.
///
/// Every cell of JOBS x batches x plans is launched once per block, in an order drawn from the seed, for as many blocks as
/// there are repeats. A launch is measured from its steady state on. The run directory holds every event and sample;
/// measurements.csv has a row per launch with the interval within the launch, summary.csv a row per cell with the interval
/// between launches. In the printed table, the plans and batches of a workload are sorted by speed, the fastest first.
///
/// --cmd and the command after -- name unmodified programs of your own. If such a program uses Python and trains with PyTorch,
/// a hook in it reports its steps, and it is measured like a job. If its output shows its steps, --steps-regex finds them
/// there. Any other program is measured from outside, if it ends by itself: its run time and its use of resources. The column timing has the source
/// of the step times.
///
/// Example: `profile single resnet50@b64 gpt2@bf16 --device cuda:0 --repeats 5`
///
/// Example: `profile single resnet18-cifar --plan all --device cpu:0 --seconds 5`
///
/// Example: `profile single set:quick --device cpu:0 --steps 10`
///
/// Example: `profile single lstm --ci 1 --budget 20m`
///
/// Example: `profile single --grid next.csv --device cpu:0,cpu:1 --repeats 2`
///
/// Example: `profile single --seconds 10 --device cuda:0 -- python3 train.py --epochs 1`
///
/// Example: `profile single --repeats 3 --cwd project --env SEED={repeat} -- python3 train.py --out {launch}/results`
///
/// Example: `profile single --name small --batch 64 --prepare "rm -rf cache" -- python3 train.py --batch 64`
///
/// Example: `profile single --seconds 10 --vary workers=0,2,4 -- python3 train.py --workers {workers}`
///
/// Example: `profile single lstm --cmd "python3 train.py" --cmd "python3 train.py --amp" --steps 200`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Jobs to measure: `WORKLOAD[@bN][@PLAN][@on=DEVICE]`, or `set:NAME` for all workloads of a set.
    jobs: Vec<Job>,
    /// Plans to cross with the jobs that name none, or `all` for all plans that are valid and fit.
    ///
    /// The memory of plans that are named is estimated before the first launch, from a few steps of a few samples, and is in
    /// the column memory_estimate_bytes. If no plan is named, memory is estimated only where the device may be too small.
    #[arg(long, value_name = "P,..|all", value_delimiter = ',')]
    plan: Vec<PlanOrAll>,
    /// Global batches to cross with the jobs that name no batch. Without jobs, the number of samples in a step of the programs.
    ///
    /// Samples are counted over all ranks of a program. The rows then have the global batch and samples/s.
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    batch: Vec<u32>,
    /// A CSV file whose column `job` names the jobs to measure, as `sched fit --suggest` writes it.
    ///
    /// Each job is measured once, however many lines name it. A column `devices` has to be the number of devices of the plan; other
    /// columns have no meaning here. A table of `profile export` is such a file, too.
    #[arg(long, help_heading = heading::JOBS, value_name = "FILE", conflicts_with_all = ["jobs", "command", "cmd", "plan", "batch"])]
    grid: Option<PathBuf>,
    /// Values for a name in braces in the commands of programs, as lr=0.1,0.01 for {lr}. May be given for several names.
    ///
    /// Each combination of values is a job, as `train lr=0.1 width=64`. It has a column vary in the tables. Names of the definition of
    /// a program are those in its [program.defaults]. {{lr}} is the text {lr}.
    #[arg(long, help_heading = heading::JOBS, value_name = "NAME=V,..")]
    vary: Vec<VariedName>,
    /// Launches of each cell; with --ci, the smallest number.
    #[arg(short = 'n', long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Repeat until the interval of the median step between launches has a half-width of PCT percent, for an hour or --budget.
    ///
    /// The interval is looked at after every launch, and one that is narrow by luck ends the cell: an interval at which a cell
    /// ended contains the truth less often than 95 times in 100. Simulated with 1 % between launches (standard deviation) and
    /// --repeats 3 it is 95 times at PCT 2 and 92 at PCT 1, and with 2 % between launches 90 at PCT 1; with --repeats 5 it is 95,
    /// 94 and 92. The 95 % of an interval hold for a number of launches that was chosen before, with --repeats alone.
    #[arg(long, value_name = "PCT", value_parser = positive)]
    ci: Option<f64>,
    /// Record the operators of N steps of each cell with PyTorch's profiler, in a launch of its own after all others.
    ///
    /// No other number comes from this launch. Its traces are in the folder operators/ of the run, for Perfetto, and operators.csv has
    /// the time of each operator, and the part of the time in which the device was idle. The recording begins after ten steps.
    #[arg(long, help_heading = heading::JOBS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    operators: Option<u32>,
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    measure: MeasureOptions,
    /// Go on with a run that was interrupted: measures only what is missing.
    ///
    /// The budget starts anew. --data and --catalog keep their paths. A run is not resumed with another version of Tandem,
    /// libtorch or the GPU driver, after a restart of the machine, or with programs or files of another folder.
    #[arg(long, value_name = "RUN", conflicts_with_all = [
        "jobs", "grid", "command", "plan", "batch", "vary", "repeats", "ci", "operators", "RunOptions",
        "MeasureOptions",
    ])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    resumable: ResumeOptions,
    /// A program of your own and its arguments.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["jobs", "cmd"])]
    command: Vec<String>,
}

impl Args {
    /// The user's programs, from `--cmd` and after `--`.
    fn commands(&self) -> impl Iterator<Item = &[String]> {
        let after_dashes = Some(&self.command[..]).filter(|argv| !argv.is_empty());
        self.measure.cmd.iter().map(|CommandLine(argv)| &argv[..]).chain(after_dashes)
    }
}

#[derive(Clone, Debug)]
enum PlanOrAll {
    Plan(Plan),
    All,
}

impl std::str::FromStr for PlanOrAll {
    type Err = schema::plan::PlanError;
    fn from_str(s: &str) -> Result<PlanOrAll, Self::Err> {
        if s == "all" { Ok(PlanOrAll::All) } else { s.parse().map(PlanOrAll::Plan) }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let began = Nanos::monotonic_now();
    if !args.measure.dry_run {
        args.resumable.format.table.check(&run_tables::SUMMARY_COLUMNS)?;
    }
    if let Some(path) = &args.resume {
        return runs::resume("single", path, &args.resumable, began);
    }
    args.resumable.check_new()?;
    let (manifest, footprints) = prepare(args)?;
    if args.measure.dry_run {
        return dry_run(&manifest, &args.resumable.format);
    }
    runs::begin(("single", began), args.run.out.as_deref(), &manifest, &footprints, &args.resumable)
}

/// The manifest of the run, and the footprints that its estimates were made from.
fn prepare(args: &Args) -> anyhow::Result<(Manifest, Footprints)> {
    let table = args.grid.as_deref().map(grid::read).transpose()?;
    let of_table = |table: &JobTable| table.rows.iter().map(|row| row.job.clone()).collect();
    let jobs: Vec<Job> = table.as_ref().map_or_else(|| args.jobs.clone(), of_table);
    let (has_jobs, has_commands) = (!jobs.is_empty(), args.commands().next().is_some());
    let (catalog, pool) = args.measure.resolve(&args.run, &jobs, has_commands)?;
    if let Some(table) = &table {
        grid::check(table, &catalog)?;
    }
    if !has_jobs && !has_commands {
        bail!("name a job, as in `profile single resnet18-cifar`; `profile list` shows the workloads");
    }
    let vary = Varied::new(&args.vary)?;
    vary.check_used(args.commands(), &catalog, &jobs)?;
    if !args.plan.is_empty() && !has_jobs {
        bail!("--plan applies to jobs only, and none is named; remove it");
    }
    if !has_jobs {
        check_batch_of_programs(args)?;
    }
    let kinds = JobKinds::named(&catalog, &jobs, has_commands);
    args.measure.check_use(&args.run, kinds)?;
    args.measure.check_first_step_timeout(has_jobs || args.operators.is_some())?;
    let budget = args.resumable.budget.or(args.ci.map(|_| DEFAULT_BUDGET));
    let settings = Settings {
        ci_percent: args.ci,
        budget_s: budget.map(|budget| budget.as_secs_f64()),
        surroundings: args.measure.surroundings(&args.run, &pool, kinds.programs)?,
        operators: args.operators,
        ..args.measure.settings(&args.run, args.repeats, has_jobs)
    };
    let mut estimates = Estimates::new(&settings, args.run.seed);
    let mut cells = cells::alone(&catalog, &jobs, &axes(args, &vary)?, &pool, Some(&mut estimates))?;
    let surroundings = settings.surroundings.clone().unwrap_or_default();
    let global_batch = args.batch.first().copied().filter(|_| !has_jobs);
    for program in
        users_programs::programs(&catalog, args.commands(), &args.measure.name, global_batch, &vary)?
    {
        cells.push(users_programs::cell(&program, &pool[0], &surroundings)?);
    }
    catalog_programs::check(&cells, &catalog, &surroundings)?;
    cells::distinct(&cells)?;
    if let [only] = &cells[..]
        && let Some(reason) = &only.unsupported
    {
        return Err(Exit::Usage.because(format!("{} cannot run here: {reason}", only.name)));
    }
    args.measure.check_cells(&cells)?;
    if args.operators.is_some() {
        check_operators(&cells, &catalog, &settings)?;
    }
    let request =
        RunRequest { cells, groups: Vec::new(), settings, seed: args.run.seed, tags: args.run.tags.clone() };
    Ok((manifest::make(&catalog, request)?, estimates.footprints()))
}

/// Checks that PyTorch computes in all cells, and that the step hook may be in those that are programs.
fn check_operators(cells: &[Cell], catalog: &Catalog, settings: &Settings) -> anyhow::Result<()> {
    if settings.steps_regex.is_some() {
        bail!(
            "--operators: the step hook records operators, and --steps-regex leaves it out; remove one of them"
        );
    }
    for cell in cells.iter().filter(|cell| cell.command.is_none()) {
        let model = &workload_lookup::workload(catalog, &cell.workload)?.model;
        if model.worker() != "torch-worker" {
            bail!("--operators: {} computes without PyTorch and has no operators; leave it out", cell.job);
        }
    }
    Ok(())
}

/// Checks that --batch has one number for programs, and that no pattern captures the number of samples.
fn check_batch_of_programs(args: &Args) -> anyhow::Result<()> {
    if args.batch.len() > 1 {
        bail!("--batch: without jobs it is the number of samples of a step of the programs; name one number");
    }
    args.measure.check_batch(!args.batch.is_empty())
}

fn axes(args: &Args, vary: &Varied) -> anyhow::Result<Grid> {
    let grid = Grid { batches: args.batch.clone(), vary: vary.clone(), ..Grid::default() };
    let mut plans = Vec::new();
    for plan in &args.plan {
        match plan {
            PlanOrAll::Plan(plan) => plans.push(*plan),
            PlanOrAll::All if args.plan.len() == 1 => {
                return Ok(Grid { plans: Plans::All, ..grid });
            }
            PlanOrAll::All => bail!("--plan all cannot be combined with other plans; remove these"),
        }
    }
    let plans = if plans.is_empty() { Plans::Default } else { Plans::Named(plans) };
    Ok(Grid { plans, ..grid })
}

fn dry_run(manifest: &Manifest, format: &RunFormat) -> anyhow::Result<Exit> {
    if format.json {
        output::print(rows::to_json(&manifest.cells))?;
        return Ok(Exit::Ok);
    }
    let fewest = blocks::fewest_launches(&manifest.settings);
    format.table.print(&run_tables::of_cells("cell", &manifest.cells, fewest))?;
    match (blocks::estimate(manifest), manifest.settings.ci_percent) {
        (Some(time), None) => output::print(format_args!("about {time} in all"))?,
        (Some(time), Some(_)) => {
            output::print(format_args!("at least {time}, and until the interval is reached"))?
        }
        (None, _) => output::print("how long it takes depends on the steps or the program")?,
    }
    Ok(Exit::Ok)
}
