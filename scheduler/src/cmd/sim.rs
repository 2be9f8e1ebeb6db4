//! `sched sim`: simulates a trace under one policy or several.

mod by_draw;
mod nodes;
mod policies;
mod progress;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    slice,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use clap::ArgGroup;
use cli::{
    agree::Consent,
    heading,
    options::tag,
    table::{self, TableLayout, TableOptions},
};
use engine::{
    cluster::ClusterError,
    journal::{FirstRefusal, Journal, Unrecorded},
};
use formats::{
    fitted::ModelFile,
    rows::{Draw, Totals},
};
use jobs::{
    manifest::{self, RunRequest},
    pool,
    run::{self, Observed},
};
use launches::simulated;
use outcomes::{draws::totals_of_draws, totals::Tally};
use record::{
    manifest::{self as facts, Manifest, Scheduling, Settings},
    rows::{self},
    run_dir::RunDir,
};
use rig::{Exit, output, sampler::SamplerCost};
use schema::{catalog::Catalog, device::Device, units::Nanos};

use self::{nodes::Nodes, progress::Progress};
use super::{PolicyNames, above_zero, rules::Rules, some_jobs};
use crate::{
    decisions::Decisions,
    inputs,
    models::ModelFiles,
    online::{self, Draws, InputFiles, RunInputs, Simulated},
    policy,
    sources::{Source, Sources},
};

/// The journal of a million jobs has half a gigabyte, and takes a third of the time of their simulation.
const MOST_JOBS_OF_A_JOURNAL: usize = 100_000;

/// Simulate a trace under one policy or several.
///
/// The step times of jobs come from the tables of --table: alone, packed, and next to other jobs on a node. For a job that is in no
/// table, the time of the trace is used; such a job cannot be packed. If a time is not known, the simulation ends with an error
/// that names it. The policies decide as they would for real jobs, with the same tables. --truth gives the simulated cluster other
/// step times than --model gives the policies, and --belief-error makes what the policies believe wrong.
///
/// The costs of switches come from --machine, drawn at random with the measured spread. --switch-cost is the cost for jobs without
/// a measurement. One of the two options is needed.
///
/// The table has totals over jobs: `first 100 steps` is the average time from arrival until a job has done 100 steps, `preemptions` are stops
/// and pauses, `migrations` are starts after a stop on other devices, and `a decision` is the average time in which the policy decided.
///
/// With --out, each policy has a run of its own: outcomes.csv with one row for each job, and decisions.jsonl, for `sched replay`. Of more
/// than 100,000 jobs, it has decisions.jsonl with --journal alone.
///
/// Example: `sched sim trace.csv --policy fifo,srtf,tiresias:60s --cluster 1x4 --switch-cost 5s --out runs/sim`
///
/// Example: `sched sim trace.csv --policy srtf --cluster 1x4 --switch-cost 5s --draws 200 --out runs/drawn`
///
/// Example: `sched sim trace.csv --policy packing-fifo --device cpu:0,cpu:1 --table runs/pairs --machine machine.toml`
///
/// Example: `sched sim trace.csv --policy srtf --cluster 2x4 --switch-cost 5s --truth runs/monday --model runs/friday`
///
/// Example: `sched sim philly-trace.csv --policy tiresias --cluster 311x8,1x2 --switch-cost 62s`
///
/// Example: `sched sim trace.csv --policy fifo,srtf --cluster cluster.toml --switch-cost 40s,9:60s`
#[derive(clap::Args)]
#[command(group(ArgGroup::new("devices").args(["cluster", "device"]).required(true)))]
pub(super) struct Args {
    /// The trace: jobs and their arrivals in a CSV file, as `sched trace` writes it.
    trace: PathBuf,
    #[arg(long, value_name = "POLICY,..", required = true, help = super::policies::short_help("The policies, separated by commas"))]
    #[arg(long_help = super::policies::help(
        "The policies, separated by commas; a policy that is a program needs a --policy of its own"
    ))]
    #[arg(value_parser = PolicyNames, hide_possible_values = true)]
    policy: Vec<String>,
    /// Nodes of the cluster, as NODESxDEVICES[:TYPE], or a file that describes them [default TYPE: the only type in the tables, or
    /// GPU without tables].
    ///
    /// The file has groups of nodes with their types, memory and links, and may divide the cluster into virtual clusters:
    /// docs/scheduler.md has an example.
    #[arg(long, value_name = "NODES,..|FILE.toml", value_delimiter = ',')]
    cluster: Vec<Nodes>,
    /// Devices of this machine as the cluster.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    #[command(flatten)]
    rules: Rules,
    /// The step times of the simulated cluster: `tables`, which is the default, `trace`, runs of `profile`, or fitted models, as for
    /// --model.
    #[arg(long, help_heading = heading::BELIEFS, value_name = "SOURCE,..")]
    truth: Option<Source>,
    /// A file with additional workloads and programs.
    #[arg(long, help_heading = heading::JOBS, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// The standard deviation of the step times of launches in percent; each launch is faster or slower by a random factor.
    #[arg(long, help_heading = heading::CHANCE, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    noise: f64,
    /// The mean time between failures of a device. Times are drawn from an exponential distribution.
    #[arg(long, help_heading = heading::CHANCE, value_name = "TIME", value_parser = above_zero, requires = "device_repair_time")]
    device_mtbf: Option<Duration>,
    /// The mean time from the failure of a device to its return.
    #[arg(long, help_heading = heading::CHANCE, value_name = "TIME", value_parser = above_zero, requires = "device_mtbf")]
    device_repair_time: Option<Duration>,
    /// The mean running time of a job between crashes of its own.
    #[arg(long, help_heading = heading::CHANCE, value_name = "TIME", value_parser = above_zero)]
    job_mtbf: Option<Duration>,
    /// The interval between reports of each job's progress to the policy [default: a report only when a switch ends].
    #[arg(long, help_heading = heading::RUN, value_name = "TIME", value_parser = above_zero)]
    progress_every: Option<Duration>,
    /// The seed of all random numbers.
    #[arg(long, help_heading = heading::CHANCE, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for the run; with several policies, for a folder named after each.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A word to find the run by, such as baseline. May be given several times. It is in the manifest and on the page.
    #[arg(long = "tag", value_name = "WORD", help_heading = heading::RUN, value_parser = tag, requires = "out")]
    tags: Vec<String>,
    /// Write decisions.jsonl of more than 100,000 jobs, too.
    #[arg(long, help_heading = heading::RUN, requires = "out")]
    journal: bool,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let names = policies::named(&args.policy)?;
    args.table.check(&columns(args.rules.draws.is_some()))?;
    let mut sources = args.sources();
    let manifest = manifest(args, &names[0], &mut sources)?;
    let files = InputFiles {
        trace: &args.trace,
        catalogs: &args.catalog,
        models: ModelFiles { tables: &sources.tables, fitted: &sources.fitted },
        history: args.rules.history.as_deref(),
        machine: args.rules.machine.as_deref(),
        footprints: Vec::new(),
    };
    let consent = policy::typed(names.iter().map(String::as_str));
    let mut inputs = RunInputs::new(manifest, files.clone())?;
    some_jobs(&inputs, &args.trace)?;
    let checked = inputs.check_times().and_then(|()| inputs.check_suspension());
    checked.with_context(|| inputs.files())?;
    let unknown = || format!("the costs of switches are not known; {}", inputs.calibrate_first());
    let costs = inputs.costs.as_ref().with_context(unknown)?;
    inputs.doubts().into_iter().chain(inputs.unsteady_tables()).for_each(output::note);
    if args.rules.draws.is_some() && sources.tables.is_empty() && sources.fitted.is_empty() {
        output::note(
            "no step time was measured: the intervals over draws show an assumed drift of the machine of 3 % and the spread of the costs \
             of switches alone",
        );
    }
    // The trace is checked before the directory is made.
    let truth = Box::new(&*inputs.models.truth);
    let sim =
        simulated::cluster(&inputs.topology, &inputs.asked, truth, costs, simulated::Settings::default());
    drop(sim.with_context(|| inputs.files())?);
    let (mut all, mut of_policies) = (Vec::new(), Vec::new());
    let mut exit = Exit::Ok;
    for name in &names {
        if let Some(scheduling) = &mut inputs.manifest.scheduling {
            scheduling.policy.clone_from(name);
        }
        let lacking = inputs.note_lacking()?;
        let out = args.out.as_ref().map(|out| match names.len() {
            1 => out.clone(),
            _ => out.join(policies::folder(name)),
        });
        let (found, draws, is_whole) = simulate(args, (&inputs, &files), out.as_deref(), &consent)
            .with_context(|| format!("policy {name}"))?;
        of_policies.push((name.clone(), draws));
        if !is_whole || found.failed > 0 || found.unsupported > 0 {
            exit = Exit::SomeFailed;
        }
        all.push(Totals { policy: name.clone(), lacking, ..found });
    }
    for (policy, totals) in all.iter_mut().enumerate() {
        totals.lower_than = by_draw::lower_than(policy, &of_policies);
    }
    if args.json {
        output::print(rows::to_json(&all))?
    } else {
        show(&all, &args.table)?
    }
    Ok(exit)
}

impl Args {
    /// All tables and fitted models that the run keeps.
    fn sources(&self) -> Sources {
        let mut sources = self.rules.sources();
        self.truth.iter().for_each(|source| drop(sources.of(source)));
        sources
    }

    /// The journal of a run of this many jobs, if it has one.
    fn decisions(&self, run: &RunDir, jobs: usize) -> anyhow::Result<Option<Decisions>> {
        if jobs > MOST_JOBS_OF_A_JOURNAL && !self.journal {
            output::note(format_args!(
                "no journal: {jobs} jobs are more than {MOST_JOBS_OF_A_JOURNAL}; `sched replay` and `sched explain` need one, which \
                 --journal writes"
            ));
            return Ok(None);
        }
        Ok(Some(Decisions::open(&run.decisions_path())?.in_blocks()))
    }
}

fn manifest(args: &Args, policy: &str, sources: &mut Sources) -> anyhow::Result<Manifest> {
    ensure!(
        !args.rules.refit || args.progress_every.is_some(),
        "--refit learns from reports of progress; add an interval between them, such as --progress-every 10s"
    );
    let catalog = Catalog::open(&args.catalog)?;
    let pool = match args.device.is_empty() {
        true => Vec::new(),
        false => pool::resolve(&args.device, None)?,
    };
    let settings = Settings { catalogs: args.catalog.clone(), heartbeat_s: None, ..Settings::default() };
    let request = RunRequest {
        cells: Vec::new(),
        groups: Vec::new(),
        settings,
        seed: args.seed,
        tags: args.tags.clone(),
    };
    let mut manifest = manifest::make_for("sched", &pool, &catalog, request)?;
    online::by_type(&mut manifest.devices);
    let truth = sources.of(&args.truth.clone().unwrap_or_default());
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    manifest.scheduling = Some(Scheduling {
        simulated: Some(facts::Simulated {
            noise_percent: args.noise,
            device_up_s: seconds(args.device_mtbf),
            device_down_s: seconds(args.device_repair_time),
            launch_up_s: seconds(args.job_mtbf),
            truth: Some(truth.tables),
            fitted_truth: truth.fitted,
            nodes: nodes::typed(&args.cluster, &device_types(sources)?)?,
        }),
        ..args.rules.scheduling(policy, args.progress_every, sources)?
    });
    Ok(manifest)
}

/// The types of the devices in all tables and fitted models.
fn device_types(sources: &Sources) -> anyhow::Result<BTreeSet<String>> {
    let table = inputs::table(&sources.tables)?;
    let mut types: BTreeSet<String> = table.device_types().map(str::to_owned).collect();
    for path in &sources.fitted {
        types.insert(ModelFile::read(path)?.device_type);
    }
    Ok(types)
}

/// Simulates the policy of the manifest. Returns the totals, the draws, and whether all jobs have ended.
fn simulate(
    args: &Args,
    (inputs, files): (&RunInputs, &InputFiles<'_>),
    out: Option<&Path>,
    consent: &Consent,
) -> anyhow::Result<(Totals, Vec<Draw>, bool)> {
    let observed = Observed::from_now();
    let run = out.map(RunDir::create).transpose()?;
    let mut decisions = None;
    if let Some(run) = &run {
        online::keep_inputs(run, files)?;
        run.write_manifest(&inputs.manifest)?;
        decisions = args.decisions(run, inputs.asked.len())?;
    }
    let mut unrecorded = Unrecorded;
    let journal: &mut dyn Journal = match &mut decisions {
        Some(decisions) => decisions,
        None => &mut unrecorded,
    };
    let mut progress = Progress::new(journal, inputs);
    let mut refusal = FirstRefusal::new(&mut progress);
    let simulated = online::simulate(inputs, &mut refusal, consent);
    let refused = refusal.told();
    decisions.map_or(Ok(()), |mut decisions| decisions.finish())?;
    let Simulated { jobs, ended, decision_times } = simulated?;
    let draws = args.rules.draws.filter(|_| ended.is_ok());
    let draws = draws.map(|count| Draws::new(inputs, count, consent)).transpose()?.unwrap_or_default();
    let is_whole = match ended {
        Ok(()) => true,
        Err(error @ ClusterError::Stuck { .. }) => {
            output::note(format_args!("error: {error}{refused}{}", inputs.measure_first()));
            false
        }
        Err(error) => return Err(error.into()),
    };
    let mut table = run.as_ref().map(|run| rows::Writer::create(&run.outcomes_path())).transpose()?;
    let (mut tally, mut failed) = (Tally::default(), Vec::new());
    for row in jobs.outcomes() {
        tally.add(&row);
        if let Some(table) = &mut table {
            table.push(slice::from_ref(&row))?;
        }
        if row.end_ns.is_none() {
            failed.push(row.name);
        }
    }
    table.map_or(Ok(()), rows::Writer::finish)?;
    if let Some(run) = run {
        if args.rules.draws.is_some() {
            online::predicted(inputs, jobs.outcomes(), &draws).write(&run)?;
        }
        let exit = if is_whole { Exit::Ok } else { Exit::SomeFailed };
        run::write_end(&run, exit, failed, observed, SamplerCost::default())?;
        output::news(format_args!("run: {}", run.path().display()));
    }
    let drawn = totals_of_draws(&draws.rows);
    let totals = tally.totals("", inputs.topology.devices());
    Ok((Totals { decision_times, drawn, ..totals }, draws.rows, is_whole))
}

/// The columns of the totals, which have intervals if they were drawn.
fn columns(is_drawn: bool) -> Vec<&'static str> {
    let columns = [
        "policy",
        "average JCT",
        AVERAGE_JCT_INTERVAL,
        "makespan",
        MAKESPAN_INTERVAL,
        "p99",
        "utilisation",
        "queued",
        "median",
        "first 100 steps",
        "switching",
        "preemptions",
        "migrations",
        "starts",
        "pauses",
        "jobs",
        "a decision",
        "notes",
    ];
    let is_of_draws = |name: &str| [AVERAGE_JCT_INTERVAL, MAKESPAN_INTERVAL].contains(&name);
    columns.into_iter().filter(|name| is_drawn || !is_of_draws(name)).collect()
}

const AVERAGE_JCT_INTERVAL: &str = "average JCT 95 %";
const MAKESPAN_INTERVAL: &str = "makespan 95 %";

fn show(all: &[Totals], options: &TableOptions) -> anyhow::Result<()> {
    let is_drawn = all.iter().any(|row| row.drawn.is_some());
    let mut lines = table::new(&columns(is_drawn));
    lines.mark_text(&["notes"]);
    for row in all {
        let time = |ns: Option<u64>| table::or_dash(ns.map(Nanos));
        let mut notes = Vec::new();
        for (count, what) in [
            (row.failed, "did not end well"),
            (row.unsupported, "not admitted"),
            (row.ended_by_policy, "ended by the policy"),
        ] {
            notes.extend((count > 0).then(|| format!("{count} {what}")));
        }
        notes.extend((row.steps_lost > 0).then(|| format!("{} steps lost", row.steps_lost)));
        let intervals = [row.drawn.map(|drawn| drawn.jct_ns_mean), row.drawn.map(|drawn| drawn.makespan_ns)];
        let [jct_interval, makespan_interval] =
            intervals.map(|interval| is_drawn.then(|| table::or_dash(interval)));
        let mut cells = vec![row.policy.clone(), time(row.jct_ns_mean)];
        cells.extend(jct_interval);
        cells.push(time(row.makespan_ns));
        cells.extend(makespan_interval);
        cells.extend([
            time(row.jct_ns_p99),
            row.util_percent.map_or("-".into(), |percent| format!("{percent:.1} %")),
            time(row.queued_ns_mean),
            time(row.jct_ns_median),
            time(row.first_100_ns_mean),
            time(row.switching_ns_mean),
            table::or_dash(row.preemptions),
            table::or_dash(row.migrations),
            row.starts.to_string(),
            row.pauses.to_string(),
            row.jobs.to_string(),
            table::or_dash(row.decision_times.map(|times| Nanos((times.mean_us * 1e3) as u64))),
            notes.join("; "),
        ]);
        lines.add_row(cells);
    }
    options.print(&lines)?;
    for row in all {
        row.lacking.iter().try_for_each(|what| output::print(format_args!("{}: {what}", row.policy)))?;
    }
    by_draw::show(all, options.layout())?;
    show_fairness(all, options.layout())
}

/// A line for each policy of which the fairness is known.
fn show_fairness(all: &[Totals], layout: TableLayout) -> anyhow::Result<()> {
    let mut lines =
        table::new(&["finish-time fairness", "jobs", "mean rho", "median", "p99", "most", "unfair"]);
    let known: Vec<_> = all.iter().filter_map(|row| Some((&row.policy, row.fairness?))).collect();
    for (policy, of) in &known {
        let mut cells = vec![policy.to_string(), of.jobs.to_string()];
        cells.extend([of.rho_mean, of.rho_median, of.rho_p99, of.rho_max].map(|rho| format!("{rho:.2}")));
        cells.push(format!("{:.1} %", of.unfair_percent));
        lines.add_row(cells);
    }
    if known.is_empty() {
        return Ok(());
    }
    output::print("")?;
    layout.print(&lines)
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a number from 0 to 100"))
}
