//! What every command that measures jobs is asked, and what it does with the answer: one home for options that mean the same.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use cli::{agree, table};
use jobs::{
    cells::{self, CommandLine},
    manifest, pool, run,
};
use rig::{Exit, interrupt::Interrupt, output};
use schema::{
    catalog::Catalog,
    device::Device,
    footprint::Footprints,
    job::Job,
    manifest::{Cell, Manifest, Settings},
    rows::{self, Status, Summary},
    run_dir::RunDir,
    spec::Collectives,
    units::{HumanBytes, Nanos},
};

use crate::{cores, derive::Derived, fastest, measure, run_tables, warnings};

/// How long a job may say nothing where no other time is named.
const HEARTBEAT: Duration = Duration::from_secs(120);

/// Steady time of a launch where jobs are measured and neither a time nor steps are named.
const SECONDS: f64 = 10.0;

/// How jobs are run, on what, and where it is written down.
#[derive(clap::Args)]
pub(super) struct Asked {
    /// A program and its arguments, beside the jobs; split as a shell would, and never given to one. It takes the first device.
    #[arg(long, value_name = "COMMAND")]
    pub(super) cmd: Vec<CommandLine>,
    /// Matches each line of the programs' output that ends a step, as '^step \d+'; then the hook for PyTorch is left out.
    ///
    /// A step ends when its line is seen. Python is told to write each line as it is printed; other programs may have to be
    /// told, as by `stdbuf -oL`. The program cannot be held between two steps.
    #[arg(long, value_name = "REGEX", value_parser = cells::steps_regex)]
    steps_regex: Option<String>,
    /// Devices to take ranks from, in this order. Without it, the best that is present.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    /// Memory of each CPU device, as 2GiB [default: its share of the machine's].
    ///
    /// What is estimated to need more is not started. The tensors of a rank are held to it as a GPU holds them to
    /// its own: an allocation beyond it ends the job as out of memory. Only tensors count, not the program itself.
    #[arg(long, value_name = "SIZE")]
    memory: Option<HumanBytes>,
    /// Steady time of each launch [default: 10; without a job, that is of programs alone: until they end].
    ///
    /// A program that has taken no step after this time is measured from outside: `single` ends it then, `colocate` lets it come
    /// to its end. Where it has loaded PyTorch, or --steps-regex is given, its first step is waited for, for five minutes at
    /// most; with --steps, for as long as it takes.
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Steady steps of each launch, instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Cores of the host for each job on GPUs, all of its ranks together, near its GPUs.
    ///
    /// A core counts once with all its hyperthreads. Jobs that are measured together have cores of their own, and the harness
    /// keeps off them; where there are too few, their rows say cores-shared. Without it each rank has as many as there are for
    /// each of those that are measured together at most, alone too, and one is left to the harness.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus_per_job: Option<u32>,
    /// Threads of each rank [default: the cores that it has; programs of your own get it only where it is given].
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
    /// The silence after which a job is ended as hung [default: 2m; without a limit for programs that are measured until they end].
    ///
    /// A program of your own is held to it from its first step on. Between two steps it may test its model: one that uses a
    /// twentieth of a core or more is not ended.
    #[arg(long, value_name = "TIME", value_parser = heartbeat)]
    heartbeat: Option<Duration>,
    /// Decides the order of a block, the initial weights and the data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Directory of the run [default: runs/<utc time>-<command>-<hash>].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show what would be launched and an estimate of the time, and measure nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// What can be asked of a run that goes on, too.
#[derive(clap::Args)]
pub(super) struct Anew {
    /// With --resume: start the programs that the run names without asking.
    #[arg(long)]
    yes: bool,
    /// The time after which no launch is started. The time that estimates of memory take counts.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) budget: Option<Duration>,
    /// Print the table as JSON.
    #[arg(long)]
    pub(super) json: bool,
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

impl Asked {
    /// Refuses options that say something of what is not there.
    pub(super) fn check_use(&self, has_jobs: bool, has_commands: bool) -> anyhow::Result<()> {
        let of_jobs = [
            ("--memory", self.memory.is_some()),
            ("--data", self.data.is_some()),
            ("--offload-threads", self.offload_threads.is_some()),
            ("--collectives", self.collectives.is_some()),
            ("--catalog", !self.catalog.is_empty()),
        ];
        let option = of_jobs.into_iter().find_map(|(name, is_given)| is_given.then_some(name));
        if let Some(option) = option.filter(|_| !has_jobs) {
            bail!("{option} says something of jobs alone, and none is named; drop it");
        }
        if self.steps_regex.is_some() && !has_commands {
            bail!(
                "--steps-regex says something of programs alone; name one with --cmd, or after -- in `profile single`"
            );
        }
        Ok(())
    }

    /// The catalog, and the devices of jobs that name none and of programs.
    pub(super) fn resolve(&self, jobs: &[Job], has_commands: bool) -> anyhow::Result<(Catalog, Vec<Device>)> {
        let catalog = Catalog::open(&self.catalog)?;
        run::check_data(self.data.as_deref())?;
        let jobs_of_pool = if has_commands { &[] } else { jobs };
        let pool = pool::of_jobs(jobs_of_pool, &self.device, self.collectives)?;
        let own = jobs.iter().filter_map(|job| job.device.as_ref());
        pool::check_memory(self.memory, pool.iter().chain(own))?;
        Ok((catalog, pool))
    }

    /// The settings of a run. `repeats` is the number of launches of each cell in each of its places of a block.
    pub(super) fn settings(&self, repeats: u32, has_jobs: bool) -> Settings {
        let counted = self.steps.is_some();
        let seconds = self.seconds.or((!counted && has_jobs).then_some(SECONDS));
        let to_their_end = !counted && seconds.is_none();
        Settings {
            repeats,
            seconds,
            steps: self.steps,
            heartbeat_s: self
                .heartbeat
                .or((!to_their_end).then_some(HEARTBEAT))
                .map(|time| time.as_secs_f64()),
            threads: self.threads,
            cpus_per_job: self.cpus_per_job,
            data: self.data.clone(),
            loaders: self.loaders,
            offload_threads: self.offload_threads,
            collectives: self.collectives,
            steps_regex: self.steps_regex.clone(),
            memory_bytes: self.memory.map(|HumanBytes(bytes)| bytes),
            catalogs: self.catalog.clone(),
            ..Settings::default()
        }
    }

    /// Refuses options that no cell of the run has a use for.
    pub(super) fn check_cells(&self, cells: &[Cell]) -> anyhow::Result<()> {
        let offloads = cells.iter().any(|cell| cell.plan.is_some_and(|plan| plan.offload));
        if self.offload_threads.is_some() && !offloads {
            bail!("--offload-threads: no plan of this run has offload; name one, as in gpt2@offload");
        }
        self.cpus_per_job.map_or(Ok(()), |cores| check_cpus_per_job(cores, cells))
    }
}

fn check_cpus_per_job(cores: u32, cells: &[Cell]) -> anyhow::Result<()> {
    let on_gpus = |cell: &&Cell| cell.devices.iter().any(|device| matches!(device, Device::Cuda(_)));
    let Some(largest) = cells.iter().filter(on_gpus).max_by_key(|cell| cell.devices.len()) else {
        bail!(
            "--cpus-per-job: a job on a CPU device has the cores of its device; name those with --device, or a GPU"
        );
    };
    let (ranks, found) = (largest.devices.len(), cores::count()?);
    if (cores as usize) < ranks {
        bail!(
            "--cpus-per-job {cores}: {} has {ranks} ranks, each of which takes a core; give it more",
            largest.job
        );
    }
    if cores as usize > found {
        bail!("--cpus-per-job {cores}: this program may use {found} cores; give each job fewer");
    }
    Ok(())
}

/// Begins a run of a command, which began its work at that time, in its directory, and measures it.
pub(super) fn begin(
    (command, began): (&str, Nanos),
    asked: &Asked,
    manifest: &Manifest,
    footprints: &Footprints,
    json: bool,
) -> anyhow::Result<Exit> {
    let path = asked.out.clone().unwrap_or_else(|| manifest::directory(command, manifest));
    // From here on there is a run, which a signal ends in order.
    let _interrupt = Interrupt::listen().context("signals cannot be listened to")?;
    let run = RunDir::create(&path)?;
    run.write_manifest(manifest)?;
    if !footprints.measured.is_empty() {
        run.write_footprints(footprints)?;
    }
    measure((command, began), &run, manifest, json)
}

/// Goes on with a run that `command` began.
pub(super) fn resume(command: &str, path: &Path, anew: &Anew, began: Nanos) -> anyhow::Result<Exit> {
    let run = RunDir::open(path)?;
    let mut manifest = run.manifest()?;
    measure::can_go_on(&run, &manifest, command)?;
    agree::to_start(agree::programs_of(&manifest), anew.yes)?;
    if let Some(budget) = anew.budget {
        manifest.settings.budget_s = Some(budget.as_secs_f64());
    }
    measure((command, began), &run, &manifest, anew.json)
}

impl Anew {
    /// Refuses what only a run that goes on can be asked.
    ///
    /// # Errors
    /// `--yes`.
    pub(super) fn check_new(&self) -> anyhow::Result<()> {
        if self.yes {
            bail!("--yes answers a question that only --resume asks; drop it");
        }
        Ok(())
    }
}

fn measure(
    (command, began): (&str, Nanos),
    run: &RunDir,
    manifest: &Manifest,
    json: bool,
) -> anyhow::Result<Exit> {
    let catalog = Catalog::open(&manifest.settings.catalogs)?;
    let outcome = measure::measure(run, manifest, &catalog, began)?;
    show(run, &outcome.derived, json)?;
    if !outcome.missing.launches.is_empty() {
        output::note("not measured:");
        for launch in &outcome.missing.launches {
            output::note(format_args!("  {launch}"));
        }
        output::note(format_args!("go on with: profile {command} --resume {}", run.path().display()));
    }
    Ok(outcome.exit)
}

fn show_alone(summaries: &[Summary]) -> anyhow::Result<()> {
    let ranked = fastest::ranked(summaries);
    table::print(&run_tables::of_summaries(&ranked))?;
    fastest::lines(&ranked).into_iter().try_for_each(output::print)
}

/// Prints what a run shows, and where it lies.
pub(super) fn show(run: &RunDir, derived: &Derived, json: bool) -> anyhow::Result<Exit> {
    match (json, derived.is_of_groups()) {
        (true, true) => output::print(rows::to_json(&derived.interference))?,
        (true, false) => output::print(rows::to_json(&derived.summaries))?,
        (false, true) => table::print(&run_tables::of_interference(&derived.interference))?,
        (false, false) => show_alone(&derived.summaries)?,
    }
    let mut tables = vec![run.measurements_path(), run.summary_path()];
    if derived.is_of_groups() {
        tables.push(run.interference_path());
    }
    warnings::lines(&derived.findings, &tables).iter().for_each(output::note);
    output::note(format_args!("run: {}", run.path().display()));
    let failed = derived.measurements.iter().any(|row| row.status != Status::Ok);
    Ok(if failed { Exit::SomeFailed } else { Exit::Ok })
}
