//! `sched sim`: a trace on a cluster that is not there, under one policy or several.

mod nodes;
mod policies;
mod progress;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use clap::ArgGroup;
use profiler::{
    pool,
    run::{self, Observed, Request},
    table,
};
use rig::{Exit, output, sampler::SamplerCost};
use schema::{
    catalog::Catalog,
    device::Device,
    manifest::{Manifest, Scheduling, Settings, Simulated},
    rows::{self, Outcome, Status, Totals},
    run_dir::RunDir,
    units::Nanos,
};

use self::{nodes::Nodes, progress::Progress};
use super::{above_zero, rules::Rules, some_jobs};
use crate::{
    cluster::ClusterError,
    inputs,
    journal::{Decisions, FirstRefusal, Journal, Unrecorded},
    online::{self, RunInputs},
    sim::{self, Sim, SwitchCosts},
    totals::totals,
};

/// Simulate a trace under one policy or several.
///
/// Jobs take as long as the tables of --table say, alone, packed and next to each other on a node; a job that the table does not
/// know takes as long as its trace says, and cannot be packed. Where a time is not known, the simulation ends with an error that names it. The policies
/// decide as they would for real jobs, and believe the same tables.
///
/// What it costs to take a job's devices away and to give it devices comes from --machine, drawn with the spread that was measured;
/// --switch-cost says it for jobs of which nothing was measured. One of the two is needed.
///
/// With --out, each policy leaves a run: outcomes.csv with a row a job, and decisions.jsonl, which `sched replay` decides again.
///
/// Example: `sched sim trace.csv --policy fifo,srtf,tiresias:60s --cluster 1x4 --switch-cost 5s --out runs/sim`
///
/// Example: `sched sim trace.csv --policy packing-fifo --device cpu:0,cpu:1 --table runs/pairs --machine machine.toml`
///
/// Example: `sched sim philly-trace.csv --policy tiresias --cluster 311x8,1x2 --switch-cost 62s`
#[derive(clap::Args)]
#[command(group(ArgGroup::new("devices").args(["cluster", "device"]).required(true)))]
pub(super) struct Args {
    /// Which jobs arrive when: a CSV file, as `sched trace` makes them.
    trace: PathBuf,
    #[arg(long, value_name = "POLICY,..", required = true, help = super::policies(
        "Who decides; several are joined by commas, and a program of yours is given by an option of its own"
    ))]
    policy: Vec<String>,
    /// Nodes of the cluster, as NODESxDEVICES[:TYPE] [default TYPE: the only one that the tables have, or else GPU].
    #[arg(long, value_name = "NODES,..", value_delimiter = ',')]
    cluster: Vec<Nodes>,
    /// Devices of this machine as the cluster.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    #[command(flatten)]
    rules: Rules,
    /// Make each launch faster or slower by chance: the standard deviation of its step time, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    noise: f64,
    /// The mean time between failures of a device. Times are drawn from an exponential distribution.
    #[arg(long, value_name = "TIME", value_parser = above_zero, requires = "device_repair_time")]
    device_mtbf: Option<Duration>,
    /// The mean time from the failure of a device to its return.
    #[arg(long, value_name = "TIME", value_parser = above_zero, requires = "device_mtbf")]
    device_repair_time: Option<Duration>,
    /// The mean running time of a job between crashes of its own.
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    job_mtbf: Option<Duration>,
    /// The interval between reports to the policy of how far each job has come [default: a report when a switch ends].
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    progress_every: Option<Duration>,
    /// Decides all that happens by chance.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for the run; of several policies each has one below it, named after it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let names = policies::named(&args.policy)?;
    let mut inputs = RunInputs::new(manifest(args, &names[0])?, &args.trace, &args.rules.table)?;
    some_jobs(&inputs, &args.trace)?;
    inputs.check_times()?;
    let costs = online::costs(args.rules.machine.as_deref(), args.rules.switch_cost.map(Nanos::from))?;
    let costs =
        costs.with_context(|| format!("what switches cost is not known; {}", inputs.calibrate_first()))?;
    // What is wrong with the trace is said before there is a directory.
    let truth = Box::new(inputs.table.clone());
    drop(Sim::new(&inputs.topology, &inputs.asked, truth, &*costs, sim::Settings::default())?);
    let mut all = Vec::new();
    let mut exit = Exit::Ok;
    for name in &names {
        if let Some(scheduling) = &mut inputs.manifest.scheduling {
            scheduling.policy.clone_from(name);
        }
        let out = args.out.as_ref().map(|out| match names.len() {
            1 => out.clone(),
            _ => out.join(policies::folder(name)),
        });
        let (outcomes, is_whole) =
            simulate(args, &inputs, &*costs, out.as_deref()).with_context(|| format!("policy {name}"))?;
        if !is_whole || outcomes.iter().any(|row| row.status != Status::Ok) {
            exit = Exit::SomeFailed;
        }
        all.push(totals(name, &outcomes, inputs.topology.devices()));
    }
    if args.json {
        output::print(rows::to_json(&all))?
    } else {
        show(&all)?
    }
    Ok(exit)
}

fn manifest(args: &Args, policy: &str) -> anyhow::Result<Manifest> {
    let catalog = Catalog::open(&args.rules.catalog)?;
    let pool = match args.device.is_empty() {
        true => Vec::new(),
        false => pool::resolve(&args.device, None)?,
    };
    let settings =
        Settings { catalogs: args.rules.catalog.clone(), heartbeat_s: None, ..Settings::default() };
    let request = Request { cells: Vec::new(), groups: Vec::new(), settings, seed: args.seed };
    let mut manifest = run::manifest_on("sched", &pool, &catalog, request)?;
    online::by_type(&mut manifest.devices);
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    manifest.scheduling = Some(Scheduling {
        simulated: Some(Simulated {
            noise_percent: args.noise,
            device_up_s: seconds(args.device_mtbf),
            device_down_s: seconds(args.device_repair_time),
            launch_up_s: seconds(args.job_mtbf),
            nodes: nodes::typed(&args.cluster, &inputs::table(&args.rules.table)?)?,
        }),
        ..args.rules.scheduling(policy, args.progress_every)
    });
    Ok(manifest)
}

/// Simulates under the policy of the manifest: the outcomes, and whether all jobs came to an end.
fn simulate(
    args: &Args,
    inputs: &RunInputs,
    costs: &dyn SwitchCosts,
    out: Option<&Path>,
) -> anyhow::Result<(Vec<Outcome>, bool)> {
    let observed = Observed::from_now();
    let run = out.map(RunDir::create).transpose()?;
    let mut journal: Box<dyn Journal> = match &run {
        None => Box::new(Unrecorded),
        Some(run) => {
            online::keep_inputs(run, &args.trace, &args.rules.table, args.rules.machine.as_deref())?;
            run.write_manifest(&inputs.manifest)?;
            Box::new(Decisions::open(&run.decisions_path())?)
        }
    };
    let mut progress = Progress::new(&mut *journal, inputs);
    let mut refusal = FirstRefusal::new(&mut progress);
    let (outcomes, ended) = online::simulate(inputs, costs, &mut refusal)?;
    let is_whole = match ended {
        Ok(()) => true,
        Err(error @ ClusterError::Stuck { .. }) => {
            output::note(format_args!("error: {error}{}", refusal.told()));
            false
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(run) = run {
        rows::write(&run.outcomes_path(), &outcomes)?;
        let failed: Vec<String> =
            outcomes.iter().filter(|row| row.end_ns.is_none()).map(|row| row.name.clone()).collect();
        let exit = if is_whole { Exit::Ok } else { Exit::SomeFailed };
        run::write_end(&run, exit, failed, observed, SamplerCost::default())?;
        output::note(format_args!("run: {}", run.path().display()));
    }
    Ok((outcomes, is_whole))
}

fn show(all: &[Totals]) -> anyhow::Result<()> {
    let mut lines = table::new(&[
        "policy",
        "jobs",
        "average JCT",
        "median",
        "p99",
        "queued",
        "switching",
        "makespan",
        "utilisation",
        "starts",
        "pauses",
        "notes",
    ]);
    for row in all {
        let time = |ns: Option<u64>| table::or_dash(ns.map(Nanos));
        let mut notes = Vec::new();
        for (count, what) in [(row.failed, "did not end well"), (row.unsupported, "not admitted")] {
            notes.extend((count > 0).then(|| format!("{count} {what}")));
        }
        notes.extend((row.steps_lost > 0).then(|| format!("{} steps lost", row.steps_lost)));
        lines.add_row([
            row.policy.clone(),
            row.jobs.to_string(),
            time(row.jct_ns_mean),
            time(row.jct_ns_median),
            time(row.jct_ns_p99),
            time(row.queued_ns_mean),
            time(row.switching_ns_mean),
            time(row.makespan_ns),
            row.util_percent.map_or("-".into(), |percent| format!("{percent:.1} %")),
            row.starts.to_string(),
            row.pauses.to_string(),
            notes.join("; "),
        ]);
    }
    table::print(&lines)
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a number from 0 to 100"))
}
