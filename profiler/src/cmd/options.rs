//! The options of the commands that measure jobs: one type for those of several commands.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use cli::{
    agree::Yes,
    heading,
    options::{HEARTBEAT, RunOptions},
    table::TableOptions,
};
use jobs::{
    command_line::{self, CommandLine},
    pool,
    surroundings::{self, Variable},
};
use record::manifest::{Cell, Settings};
use rig::{StepPattern, check_shell};
use schema::{catalog::Catalog, device::Device, job::Job, spec::Collectives, surroundings::Surroundings};

use crate::cores;

/// The default of `--seconds` where jobs are measured and `--steps` is not given.
const SECONDS: f64 = 10.0;

/// The options of `single` and `colocate` for a run that they begin, beside [`RunOptions`].
#[derive(clap::Args)]
pub(super) struct MeasureOptions {
    /// A program of your own and its arguments, measured in addition to the jobs. It takes the first device. The text is split
    /// as a shell splits it, but no shell runs it.
    #[arg(long, value_name = "COMMAND")]
    pub(super) cmd: Vec<CommandLine>,
    /// The name of a program of your own in tables, figures and comparisons, in place of a name that is made from its command.
    ///
    /// With several --cmd, give one name for each, in their order. A name begins with a letter and has up to 40 letters, digits and
    /// any of -_. Names of workloads and names that begin with cmd- are refused.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "NAME")]
    pub(super) name: Vec<String>,
    /// A regular expression for the lines of a program's output that end a step, as '^step (\d+)'. The hook for PyTorch is then
    /// not used.
    ///
    /// A group captures the number of the step: a line ends as many steps as the number has grown since the line before. Without
    /// such a group, each line ends one step. A group named loss captures the loss, as in '(?<loss>[\d.]+)', and a group named
    /// samples the samples of a step. Other groups do not capture: (?:..).
    ///
    /// A step ends when its line is read. Python is made to write each line as it is printed; for other programs that may need
    /// a wrapper such as `stdbuf -oL`, or `stdbuf -o0` if lines end in a carriage return. The program cannot be held between two steps.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "REGEX", value_parser = command_line::steps_regex)]
    steps_regex: Option<String>,
    /// A file that programs of your own read from stdin, each launch from its beginning. Without it, their stdin is empty.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The folder in which programs of your own run. Paths in their commands count from there.
    ///
    /// --cwd overrides `folder` of a definition. Paths of options count from the folder of this command. In COMMAND, --cwd and
    /// the values of --env, three words in braces are filled in for each launch: {launch} is an empty folder in the run, for
    /// the files of the program, which stay there. {repeat} is the number of the repeat from 0, and {run} the directory of
    /// the run. {{launch}} is the text {launch}. All other braces are the program's own.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "DIR")]
    cwd: Option<String>,
    /// A variable of the environment of programs of your own, as KEY=VALUE. May be given several times.
    ///
    /// Programs inherit the other variables of this command. Modules that PYTHONPATH names come after the step hook. The run
    /// records the value: keep a secret in a variable of your shell.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "KEY=VALUE")]
    env: Vec<Variable>,
    /// A command before each launch of a program of your own, run by `sh -c`. Its time is not measured.
    ///
    /// It has the folder, the variables and the words in braces of the program, and as much time as `single` gives a program for its
    /// first step. If it fails, the program is not started, and the launch has failed.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "CMD")]
    prepare: Option<String>,
    /// A command after each launch of a program of your own, run like the command of --prepare, however the launch has ended.
    ///
    /// If it fails, the row has the warning cleanup. After Ctrl-C it has ten seconds.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "CMD")]
    cleanup: Option<String>,
    /// Steady time of each launch, as 2, 0.5 or 500ms [default: 10; if only programs are measured, they run until they end].
    ///
    /// The time before the first step of a program is not measured: `single` waits for this step, up to --first-step-timeout.
    /// A program without steps has to end by itself, and `colocate` lets it run to its end.
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Steady steps of each launch, instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// The time in which a program of your own must take its first step [default: 30m].
    ///
    /// It applies with --seconds, --steps or --operators; in `colocate` to programs in a group that take steps alone. It is the limit of --prepare
    /// and --cleanup, too. A program that has taken no step by then is ended, and the launch has failed.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "TIME", value_parser = positive_time)]
    first_step_timeout: Option<Duration>,
    /// Cores of the host for each job on GPUs, for all of its ranks together, near its GPUs.
    ///
    /// A core counts once, with all of its hyperthreads. Jobs that are measured together have separate cores, which the harness
    /// does not use; if there are too few cores, their rows have the warning cores-shared. By default, one core is left to the
    /// harness, and the others are divided by the largest number of ranks that are measured together. A rank that is measured
    /// alone has the same number of cores.
    #[arg(long, help_heading = heading::DEVICES, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus_per_job: Option<u32>,
    /// Threads of each rank that read and decode batches of --data ahead of the training thread.
    ///
    /// With 0, the training thread makes each batch when it needs it. Batches are the same for every N. These threads share the
    /// cores of the rank's device with training, and their CPU time counts as the job's.
    #[arg(long, help_heading = heading::DEVICES, value_name = "N", default_value_t = 0, requires = "data", value_parser = clap::value_parser!(u32).range(..=64))]
    loaders: u32,
    /// Threads of each rank for the optimizer's step on the host, under plans with offload [default: --threads].
    #[arg(long, help_heading = heading::DEVICES, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    offload_threads: Option<u32>,
    /// The library that moves tensors between ranks: gloo or nccl [default: gloo for CPU devices, nccl for GPUs].
    ///
    /// With gloo, GPUs exchange tensors through host memory, and ranks may share a device: --device may name it several times.
    #[arg(long, help_heading = heading::DEVICES, value_name = "LIBRARY")]
    collectives: Option<Collectives>,
    /// Show what would be launched and an estimate of the time, and begin no run.
    ///
    /// The memory of jobs is estimated as for a run: where it is not known, a few steps may be trained to measure it.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// The options of `single` and `colocate` that --resume takes, too.
#[derive(clap::Args)]
pub(super) struct ResumeOptions {
    #[command(flatten)]
    pub(super) yes: Yes,
    /// The time after which no launch is started. It includes the time for estimates of memory.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) budget: Option<Duration>,
    #[command(flatten)]
    pub(super) format: RunFormat,
    /// Exit with 1 if the verdict of the run is "do not quote", for example because other programs used the device.
    #[arg(long, help_heading = heading::RUN, conflicts_with = "dry_run")]
    pub(super) strict: bool,
}

/// How the table of a run is printed.
#[derive(clap::Args)]
pub(super) struct RunFormat {
    /// Print the table as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Print each warning, and not each kind of warning once.
    #[arg(short, long, help_heading = heading::PRINTED)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) table: TableOptions,
}

/// The kinds of jobs and programs that the user names.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobKinds {
    /// Jobs: workloads that Tandem trains itself, or programs of the catalog.
    pub(super) jobs: bool,
    pub(super) workloads: bool,
    /// Programs of the user's, from the catalog or from the command line.
    pub(super) programs: bool,
    /// Programs from the command line.
    pub(super) commands: bool,
}

impl JobKinds {
    pub(super) fn named(catalog: &Catalog, jobs: &[Job], has_commands: bool) -> JobKinds {
        let is_program = |job: &Job| catalog.program(&job.workload).is_some();
        JobKinds {
            jobs: !jobs.is_empty(),
            workloads: !jobs.iter().all(is_program),
            programs: has_commands || jobs.iter().any(is_program),
            commands: has_commands,
        }
    }
}

/// A time in seconds that is an argument, as `2`, `2.5` or `500ms`, and is above 0.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let with_unit = || humantime::parse_duration(text).ok().map(|time| time.as_secs_f64());
    match text.parse().ok().or_else(with_unit) {
        Some(seconds) if seconds > 0.0 && f64::is_finite(seconds) => Ok(seconds),
        _ => Err("expected seconds above 0, such as 2, 0.5 or 500ms".into()),
    }
}

/// A number that is an argument, and is above 0.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number above 0".into()),
    }
}

/// A time that is an argument, and is above 0.
fn positive_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time > Duration::ZERO => Ok(time),
        Ok(_) => Err("expected a time above 0".into()),
        Err(error) => Err(error.to_string()),
    }
}

impl MeasureOptions {
    /// Refuses options that apply to jobs or to programs only, if the run has none of these.
    pub(super) fn check_use(&self, run: &RunOptions, kinds: JobKinds) -> anyhow::Result<()> {
        let of_jobs = [
            ("--memory", run.memory.is_some()),
            ("--data", run.data.is_some()),
            ("--offload-threads", self.offload_threads.is_some()),
            ("--collectives", self.collectives.is_some()),
            ("--catalog", !run.catalog.is_empty() && !kinds.jobs),
        ];
        let option = of_jobs.into_iter().find_map(|(name, is_given)| is_given.then_some(name));
        if let Some(option) = option.filter(|_| !kinds.workloads) {
            if kinds.jobs {
                bail!("{option} does not apply to programs, and no other job is named; remove it");
            }
            bail!("{option} applies to jobs only, and none is named; remove it");
        }
        let of_programs = [
            ("--steps-regex", self.steps_regex.is_some()),
            ("--input", self.input.is_some()),
            ("--cwd", self.cwd.is_some()),
            ("--env", !self.env.is_empty()),
            ("--prepare", self.prepare.is_some()),
            ("--cleanup", self.cleanup.is_some()),
            ("--first-step-timeout", self.first_step_timeout.is_some()),
        ];
        if !self.name.is_empty() && !kinds.commands {
            bail!("--name applies to programs only; name one with --cmd, or after -- in `profile single`");
        }
        let option = of_programs.into_iter().find_map(|(name, is_given)| is_given.then_some(name));
        if let Some(option) = option.filter(|_| !kinds.programs) {
            bail!("{option} applies to programs only; name one with --cmd, or after -- in `profile single`");
        }
        Ok(())
    }

    /// The catalog, and the devices of programs and of jobs that name no device.
    pub(super) fn resolve(
        &self,
        run: &RunOptions,
        jobs: &[Job],
        has_commands: bool,
    ) -> anyhow::Result<(Catalog, Vec<Device>)> {
        let catalog = Catalog::open(&run.catalog)?;
        jobs::run::check_data(run.data.as_deref())?;
        jobs::run::check_input(self.input.as_deref())?;
        let jobs_of_pool = if has_commands { &[] } else { jobs };
        let pool = pool::of_jobs(jobs_of_pool, &run.device, self.collectives)?;
        let own = jobs.iter().filter_map(|job| job.device.as_ref());
        pool::check_memory(run.memory, pool.iter().chain(own))?;
        Ok((catalog, pool))
    }

    /// Whether lines of output have the samples of a step.
    pub(super) fn captures_samples(&self) -> bool {
        let pattern = self.steps_regex.as_deref().map(StepPattern::parse);
        pattern.is_some_and(|pattern| pattern.is_ok_and(|pattern| pattern.has_samples()))
    }

    /// Refuses a number of samples in a step of programs, if there is one, where a pattern captures this number.
    pub(super) fn check_batch(&self, is_given: bool) -> anyhow::Result<()> {
        if is_given && self.captures_samples() {
            bail!("--batch: a group of --steps-regex captures the samples of each step; remove one of them");
        }
        Ok(())
    }

    /// The surroundings of the programs of a run, which take the first device of the pool; `None` if it has no programs.
    ///
    /// # Errors
    /// There is no such folder, or a variable or a command cannot be chosen.
    pub(super) fn surroundings(
        &self,
        run: &RunOptions,
        pool: &[Device],
        has_commands: bool,
    ) -> anyhow::Result<Option<Surroundings>> {
        if !has_commands {
            return Ok(None);
        }
        let commands = [("--prepare", &self.prepare), ("--cleanup", &self.cleanup)];
        for (option, text) in commands.into_iter().filter_map(|(option, text)| Some((option, text.as_ref()?)))
        {
            if text.trim().is_empty() {
                bail!("{option}: expected a command");
            }
            // A run without --out is made in the current folder.
            let out = run.out.as_deref().unwrap_or(Path::new("."));
            if let Err(why) = check_shell(text, out) {
                bail!("{option}: {why}");
            }
        }
        let (prepare, cleanup) = (self.prepare.clone(), self.cleanup.clone());
        let surroundings =
            Surroundings { prepare, cleanup, ..surroundings::make(self.cwd.as_deref(), &self.env)? };
        let sets = (run.threads.is_some(), self.steps_regex.is_some());
        surroundings::check_variables(&surroundings, &pool[0], sets)?;
        Ok(Some(surroundings))
    }

    /// The settings of a run. `repeats` is the number of launches of each cell at each of its places in a block.
    pub(super) fn settings(&self, run: &RunOptions, repeats: u32, has_jobs: bool) -> Settings {
        let counted = self.steps.is_some();
        let seconds = self.seconds.or((!counted && has_jobs).then_some(SECONDS));
        let to_their_end = !counted && seconds.is_none();
        let heartbeat = run.heartbeat.or((!to_their_end).then_some(HEARTBEAT));
        Settings {
            repeats,
            seconds,
            steps: self.steps,
            first_step_timeout_s: self.first_step_timeout.map(|time| time.as_secs_f64()),
            heartbeat_s: heartbeat.map(|time| time.as_secs_f64()),
            cpus_per_job: self.cpus_per_job,
            loaders: self.loaders,
            offload_threads: self.offload_threads,
            collectives: self.collectives,
            steps_regex: self.steps_regex.clone(),
            input: self.input.clone(),
            ..run.settings()
        }
    }

    /// Refuses `--first-step-timeout` where no program is waited for. `waits` says whether the run waits for steps whatever these options say.
    pub(super) fn check_first_step_timeout(&self, waits: bool) -> anyhow::Result<()> {
        let waits = waits || self.seconds.is_some() || self.steps.is_some();
        if self.first_step_timeout.is_some() && !waits && self.prepare.is_none() && self.cleanup.is_none() {
            bail!(
                "--first-step-timeout: a program without --seconds and --steps runs to its end; add one of them"
            );
        }
        Ok(())
    }

    /// Refuses options that apply to no cell of the run.
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
            "--cpus-per-job: a job on a CPU device has the cores of its device; choose these with --device, or name a GPU"
        );
    };
    let (ranks, found) = (largest.devices.len(), cores::count()?);
    if (cores as usize) < ranks {
        bail!(
            "--cpus-per-job {cores}: {} has {ranks} ranks, and each needs a core; give it at least {ranks}",
            largest.job
        );
    }
    if cores as usize > found {
        bail!("--cpus-per-job {cores}: this program may use {found} cores; give each job fewer");
    }
    Ok(())
}

impl ResumeOptions {
    /// Refuses options that apply to a resumed run only.
    ///
    /// # Errors
    /// `--yes` was given.
    pub(super) fn check_new(&self) -> anyhow::Result<()> {
        self.yes.check_absent("--resume")
    }
}
