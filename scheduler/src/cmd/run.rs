//! `sched run`: jobs of a trace on devices of this machine.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use profiler::{
    agree, cells,
    plans::{self, Effort, Estimates},
    pool,
    run::{self, Request},
    table,
};
use rig::{Exit, interrupt::Interrupt, output};
use schema::{
    catalog::Catalog,
    device::Device,
    manifest::{Cell, Manifest, Settings},
    rows::{self, Outcome, Status},
    run_dir::RunDir,
    sharing::Sharing,
    trace::Trace,
    units::{HumanBytes, Nanos},
};

use super::{above_zero, busy, policies, rules::Rules, some_jobs};
use crate::{
    inputs::{self, Purpose},
    job::{JobRequest, Payload},
    online::{self, RunInputs},
    policy,
    totals::{average, makespan_ns},
};

/// Run the jobs of a trace on devices of this machine, as a policy decides.
///
/// Before it, the trace is simulated with the same policy: predictions.csv says what is expected of each job. That takes --machine or
/// --switch-cost, and step times: those of --table, or of the trace. Then outcomes.csv says what became of the jobs, and
/// decisions.jsonl what happened and what was done about it.
///
/// Whatever ends the scheduler, its processes end with it. --resume goes on from the last checkpoints; steps that are done again are
/// counted. After Ctrl-C all jobs are saved first.
///
/// Example: `sched run trace.csv --policy srtf --device cpu:0,cpu:1 --table runs/alone --machine machine.toml`
///
/// Example: `sched run trace.csv --policy tiresias:30s --device cuda:0 --checkpoint-every 60s --out runs/tiresias`
///
/// Example: `sched run --resume runs/tiresias`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Which jobs arrive when: a CSV file, as `sched trace` makes them.
    #[arg(value_name = "TRACE", required_unless_present = "resume")]
    trace: Option<PathBuf>,
    #[arg(long, value_name = "POLICY", required_unless_present = "resume", help = policies("Who decides"))]
    policy: Option<String>,
    #[command(flatten)]
    asked: Asking,
    /// Go on with a run whose scheduler was ended or has died.
    ///
    /// --data and --catalog are taken from the same place as at first; trace, tables and calibration were copied into the run.
    /// Another version of Tandem, libtorch or the driver of GPUs than the run was begun with is refused.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["trace", "policy", "Asking", "Rules"])]
    resume: Option<PathBuf>,
    /// With --resume: start the programs that the run names without asking.
    #[arg(long, requires = "resume")]
    yes: bool,
    /// Print the outcomes as JSON.
    #[arg(long)]
    json: bool,
}

/// What a run is begun with.
#[derive(clap::Args)]
struct Asking {
    /// Devices that the jobs share. Without it, the best that is present.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    #[command(flatten)]
    rules: Rules,
    /// The interval between reports to the policy of how far each job has come.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = above_zero)]
    progress_every: Duration,
    /// The silence after which a job is ended as hung.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = above_zero)]
    heartbeat: Duration,
    /// Threads of each rank [default: the cores of its device].
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Memory of each CPU device, as 2GiB [default: its share of the machine's].
    #[arg(long, value_name = "SIZE")]
    memory: Option<HumanBytes>,
    /// Folder with real data, instead of the seeded synthetic stream.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Decides initial weights and data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory of the run [default: runs/<utc time>-sched-<hash>].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let run = match (&args.resume, &args.trace, &args.policy) {
        (Some(path), ..) => {
            let run = RunDir::open(path)?;
            let manifest = run.manifest()?;
            run::is_measured_by_the_same(&run, &manifest)?;
            let policy = policy::program(&online::scheduling(&manifest)?.policy).map(str::to_owned);
            agree::to_start(policy.into_iter().chain(agree::programs_of(&manifest)), args.yes)?;
            run
        }
        (None, Some(trace), Some(policy)) => begin(trace, policy, &args.asked)?,
        (None, ..) => bail!("a trace and a policy are wanted"),
    };
    let ended = online::conduct(&run)?;
    if args.json {
        output::print(rows::to_json(&ended.outcomes))?;
    } else {
        show(&ended.outcomes)?;
    }
    output::note(format_args!("run: {}", run.path().display()));
    if ended.exit == Exit::Interrupted {
        output::note(format_args!("go on with: sched run --resume {}", run.path().display()));
    }
    Ok(ended.exit)
}

/// Makes the directory of a run, with all that it is given, and what is predicted of it.
fn begin(trace: &Path, policy: &str, asked: &Asking) -> anyhow::Result<RunDir> {
    // Whatever is wrong is said before there is a directory. A policy that is a program is started for that, and once more to decide.
    drop(policy::build(policy)?);
    run::check_data(asked.data.as_deref())?;
    let inputs = RunInputs::new(manifest(trace, policy, asked)?, trace, &asked.rules.table)?;
    some_jobs(&inputs, trace)?;
    let busy = busy("simulating the trace first".into());
    let predictions = online::predict(&inputs, asked.rules.machine.as_deref())?;
    drop(busy);
    let path = asked.out.clone().unwrap_or_else(|| run::directory("sched", &inputs.manifest));
    // From here on there is a run, which a signal ends in order.
    let _interrupt = Interrupt::listen().context("signals cannot be listened to")?;
    let run = RunDir::create(&path)?;
    online::keep_inputs(&run, trace, &asked.rules.table, asked.rules.machine.as_deref())?;
    match predictions {
        Some(predictions) => rows::write(&run.predictions_path(), &predictions)?,
        None => output::note(format_args!(
            "nothing is predicted, as what switches cost is not known; {}",
            inputs.calibrate_first()
        )),
    }
    // Last, so that what has one is whole, and can be gone on with.
    run.write_manifest(&inputs.manifest)?;
    Ok(run)
}

fn manifest(trace: &Path, policy: &str, asked: &Asking) -> anyhow::Result<Manifest> {
    let catalog = Catalog::open(&asked.rules.catalog)?;
    let pool = pool::resolve(&asked.device, None)?;
    pool::check_memory(asked.memory, pool.iter())?;
    let jobs = inputs::jobs(&Trace::read(trace)?, &catalog, Purpose::Run, pool.len() as u32)?;
    let settings = Settings {
        heartbeat_s: Some(asked.heartbeat.as_secs_f64()),
        threads: asked.threads,
        data: asked.data.clone(),
        memory_bytes: asked.memory.map(|HumanBytes(bytes)| bytes),
        catalogs: asked.rules.catalog.clone(),
        ..Settings::default()
    };
    let mut estimates = Estimates::new(&settings, asked.seed);
    let cell = |job: &JobRequest| cell(job, &catalog, &pool, &mut estimates);
    let cells = jobs.iter().map(cell).collect::<anyhow::Result<_>>()?;
    let request = Request { cells, groups: Vec::new(), settings, seed: asked.seed };
    let mut manifest = run::manifest_on("sched", &pool, &catalog, request)?;
    online::by_type(&mut manifest.devices);
    manifest.scheduling = Some(asked.rules.scheduling(policy, Some(asked.progress_every)));
    Ok(manifest)
}

/// A job as the manifest has it; one that can never run here with the reason.
fn cell(
    asked: &JobRequest,
    catalog: &Catalog,
    pool: &[Device],
    estimates: &mut Estimates,
) -> anyhow::Result<Cell> {
    let first = pool.first().context("there is no device")?;
    let (workload, global_batch) = match &asked.what {
        Payload::Training { workload, global_batch } => {
            (workload, global_batch.context("the catalog has a batch")?)
        }
        Payload::Command(argv) => {
            let takes_one = "we start one process of a command, and it asks for more devices";
            let unsupported = (asked.devices > 1).then(|| takes_one.to_owned());
            let cell = cells::command(argv, first)?;
            return Ok(Cell { name: asked.name.clone(), devices: Vec::new(), unsupported, ..cell });
        }
    };
    let workload = profiler::workload_lookup::workload(catalog, workload)?;
    let plan = asked.plan.unwrap_or(workload.plan);
    // An elastic job may come to run under a plan that can.
    let refusal = plans::refusal(workload, global_batch, &plan, pool).filter(|_| !asked.elastic);
    let judged = match &refusal {
        None => estimates.judge(workload, global_batch, &plan, pool, Effort::WhereTight),
        Some(_) => plans::Judgement::default(),
    };
    Ok(Cell {
        name: asked.name.clone(),
        sharing: Sharing::TIME_SLICE,
        job: format!("{}@b{global_batch}@{plan}", workload.name),
        workload: workload.name.clone(),
        command: None,
        all_reduce_bytes: None,
        global_batch: Some(global_batch),
        plan: Some(plan),
        devices: Vec::new(),
        memory_estimate_bytes: judged.memory_bytes,
        unsupported: refusal.or(judged.refusal.filter(|_| !asked.elastic)),
    })
}

/// What became of the jobs, one line each, and of all of them together.
fn show(outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut lines = table::new(&[
        "job",
        "workload",
        "JCT",
        "predicted",
        "queued",
        "switching",
        "running",
        "paused",
        "notes",
    ]);
    for row in outcomes {
        let time = |ns: Option<u64>| table::or_dash(ns.map(Nanos));
        let mut notes: Vec<String> =
            row.err_detail.iter().map(|why| format!("{}: {why}", row.status)).collect();
        for (count, what) in [(u64::from(row.retries), "retries"), (row.steps_lost, "steps lost")] {
            notes.extend((count > 0).then(|| format!("{count} {what}")));
        }
        lines.add_row([
            row.name.clone(),
            row.workload.clone(),
            time(row.jct_ns),
            time(row.predicted_jct_ns),
            time(row.queued_ns),
            time(row.switching_ns),
            time(row.running_ns),
            time(row.paused_ns),
            notes.join("; "),
        ]);
    }
    table::print(&lines)?;
    let done: Vec<&Outcome> = outcomes.iter().filter(|row| row.status == Status::Ok).collect();
    let mean = |of: fn(&Outcome) -> Option<u64>| {
        let known: Vec<u64> = done.iter().filter_map(|row| of(row)).collect();
        (!known.is_empty()).then(|| Nanos(average(&known)))
    };
    output::print(format_args!(
        "{} of {} jobs done; average JCT {}, predicted {}; makespan {}",
        done.len(),
        outcomes.len(),
        table::or_dash(mean(|row| row.jct_ns)),
        table::or_dash(mean(|row| row.predicted_jct_ns)),
        table::or_dash(makespan_ns(outcomes).map(Nanos)),
    ))
}
