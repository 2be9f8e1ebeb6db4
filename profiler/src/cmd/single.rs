//! `profile single`: each job alone on its device.

use std::{path::PathBuf, time::Duration};

use anyhow::bail;
use regex::bytes::Regex;
use schema::{
    device::Device,
    footprint::Footprints,
    job::Job,
    manifest::{Manifest, Settings},
    plan::Plan,
    rows::{self, Status},
    run_dir::RunDir,
    spec::Collectives,
    units::{HumanBytes, Nanos},
};

use super::{Exit, list};
use crate::{
    blocks,
    cells::{self, CommandLine, Grid, Plans},
    derive::Derived,
    plans::Estimates,
    pool,
    run::{self, Request},
    table,
};

/// A budget where an interval is asked for and no budget is named.
const DEFAULT_BUDGET: Duration = Duration::from_secs(3600);

/// How long a job may say nothing where no other time is named.
const HEARTBEAT: Duration = Duration::from_secs(120);

/// Measure jobs, each alone on its device.
///
/// Every cell of JOBS x batches x plans is launched once a block, in an order drawn from the seed,
/// for as many blocks as there are repeats. A launch is measured from its steady state on. The run
/// directory holds every event and sample; measurements.csv has a row a launch with the interval
/// within it, summary.csv a row a cell with the interval between launches.
///
/// --cmd and what stands after -- are programs of your own, unmodified. Where one is Python's and trains with PyTorch, its
/// steps are found by a hook in it, and it is measured like a job; where its output shows its steps, --steps-regex finds them
/// there; any other is measured from outside: how long it runs, what it uses. The column timing says which it was.
///
/// Example: `profile single resnet50@b64 gpt2@bf16 --device cuda:0 --repeats 5`
///
/// Example: `profile single resnet18-cifar --plan all --device cpu:0 --seconds 5`
///
/// Example: `profile single set:quick --device cpu:0 --steps 10`
///
/// Example: `profile single lstm --ci 1 --budget 20m`
///
/// Example: `profile single --seconds 10 --device cuda:0 -- python3 train.py --epochs 1`
///
/// Example: `profile single lstm --cmd "python3 train.py" --cmd "python3 train.py --amp" --steps 200`
#[derive(clap::Args)]
pub(super) struct Args {
    /// What to measure: `WORKLOAD[@bN][@PLAN][@on=DEVICE]`, or `set:NAME` for all workloads of a set.
    jobs: Vec<Job>,
    /// A program and its arguments, beside the jobs; split as a shell would, and never given to one. It takes the first device.
    #[arg(long, value_name = "COMMAND")]
    cmd: Vec<CommandLine>,
    /// Matches each line of the programs' output that ends a step, as '^step \d+'; then the hook for PyTorch is left out.
    ///
    /// A step ends when its line is seen. Python is told to write each line as it is printed; other programs may have to be
    /// told, as by `stdbuf -oL`. The program cannot be held between two steps.
    #[arg(long, value_name = "REGEX", value_parser = steps_regex)]
    steps_regex: Option<String>,
    /// Plans to cross with the jobs that name none, or `all` that are valid and fit.
    ///
    /// The memory of plans that are named is estimated before anything starts, by a few steps of a few samples, and stands
    /// in the column memory_estimate_bytes. Without a name of a plan that is done only where the device may be too small.
    #[arg(long, value_name = "P,..|all", value_delimiter = ',')]
    plan: Vec<PlanOrAll>,
    /// Global batches to cross with the jobs that name none.
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    batch: Vec<u32>,
    /// Devices to take ranks from, in this order. Without it, the best that is present.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    /// Memory of each CPU device, as 2GiB [default: its share of the machine's].
    ///
    /// A plan that is estimated to need more is not started. The tensors of a rank are held to it as a GPU holds them to
    /// its own: an allocation beyond it ends the job as out of memory. Only tensors count, not the program itself.
    #[arg(long, value_name = "SIZE")]
    memory: Option<HumanBytes>,
    /// Launches of each cell; with --ci the fewest.
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Steady time of each launch [default: 10; without a job, that is of programs alone: until they end].
    ///
    /// A program that has taken no step after so long is ended and measured from outside. Where it has loaded PyTorch, or
    /// --steps-regex is given, its first step is waited for, for five minutes at most; with --steps, for as long as it takes.
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Steady steps of each launch, instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Repeat until the interval of the step time between launches has a half-width of PCT percent.
    #[arg(long, value_name = "PCT", value_parser = seconds)]
    ci: Option<f64>,
    /// Start no launch after so long, in which estimates of memory count [default with --ci: 1h].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    budget: Option<Duration>,
    /// Threads of each rank [default: the cores of its device; programs of your own are told of it only where it is given].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Folder with real data, instead of the seeded synthetic stream.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Threads of each rank that read and decode batches of --data ahead of the training thread.
    ///
    /// With 0 the training thread makes each batch when it needs it. Batches are the same for every N. The threads share
    /// the cores of the rank's device with training, and count to the job's CPU time.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "data", value_parser = clap::value_parser!(u32).range(..=64))]
    loaders: u32,
    /// Threads of each rank for the optimizer's step on the host, under plans with offload [default: --threads].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    offload_threads: Option<u32>,
    /// Who moves tensors between ranks: gloo or nccl [default: gloo for CPU devices, nccl for GPUs].
    ///
    /// With gloo, GPUs exchange through host memory, and several ranks may share one GPU.
    #[arg(long, value_name = "LIBRARY")]
    collectives: Option<Collectives>,
    /// A file of further workloads.
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// A job that says nothing for so long is ended as hung [default: 2m; of programs that are measured until they end: none].
    ///
    /// A program of your own is held to it from its first step on: it may test its model between two steps.
    #[arg(long, value_name = "TIME", value_parser = heartbeat)]
    heartbeat: Option<Duration>,
    /// Decides the order of cells, the initial weights and the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory of the run [default: runs/<utc time>-single-<hash>].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with a run that was interrupted: measures only what is missing.
    ///
    /// The budget begins anew. --data and --catalog are taken from the same folder as at first.
    #[arg(long, value_name = "RUN", conflicts_with_all = [
        "jobs", "cmd", "command", "steps_regex", "plan", "batch", "device", "memory", "repeats", "seconds", "steps",
        "ci", "threads", "data", "loaders", "offload_threads", "collectives", "catalog", "heartbeat", "seed", "out", "dry_run",
    ])]
    resume: Option<PathBuf>,
    /// Show the cells and an estimate of the time, and measure nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    /// A program of your own and its arguments.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["jobs", "cmd"])]
    command: Vec<String>,
}

impl Args {
    /// The programs of the user's.
    fn commands(&self) -> impl Iterator<Item = &[String]> {
        let after_dashes = Some(&self.command[..]).filter(|argv| !argv.is_empty());
        self.cmd.iter().map(|CommandLine(argv)| &argv[..]).chain(after_dashes)
    }

    /// An option that was given and says something of jobs alone.
    fn option_of_jobs(&self) -> Option<&'static str> {
        let options = [
            ("--plan", !self.plan.is_empty()),
            ("--batch", !self.batch.is_empty()),
            ("--memory", self.memory.is_some()),
            ("--data", self.data.is_some()),
            ("--offload-threads", self.offload_threads.is_some()),
            ("--collectives", self.collectives.is_some()),
            ("--catalog", !self.catalog.is_empty()),
        ];
        options.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
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

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("a number above 0 is wanted".into()),
    }
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time >= Duration::from_secs(1) => Ok(time),
        Ok(_) => Err("a second is the shortest".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn steps_regex(text: &str) -> Result<String, String> {
    Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn run(args: Args) -> anyhow::Result<Exit> {
    let began = Nanos::monotonic_now();
    if let Some(path) = &args.resume {
        let run = RunDir::open(path)?;
        let mut manifest = run.manifest()?;
        run::can_go_on(&run, &manifest)?;
        if let Some(budget) = args.budget {
            manifest.settings.budget_s = Some(budget.as_secs_f64());
        }
        return measure(&run, &manifest, began, args.json);
    }
    let (manifest, footprints) = prepare(&args)?;
    if args.dry_run {
        return dry_run(&manifest, args.json);
    }
    let path = args.out.clone().unwrap_or_else(|| run::directory("single", &manifest));
    let run = RunDir::create(&path)?;
    run.write_manifest(&manifest)?;
    if !footprints.measured.is_empty() {
        run.write_footprints(&footprints)?;
    }
    measure(&run, &manifest, began, args.json)
}

/// What is to be measured, and what the estimates in it were made from.
fn prepare(args: &Args) -> anyhow::Result<(Manifest, Footprints)> {
    let catalog = list::open(&args.catalog)?;
    if let Some(data) = args.data.as_ref().filter(|data| !data.is_dir()) {
        bail!("--data {}: there is no such folder; leave it out for synthetic data", data.display());
    }
    let no_commands = args.commands().next().is_none();
    let jobs_of_pool = if no_commands { &args.jobs[..] } else { &[] };
    let pool = pool::of_jobs(jobs_of_pool, &args.device, args.collectives)?;
    let own = args.jobs.iter().filter_map(|job| job.device.as_ref());
    pool::check_memory(args.memory, pool.iter().chain(own))?;
    let settings = settings(args);
    let mut estimates = Estimates::new(&settings, args.seed);
    if args.jobs.is_empty() && no_commands {
        bail!("name a job, as in `profile single resnet18-cifar`; `profile list` shows what there is");
    }
    if let Some(option) = args.option_of_jobs().filter(|_| args.jobs.is_empty()) {
        bail!("{option} says something of jobs alone, and none is named; drop it");
    }
    if args.steps_regex.is_some() && no_commands {
        bail!("--steps-regex says something of programs alone; name one with --cmd, or after --");
    }
    let mut cells = cells::alone(&catalog, &args.jobs, &grid(args)?, &pool, Some(&mut estimates))?;
    for argv in args.commands() {
        cells.push(cells::command(argv, &pool[0])?);
    }
    cells::distinct(&cells)?;
    if let [only] = &cells[..]
        && let Some(reason) = &only.unsupported
    {
        return Err(Exit::Usage.because(format!("{} cannot run here: {reason}", only.name)));
    }
    if args.offload_threads.is_some() && !cells.iter().any(|cell| cell.plan.is_some_and(|plan| plan.offload))
    {
        bail!("--offload-threads: no plan of this run has offload; name one, as in --plan offload");
    }
    let manifest = run::manifest(&catalog, Request { cells, groups: Vec::new(), settings, seed: args.seed })?;
    Ok((manifest, estimates.footprints()))
}

fn settings(args: &Args) -> Settings {
    let (programs_alone, counted) = (args.jobs.is_empty(), args.steps.is_some());
    let seconds = args.seconds.or((!counted && !programs_alone).then_some(10.0));
    let to_their_end = !counted && seconds.is_none();
    Settings {
        repeats: args.repeats,
        seconds,
        steps: args.steps,
        ci_percent: args.ci,
        budget_s: args.budget.or(args.ci.map(|_| DEFAULT_BUDGET)).map(|budget| budget.as_secs_f64()),
        heartbeat_s: args.heartbeat.or((!to_their_end).then_some(HEARTBEAT)).map(|time| time.as_secs_f64()),
        threads: args.threads,
        data: args.data.clone(),
        loaders: args.loaders,
        offload_threads: args.offload_threads,
        collectives: args.collectives,
        steps_regex: args.steps_regex.clone(),
        memory_bytes: args.memory.map(|HumanBytes(bytes)| bytes),
        stressors: Vec::new(),
        catalogs: args.catalog.clone(),
    }
}

fn grid(args: &Args) -> anyhow::Result<Grid> {
    let mut plans = Vec::new();
    for plan in &args.plan {
        match plan {
            PlanOrAll::Plan(plan) => plans.push(*plan),
            PlanOrAll::All if args.plan.len() == 1 => {
                return Ok(Grid { batches: args.batch.clone(), plans: Plans::All });
            }
            PlanOrAll::All => bail!("--plan all stands alone; drop the plans beside it"),
        }
    }
    let plans = if plans.is_empty() { Plans::Default } else { Plans::Named(plans) };
    Ok(Grid { batches: args.batch.clone(), plans })
}

fn dry_run(manifest: &Manifest, json: bool) -> anyhow::Result<Exit> {
    if json {
        println!("{}", rows::to_json(&manifest.cells));
        return Ok(Exit::Ok);
    }
    let fewest = blocks::fewest_launches(&manifest.settings);
    let mut cells = table::new(&["cell", "memory", "launches"]);
    for cell in &manifest.cells {
        let launches = match &cell.unsupported {
            Some(reason) => format!("none: {reason}"),
            None => fewest.to_string(),
        };
        let memory = table::or_dash(cell.memory_estimate_bytes.map(HumanBytes));
        cells.add_row([cell.name.clone(), memory, launches]);
    }
    table::print(&cells);
    match (blocks::estimate(manifest), manifest.settings.ci_percent) {
        (Some(time), None) => println!("about {time} in all"),
        (Some(time), Some(_)) => println!("at least {time}, and until the interval is reached"),
        (None, _) => println!("how long it takes depends on the steps or the program"),
    }
    Ok(Exit::Ok)
}

fn measure(run: &RunDir, manifest: &Manifest, began: Nanos, json: bool) -> anyhow::Result<Exit> {
    let catalog = list::open(&manifest.settings.catalogs)?;
    let outcome = run::measure(run, manifest, &catalog, began)?;
    show(run, &outcome.derived, json)?;
    if !outcome.missing.launches.is_empty() {
        eprintln!("not measured:");
        for launch in &outcome.missing.launches {
            eprintln!("  {launch}");
        }
        eprintln!("go on with: profile single --resume {}", run.path().display());
    }
    Ok(outcome.exit)
}

/// Prints what a run shows, and where it lies.
pub(super) fn show(run: &RunDir, derived: &Derived, json: bool) -> anyhow::Result<Exit> {
    if json {
        println!("{}", rows::to_json(&derived.summaries));
    } else {
        table::print(&table::of_summaries(&derived.summaries));
    }
    for finding in &derived.findings {
        eprintln!("warning: {finding}");
    }
    eprintln!("run: {}", run.path().display());
    let failed = derived.measurements.iter().any(|row| row.status != Status::Ok);
    Ok(if failed { Exit::SomeFailed } else { Exit::Ok })
}
