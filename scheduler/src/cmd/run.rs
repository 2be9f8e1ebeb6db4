//! `sched run`: runs the jobs of a trace on devices of this machine.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use cli::{
    agree::{self, Consent, Yes},
    heading,
    options::{HEARTBEAT, RunOptions},
    table::{self, TableOptions},
};
use engine::job::{JobRequest, Payload};
use formats::rows::{DrawnTotals, Outcome};
use jobs::{
    catalog_programs, folder, machine,
    manifest::{self, RunRequest},
    plans::{self, Effort, Estimates, Judgement},
    pool, run, software,
    users_programs::{self, UsersProgram},
    workload_lookup,
};
use outcomes::{
    draws::totals_of_draws,
    fairness::{rho, summary},
    totals::{average, makespan_ns, totals},
};
use record::{
    manifest::{Cell, Manifest, Scheduling, Settings},
    rows::{self, Status},
    run_dir::RunDir,
};
use rig::{Exit, interrupt::Interrupt, output};
use schema::{
    catalog::{Catalog, CatalogEntry},
    device::Device,
    footprint::Footprints,
    sharing::Sharing,
    surroundings::Surroundings,
    units::Nanos,
};
use testbed::process::HostCores;

use super::{PolicyNames, above_zero, busy, forward::ForwardOptions, policies, rules::Rules, some_jobs};
use crate::{
    inputs::{self, Purpose},
    legal_plans,
    models::ModelFiles,
    online::{self, Forwarded, InputFiles, RunInputs},
    policy,
};

/// Run the jobs of a trace on devices of this machine under a policy.
///
/// The trace is first simulated with the same policy, and the prediction for each job is written to predictions.csv. This needs
/// --machine or --switch-cost, and step times from --table or from the trace. With --draws, predictions have intervals. The run
/// writes the outcomes of jobs to outcomes.csv, and all events and decisions to decisions.jsonl.
///
/// When the scheduler ends for any reason, its processes end with it. --resume continues from the last checkpoints; steps that are
/// done again are counted. After Ctrl-C all jobs are saved first.
///
/// Example: `sched run trace.csv --policy srtf --device cpu:0,cpu:1 --table runs/alone --machine machine.toml`
///
/// Example: `sched run trace.csv --policy tiresias:30s --device cuda:0 --checkpoint-every 60s --out runs/tiresias`
///
/// Example: `sched run trace.csv --policy fifo --device cuda:0 --fast-forward --out runs/forwarded`
///
/// Example: `sched run --resume runs/tiresias`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The trace: jobs and their arrivals in a CSV file, as `sched trace` writes it.
    #[arg(value_name = "TRACE", required_unless_present = "resume")]
    trace: Option<PathBuf>,
    #[arg(long, value_name = "POLICY", required_unless_present = "resume", help = policies::short_help("The policy"), long_help = policies::help("The policy"))]
    #[arg(value_parser = PolicyNames, hide_possible_values = true)]
    policy: Option<String>,
    #[command(flatten)]
    run: RunOptions,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    forward: ForwardOptions,
    /// The interval between reports of each job's progress to the policy.
    #[arg(long, help_heading = heading::RUN, value_name = "TIME", default_value = "10s", value_parser = above_zero)]
    progress_every: Duration,
    /// Continue a run whose scheduler was ended or has died.
    ///
    /// The files of --data are read from the same path as before; trace, catalogs, tables, history and calibration were copied into
    /// the run. The versions of Tandem, libtorch and the driver of GPUs must be those with which the run was begun, and the commands
    /// of jobs are started in the folder in which it was begun. After a restart of the machine, or on another one, the run goes on if
    /// you agree.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["trace", "policy", "RunOptions", "Rules", "ForwardOptions", "progress_every"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    yes: Yes,
    /// Print the outcomes as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    args.table.check(&COLUMNS)?;
    let (run, consent) = match (&args.resume, &args.trace, &args.policy) {
        (Some(path), ..) => {
            let run = RunDir::open(path)?;
            let manifest = run.manifest()?;
            software::is_measured_by_the_same(&run, &manifest)?;
            folder::is_that_of_the_beginning(&run, &manifest)?;
            if let Some(doubt) =
                machine::doubt_about_boot(&run, online::last_boot(&run, &manifest)?.as_deref())
            {
                args.yes.to_go_on(&doubt)?;
            }
            let policy = policy::program(&online::scheduling(&manifest)?.policy).map(str::to_owned);
            let consent = args.yes.to_start(policy.into_iter().chain(agree::programs_of(&manifest)))?;
            folder::compare_source_tree(&run, &manifest);
            (run, consent)
        }
        (None, Some(trace), Some(policy)) => {
            args.yes.check_absent("--resume")?;
            begin(trace, policy, args)?
        }
        (None, ..) => bail!("name a trace and a policy, or a run with --resume"),
    };
    output::news(format_args!("watch it with: report serve {}", run.path().display()));
    let ended = online::conduct(&run, &consent)?;
    if args.json {
        output::print(rows::to_json(&ended.outcomes))?;
    } else {
        show(&ended.outcomes, &args.table)?;
    }
    if let Some(forwarded) = &ended.forwarded {
        output::news(skipped(forwarded, &ended.outcomes));
    }
    if let Some(times) = ended.decision_times {
        output::news(times);
    }
    output::news(format_args!("run: {}", run.path().display()));
    if ended.exit == Exit::Interrupted {
        output::note(format_args!("go on with: sched run --resume {}", run.path().display()));
    }
    Ok(ended.exit)
}

/// Makes the directory of a run with copies of its inputs, its predictions and its manifest. Returns the consent to start its programs.
fn begin(trace: &Path, policy: &str, args: &Args) -> anyhow::Result<(RunDir, Consent)> {
    // All inputs are checked before the directory is made. For this a policy that is a program is started once without a question.
    let typed = policy::typed([policy]);
    drop(policy::build(policy, &typed)?);
    run::check_data(args.run.data.as_deref())?;
    let (manifest, footprints) = manifest(trace, policy, args)?;
    let sources = args.rules.sources();
    let files = InputFiles {
        trace,
        catalogs: &args.run.catalog,
        models: ModelFiles { tables: &sources.tables, fitted: &sources.fitted },
        history: args.rules.history.as_deref(),
        machine: args.rules.machine.as_deref(),
        footprints: footprints.measured.clone(),
    };
    let mut inputs = RunInputs::new(manifest, files.clone())?;
    some_jobs(&inputs, trace)?;
    let checked = inputs.check_turns().and_then(|()| inputs.check_suspension());
    checked.with_context(|| inputs.files())?;
    online::probe(&inputs.manifest)?;
    inputs.doubts().into_iter().chain(inputs.unsteady_tables()).for_each(output::note);
    inputs.note_lacking()?.iter().for_each(|what| output::note(format_args!("{policy}: {what}")));
    let busy = busy("simulating the trace first".into());
    let predicted = online::predict(&inputs, args.rules.draws, &typed)?;
    drop(busy);
    let path = args.run.out.clone().unwrap_or_else(|| manifest::directory("sched", &inputs.manifest));
    // From here on a signal does not end the program at once, so that no file of the run is cut off.
    let _interrupt = Interrupt::listen().context("cannot install the signal handlers")?;
    let run = run::create_resumable(&path)?;
    online::keep_inputs(&run, &files)?;
    match &predicted {
        Some(predicted) => {
            predicted.write(&run)?;
            if let Some(DrawnTotals { draws, jct_ns_mean, makespan_ns }) = totals_of_draws(&predicted.draws) {
                output::note(format_args!(
                    "predicted average JCT {jct_ns_mean}, makespan {makespan_ns} (95 % of {draws} draws)"
                ));
            }
        }
        None => output::note(format_args!(
            "there is no prediction, because the costs of switches are not known; {}",
            inputs.calibrate_first()
        )),
    }
    run.write_footprints(&footprints)?;
    // The manifest is last: a directory that has one is complete and can be resumed.
    run.write_manifest(&inputs.manifest)?;
    // A trace that the user has named to be run is the user's own request, as a script is for a shell.
    let policy = policy::program(policy).map(str::to_owned);
    Ok((run, Consent::typed(policy.into_iter().chain(agree::programs_of(&inputs.manifest)))))
}

/// Makes the manifest, and returns it with the footprints that the memory of jobs was estimated from.
fn manifest(trace: &Path, policy: &str, args: &Args) -> anyhow::Result<(Manifest, Footprints)> {
    let catalog = Catalog::open(&args.run.catalog)?;
    let pool = pool::resolve(&args.run.device, None)?;
    pool::check_memory(args.run.memory, pool.iter())?;
    let jobs = inputs::read_jobs(trace, &catalog, Purpose::Run, pool.len() as u32)?;
    let heartbeat = args.run.heartbeat.unwrap_or(HEARTBEAT);
    let settings = Settings { heartbeat_s: Some(heartbeat.as_secs_f64()), ..args.run.settings() };
    let mut estimates = Estimates::new(&settings, args.run.seed);
    let sharing = &args.rules.sharing;
    let cell = |job: &JobRequest| {
        Ok(Cell { sharing: sharing.clone(), ..cell(job, &catalog, &pool, &mut estimates)? })
    };
    let cells = jobs.iter().map(cell).collect::<anyhow::Result<_>>()?;
    let request =
        RunRequest { cells, groups: Vec::new(), settings, seed: args.run.seed, tags: args.run.tags.clone() };
    let mut manifest = manifest::make_for("sched", &pool, &catalog, request)?;
    online::by_type(&mut manifest.devices);
    if policy::resizes(policy) {
        // What a decision may choose among is measured now, because a decision cannot wait for it.
        let topology = online::cluster(&manifest);
        drop(legal_plans::enumerate(
            &jobs,
            &catalog,
            &topology,
            |entry, batch, plan, (_, devices)| match entry {
                CatalogEntry::Workload(workload) => {
                    estimates.judge(workload, batch, plan, devices, Effort::WhereTight)
                }
                CatalogEntry::Program(_) => Judgement::default(),
            },
        ));
    }
    let scheduling = args.rules.scheduling(policy, Some(args.progress_every), &mut args.rules.sources())?;
    let host_cores = pool.iter().any(|device| matches!(device, Device::Cuda(_)));
    let host_cores = host_cores.then(|| HostCores::beside(&pool)).transpose()?.map(|host| host.count());
    let fast_forward = args.forward.setting(&scheduling, &jobs)?;
    manifest.scheduling = Some(Scheduling { host_cores, fast_forward, ..scheduling });
    Ok((manifest, estimates.footprints()))
}

/// Makes the cell of a job in the manifest. If the job can never run here, the cell has the reason.
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
            check_words(asked, argv)?;
            let cell = users_programs::cell(&UsersProgram::unnamed(argv), first, &Surroundings::default())?;
            return Ok(Cell { name: asked.name.clone(), devices: Vec::new(), ..cell });
        }
    };
    if let Some(program) = catalog.program(workload) {
        let plan = asked.plan.unwrap_or(program.plan);
        let cell = catalog_programs::cell(catalog, program, global_batch, plan, pool)?;
        // An elastic job may run under another plan, so that this one is no reason to refuse it.
        let unsupported = cell.unsupported.filter(|_| !asked.elastic);
        return Ok(Cell { name: asked.name.clone(), devices: Vec::new(), unsupported, ..cell });
    }
    let workload = workload_lookup::workload(catalog, workload)?;
    let plan = asked.plan.unwrap_or(workload.plan);
    // An elastic job may run under another plan, so that this one is no reason to refuse it.
    let refusal = plans::refusal(workload, global_batch, &plan, pool).filter(|_| !asked.elastic);
    let judged = match &refusal {
        None => estimates.judge(workload, global_batch, &plan, pool, Effort::WhereTight),
        Some(_) => Judgement::default(),
    };
    Ok(Cell {
        name: asked.name.clone(),
        sharing: Sharing::default(),
        job: format!("{}@b{global_batch}@{plan}", workload.name),
        workload: workload.name.clone(),
        command: None,
        all_reduce_bytes: None,
        global_batch: Some(global_batch),
        plan: Some(plan),
        devices: Vec::new(),
        memory_estimate_bytes: judged.memory_bytes,
        unsupported: refusal.or(judged.refusal.filter(|_| !asked.elastic)),
        ..Cell::default()
    })
}

/// Refuses words that are filled in for each launch of `profile`.
fn check_words(job: &JobRequest, argv: &[String]) -> anyhow::Result<()> {
    if argv.iter().any(|word| rig::has_words(word)) {
        bail!(
            "job '{}': only `profile` fills in {{launch}}, {{repeat}} and {{run}} in a command; write paths in place of them",
            job.name
        );
    }
    Ok(())
}

/// How much of a run was skipped, and why other steps were executed.
fn skipped(forwarded: &Forwarded, outcomes: &[Outcome]) -> String {
    let Forwarded { jumps, skipped_ns, steps, waited } = forwarded;
    let all: u64 = outcomes.iter().map(|row| row.steps).sum();
    let time = Nanos(*skipped_ns);
    format!(
        "fast-forwarded: {steps} of {all} steps and {time} were skipped in {jumps} jumps; executed: {waited}"
    )
}

/// The columns of the outcomes of jobs.
const COLUMNS: [&str; 9] =
    ["job", "JCT", "predicted", "queued", "switching", "running", "paused", "workload", "notes"];

/// Prints one line for each job, and a summary.
fn show(outcomes: &[Outcome], options: &TableOptions) -> anyhow::Result<()> {
    let mut lines = table::new(&COLUMNS);
    lines.mark_text(&["workload", "notes"]);
    for row in outcomes {
        let time = |ns: Option<u64>| table::or_dash(ns.map(Nanos));
        let mut notes: Vec<String> =
            row.err_detail.iter().map(|why| format!("{}: {why}", row.status)).collect();
        notes.extend((row.status == Status::EndedByPolicy).then(|| "ended by the policy".into()));
        for (count, what) in [
            (u64::from(row.retries), "retries"),
            (row.steps_lost, "steps lost"),
            (row.steps_skipped, "steps skipped"),
        ] {
            notes.extend((count > 0).then(|| format!("{count} {what}")));
        }
        lines.add_row([
            row.name.clone(),
            time(row.jct_ns),
            time(row.predicted_jct_ns),
            time(row.queued_ns),
            time(row.switching_ns),
            time(row.running_ns),
            time(row.paused_ns),
            row.workload.clone(),
            notes.join("; "),
        ]);
    }
    options.print(&lines)?;
    let done: Vec<&Outcome> = outcomes.iter().filter(|row| row.status == Status::Ok).collect();
    let mean = |of: fn(&Outcome) -> Option<u64>| {
        let known: Vec<u64> = done.iter().filter_map(|row| of(row)).collect();
        (!known.is_empty()).then(|| Nanos(average(&known)))
    };
    let ended = outcomes.iter().filter(|row| row.status == Status::EndedByPolicy).count();
    let ended = if ended == 0 { String::new() } else { format!(", {ended} ended by the policy") };
    let fairness = summary(done.iter().filter_map(|row| rho(row.jct_ns, row.fair_ns)));
    output::print(format_args!(
        "{} of {} jobs done{ended}; average JCT {}, predicted {}; makespan {}",
        done.len(),
        outcomes.len(),
        table::or_dash(mean(|row| row.jct_ns)),
        table::or_dash(mean(|row| row.predicted_jct_ns)),
        table::or_dash(makespan_ns(outcomes).map(Nanos)),
    ))?;
    if let Some(fairness) = fairness {
        output::print(fairness)?;
    }
    let totals = totals("", outcomes, 0);
    output::print(format_args!(
        "first 100 steps after {} on average, median {}; {} preemptions, {} migrations",
        table::or_dash(totals.first_100_ns_mean.map(Nanos)),
        table::or_dash(totals.first_100_ns_median.map(Nanos)),
        table::or_dash(totals.preemptions),
        table::or_dash(totals.migrations),
    ))
}
