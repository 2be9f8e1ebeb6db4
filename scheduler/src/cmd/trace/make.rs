//! `sched trace make`: draws the jobs of a trace from the catalog, or from names alone.

use std::{
    path::PathBuf,
    str::FromStr,
    time::{Duration, SystemTime},
};

use anyhow::{bail, ensure};
use clap::ArgGroup;
use cli::heading;
use formats::trace::{Trace, TraceRow};
use jobs::workload_lookup;
use rig::Exit;
use schema::{
    catalog::{Catalog, CatalogEntry, CatalogProgram},
    job::Job,
    units::Nanos,
};

use super::{super::above_zero, Clock, Shaped, positive, step_times::StepTimes};
use crate::trace_generator::{
    self, Arrivals, JobKind, Length, Recipe, Recurring, Unit, VirtualClusterShare, searches,
};

/// Draw jobs, their arrivals and their lengths.
///
/// All random numbers come from --seed. Arrivals, jobs, lengths, virtual clusters, priorities and recurring jobs have separate streams of
/// them, so that a change of arrivals alone keeps the jobs and their lengths.
///
/// A length that is a time is that of a job alone on what it asks for. The number of steps follows from --table or --step-time.
///
/// Example: `sched trace make any=3 other --jobs 200 --every 20s --length exponential:60s --step-time 250ms --out trace.csv`
///
/// Example: `sched trace make any --jobs 200 --every 20s --length fixed:60s --step-time 250ms --vc a=3,b --priority 0=9,1`
///
/// Example: `sched trace make any@dp1=9 any@dp8 --jobs 5000 --every 60s --length log-normal:5m:2 --longest 14d --step-time 1s
/// --recurring 500 --users 50 --start 2020-09-01T00:00:00Z --nights 0.5`
///
/// Example: `sched trace make any@dp1=9 any@dp64=1:log-normal:1h:1 --jobs 5000 --every 60s --length log-normal:5m:2 --step-time 1s --vc
/// small=1:8,large=3:8..64 --stratified`
///
/// Example: `sched trace make any --jobs 3 --every 1h --length fixed:2000 --step-time 1s --learning-rates 0.1,0.01,0.001`
///
/// Example: `sched trace make ddp=2 ddp@b8@dp2 gpt2-mini --jobs 20 --every 20s --length fixed:60s --table runs/alone --catalog
/// workloads/programs/ddp.toml`
///
/// Example: `sched trace make set:quick --jobs 200 --load 0.9 --devices 2 --length log-normal:60s:1.2 --table runs/alone`
#[derive(clap::Args)]
#[command(group(ArgGroup::new("arrive").args(["every", "arrivals", "load"]).required(true).multiple(true)))]
pub(super) struct Args {
    /// Workloads or programs to draw from, as `NAME[@bN][@PLAN][=WEIGHT]`, or sets, as `set:NAME[=WEIGHT]`, whose members share the
    /// weight. A distribution after a further colon (`any@dp64=1:log-normal:1h:1`) replaces --length for the jobs of this entry.
    #[arg(required = true, value_name = "JOB")]
    mix: Vec<Weighted>,
    /// The number of jobs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
    /// The mean time between arrivals, which are a Poisson process.
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    every: Option<Duration>,
    /// A trace whose arrivals are used, in order.
    #[arg(long, value_name = "TRACE", conflicts_with = "every")]
    arrivals: Option<PathBuf>,
    /// The distribution of lengths: fixed:L, exponential:MEAN or log-normal:MEDIAN:SIGMA, with times such as 30s or steps such as
    /// 1000.
    #[arg(long, value_name = "DISTRIBUTION")]
    length: Length,
    /// The longest length, as a time or a number of steps as in --length.
    #[arg(long, help_heading = heading::JOBS, value_name = "LENGTH")]
    longest: Option<String>,
    /// Draw the jobs of the mix, their lengths, and the virtual clusters of jobs of similar length as stratified samples: of N lengths, one is
    /// among the shortest Nth of the distribution, and so on. The work of a trace and of its virtual clusters then depends little on the
    /// seed, also if few long jobs are most of it.
    #[arg(long, help_heading = heading::JOBS)]
    stratified: bool,
    /// The number of recurring jobs of which jobs are instances: column `recurring_job`. Jobs of one recurring job ask for the same.
    #[arg(long, help_heading = heading::USERS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    recurring: Option<u32>,
    /// The number of users, each of whom has some of the recurring jobs: column `user`.
    #[arg(long, help_heading = heading::USERS, value_name = "N", default_value_t = 1, requires = "recurring", value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// The share of the variance of lengths (of their logarithms, if they are log-normal) that is between recurring jobs: with 1, all
    /// instances of one take the same time, and with 0, nothing can be learned from them.
    #[arg(long, help_heading = heading::USERS, value_name = "SHARE", default_value_t = 0.5, requires = "recurring", value_parser = share)]
    alike: f64,
    /// The seed of the recurring jobs. Traces with the same one, the same mix and the same numbers of recurring jobs and users have the
    /// same recurring jobs, so that one can be the history of the other [default: --seed].
    #[arg(long, help_heading = heading::USERS, value_name = "N", requires = "recurring")]
    recurring_seed: Option<u64>,
    /// Date and time of the start, such as 2020-09-01T00:00:00Z: column `submit_utc`.
    #[arg(long, help_heading = heading::USERS, value_name = "DATE", value_parser = humantime::parse_rfc3339)]
    start: Option<SystemTime>,
    /// The rate of arrivals from 0 to 8 o'clock over that of the other hours, in UTC; without --start, a trace starts at midnight. A day as
    /// a whole has as many arrivals as without it.
    #[arg(long, help_heading = heading::USERS, value_name = "RATE", value_parser = positive)]
    nights: Option<f64>,
    /// A run that measured the jobs alone; repeatable.
    #[arg(long, value_name = "RUN", conflicts_with = "step_time")]
    table: Vec<PathBuf>,
    /// The type of device whose step times are used, as the table names it [default: the only one in the table].
    #[arg(long, help_heading = heading::JOBS, value_name = "TYPE", requires = "table")]
    device_type: Option<String>,
    /// The time of a step of all jobs. It is written into the trace: the jobs can be simulated without a table, and need not be in
    /// the catalog.
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    step_time: Option<Duration>,
    /// Allow policies to give jobs another number of devices and another plan than they ask for.
    #[arg(long)]
    elastic: bool,
    /// The smallest number of devices of an elastic job.
    #[arg(long, help_heading = heading::JOBS, value_name = "N", requires = "elastic", value_parser = clap::value_parser!(u32).range(1..))]
    min_devices: Option<u32>,
    /// The largest number of devices of an elastic job.
    #[arg(long, help_heading = heading::JOBS, value_name = "N", requires = "elastic", value_parser = clap::value_parser!(u32).range(1..))]
    max_devices: Option<u32>,
    /// The number of cores of the host that each job asks for, for each rank.
    #[arg(long, help_heading = heading::JOBS, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,
    /// Virtual clusters to draw from, as NAME[=WEIGHT][:DEVICES], separated by commas. One with DEVICES has only jobs of as many at most,
    /// or within a range such as 16..128.
    #[arg(long, help_heading = heading::USERS, value_name = "NAME[=WEIGHT][:DEVICES],..", value_delimiter = ',')]
    vc: Vec<VirtualClusterShare>,
    /// Priorities to draw from, as N[=WEIGHT], separated by commas; a larger number is more important.
    #[arg(long, help_heading = heading::USERS, value_name = "N[=WEIGHT],..", value_delimiter = ',', allow_hyphen_values = true)]
    priority: Vec<Priority>,
    /// Make a search over learning rates of each job: one member for each rate, in columns `search` and `learning_rate`.
    #[arg(long, help_heading = heading::JOBS, value_name = "RATE,..", value_delimiter = ',', value_parser = positive)]
    learning_rates: Vec<f64>,
    #[command(flatten)]
    shaped: Shaped,
    /// The seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A file with additional workloads and programs.
    #[arg(long, help_heading = heading::JOBS, value_name = "FILE")]
    catalog: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let catalog = Catalog::open(&args.catalog)?;
    let step_times = StepTimes::read(&args.table, args.device_type.as_deref())?;
    let arrivals = match &args.arrivals {
        Some(path) => Arrivals::Replayed(Trace::read(path)?.rows.iter().map(|row| row.submit_s).collect()),
        // With --load alone, the mean does not matter: the arrivals are scaled afterwards.
        None => Arrivals::Poisson { mean_gap_s: args.every.unwrap_or(Duration::from_secs(1)).as_secs_f64() },
    };
    let recipe = Recipe {
        mix: mix(args, &catalog)?,
        virtual_clusters: args.vc.clone(),
        priorities: args.priority.iter().map(|priority| (priority.number, priority.weight)).collect(),
        jobs: args.jobs as usize,
        arrivals,
        unit: args.length.unit,
        longest: args.longest.as_deref().map(|longest| args.length.unit.parse(longest)).transpose()?,
        stratified: args.stratified,
        recurring: args.recurring.map(|jobs| Recurring {
            jobs,
            users: args.users,
            share: args.alike,
            seed: args.recurring_seed,
        }),
        seed: args.seed,
    };
    let drawn = trace_generator::make(&recipe, |row| step_times.step_ns(row))?;
    let rows = || -> Box<dyn Iterator<Item = TraceRow>> {
        match &args.learning_rates[..] {
            [] => Box::new(drawn.rows()),
            rates => Box::new(searches(drawn.rows(), rates)),
        }
    };
    let clock = Clock { start: args.start, nights: args.nights };
    args.shaped.write(args.shaped.shape(rows, clock, |row| step_times.step_ns(row))?, Vec::new())
}

/// A share from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("'{text}' is no share; write a number from 0 to 1, such as 0.5"))
}

/// A job or a set of the catalog, its weight in the draw, and its lengths if they are its own.
#[derive(Clone, Debug)]
struct Weighted {
    job: Job,
    weight: f64,
    length: Option<Length>,
}

impl FromStr for Weighted {
    type Err = String;

    fn from_str(text: &str) -> Result<Weighted, String> {
        let (job, weight, length) = match text.rsplit_once('=') {
            Some((job, rest)) if !job.ends_with("@on") => match rest.split_once(':') {
                Some((weight, length)) => (job, positive(weight)?, Some(length.parse()?)),
                None => (job, positive(rest)?, None),
            },
            _ => (text, 1.0, None),
        };
        let job: Job = job.parse().map_err(|error| format!("{error}"))?;
        match &job.device {
            Some(device) => {
                Err(format!("the job names {device}, but the policy chooses devices; remove @on="))
            }
            None => Ok(Weighted { job, weight, length }),
        }
    }
}

/// A priority and its weight in the draw.
#[derive(Clone, Debug)]
struct Priority {
    number: i32,
    weight: f64,
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Priority, String> {
        let (number, weight) = match text.rsplit_once('=') {
            Some((number, weight)) => (number, positive(weight)?),
            None => (text, 1.0),
        };
        if number.is_empty() {
            return Err("write a number before the weight, such as 1=3".into());
        }
        Ok(Priority { number: number.parse().map_err(|error| format!("'{number}': {error}"))?, weight })
    }
}

/// One line with its weight for each job that can be drawn. Jobs of the catalog are spelled in full.
fn mix(args: &Args, catalog: &Catalog) -> anyhow::Result<Vec<JobKind>> {
    let step_ns = args.step_time.map(|time| Nanos::from(time).0);
    let line = |job: Job| {
        let row = TraceRow {
            job: Some(job),
            elastic: args.elastic,
            min_devices: args.min_devices,
            max_devices: args.max_devices,
            cpus: args.cpus,
            step_ns,
            ..TraceRow::default()
        };
        match (row.out_of_bounds(row.devices()), &row.job) {
            (Some((column, problem)), Some(job)) => {
                bail!("job '{job}': --{} {problem}", column.replace('_', "-"))
            }
            _ => Ok(row),
        }
    };
    let mut mix = Vec::new();
    for Weighted { job, weight, length } in &args.mix {
        let length = length.unwrap_or(args.length);
        ensure!(
            length.unit == args.length.unit,
            "job '{job}': its lengths are {}, and those of --length are {}; write both alike",
            unit_of(length),
            unit_of(args.length)
        );
        let lengths = length.distribution;
        if step_ns.is_some()
            && catalog.entry(&job.workload).is_none()
            && !workload_lookup::is_set(&job.workload)
        {
            mix.push(JobKind { row: line(job.clone())?, weight: *weight, lengths });
            continue;
        }
        let entries = workload_lookup::entries(catalog, &job.workload)?;
        let weight = weight / entries.len() as f64;
        for entry in entries {
            let global_batch = job.global_batch.unwrap_or(entry.global_batch());
            let plan = job.plan.unwrap_or(entry.plan());
            if let Some(reason) = entry.refuses(&plan, global_batch) {
                bail!("job '{job}': {reason}");
            }
            if let CatalogEntry::Program(program) = entry {
                check_program(program, args)?;
            }
            let workload = entry.name().to_owned();
            let job = Job { workload, global_batch: Some(global_batch), plan: Some(plan), device: None };
            mix.push(JobKind { row: line(job)?, weight, lengths });
        }
    }
    Ok(mix)
}

/// Checks that jobs of a program can have the columns that the options write.
fn check_program(program: &CatalogProgram, args: &Args) -> anyhow::Result<()> {
    let name = &program.name;
    if args.elastic
        && let Some(why) = program.keeps_its_plan()
    {
        bail!("--elastic: {name} keeps its plan: {why}; make a trace of its jobs without --elastic");
    }
    ensure!(
        args.learning_rates.is_empty(),
        "--learning-rates applies to workloads that Tandem trains, and {name} is a program; leave out the option or the program"
    );
    Ok(())
}

fn unit_of(length: Length) -> &'static str {
    match length.unit {
        Unit::Steps => "numbers of steps",
        Unit::Seconds => "times",
    }
}
