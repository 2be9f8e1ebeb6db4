//! `profile list`: the workloads of the catalog, and the plans of a job.

use std::path::PathBuf;

use anyhow::bail;
use cli::table::{self, TableOptions, grouped, or_dash};
use jobs::{
    plans::{self, Candidate, Effort, Estimates, Judgement},
    pool, workload_lookup,
};
use record::{
    manifest::Settings,
    rows::{self, PlanRow},
};
use rig::{Exit, output};
use schema::{
    catalog::{Catalog, CatalogProgram, Definition},
    device::Device,
    job::Job,
    plan::Plan,
    spec::Collectives,
    units::HumanBytes,
};

/// The seed of launches that measure memory, which does not depend on the seed.
const ANY_SEED: u64 = 1;

/// Show the workloads of the catalog, or the plans of a job.
///
/// The memory of each plan is estimated from a few steps of a few samples on the first device of the pool, which takes some
/// seconds for each combination of gc, offload and bf16. It is the tensor memory of the largest rank.
///
/// Example: `profile list`
///
/// Example: `profile list --plans gpt2@b8 --device cuda:0`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Show only workloads whose name contains this text, or those of a set, as `set:quick`.
    pattern: Option<String>,
    /// Show the plans of this job, and the reason for each plan that cannot run here.
    #[arg(long, value_name = "JOB", conflicts_with = "pattern")]
    plans: Option<Job>,
    /// The pool of devices that the plans are checked against.
    #[arg(long, value_name = "POOL", value_delimiter = ',', requires = "plans")]
    device: Vec<Device>,
    /// Memory of each CPU device of the pool, as 2GiB [default: the device's share of the machine's memory].
    #[arg(long, value_name = "SIZE", requires = "plans")]
    memory: Option<HumanBytes>,
    /// The library that moves tensors between ranks: gloo or nccl [default: gloo for CPU devices, nccl for GPUs].
    ///
    /// With gloo, several ranks may share one device, and each then has a share of its memory.
    #[arg(long, value_name = "LIBRARY", requires = "plans")]
    collectives: Option<Collectives>,
    /// A file with additional workloads and programs.
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Print rows as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let catalog = Catalog::open(&args.catalog)?;
    match &args.plans {
        Some(job) => list_plans(&catalog, job, args),
        None => list_workloads(&catalog, args),
    }
}

fn list_workloads(catalog: &Catalog, args: &Args) -> anyhow::Result<Exit> {
    let pattern = args.pattern.as_deref().unwrap_or("");
    let found = if workload_lookup::is_set(pattern) {
        workload_lookup::workloads(catalog, pattern)?
    } else {
        catalog.iter().filter(|workload| workload.name.contains(pattern)).collect()
    };
    let programs: Vec<_> = catalog.programs().filter(|program| program.name.contains(pattern)).collect();
    if found.is_empty() && programs.is_empty() {
        return Err(Exit::NothingMatched.because(format!("no workload has '{pattern}' in its name")));
    }
    if args.json {
        let of_programs = programs.into_iter().map(Definition::Program);
        let all: Vec<_> = found.into_iter().map(Definition::Workload).chain(of_programs).collect();
        output::print(rows::to_json(&all))?;
        return Ok(Exit::Ok);
    }
    let mut table = table::new(&["workload", "parameters", "batch", "GFLOP/sample", "sets", "about"]);
    table.mark_text(&["sets", "about"]);
    for workload in found {
        table.add_row([
            workload.name.clone(),
            or_dash(workload.parameters.map(grouped)),
            workload.global_batch.to_string(),
            or_dash(workload.flops_per_sample.map(|flops| format!("{:.3}", flops as f64 / 1e9))),
            workload.sets.join(", "),
            workload.about.clone(),
        ]);
    }
    for program in programs {
        table.add_row([
            program.name.clone(),
            or_dash(None::<u64>),
            program.batches[0].to_string(),
            or_dash(None::<f64>),
            "program".into(),
            if program.about.is_empty() { program.command.clone() } else { program.about.clone() },
        ]);
    }
    args.table.print(&table)?;
    Ok(Exit::Ok)
}

fn list_plans(catalog: &Catalog, job: &Job, args: &Args) -> anyhow::Result<Exit> {
    let shared = pool::of_jobs(std::slice::from_ref(job), &args.device, args.collectives)?;
    let pool = pool::of_job(job, &shared)?;
    pool::check_memory(args.memory, pool.iter())?;
    if let Some(program) = catalog.program(&job.workload) {
        let options = [("--memory", args.memory.is_some()), ("--collectives", args.collectives.is_some())];
        if let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) {
            bail!("{option} does not apply to programs; remove it");
        }
        return list_plans_of_program(program, job, &pool, args);
    }
    let workload = workload_lookup::workload(catalog, &job.workload)?;
    let global_batch = job.global_batch.unwrap_or(workload.global_batch);
    let settings =
        Settings { memory_bytes: args.memory.map(|HumanBytes(bytes)| bytes), ..Settings::default() };
    let mut estimates = Estimates::new(&settings, ANY_SEED);
    let candidates = match job.plan {
        Some(plan) => vec![plans::candidate(workload, global_batch, plan, &pool)],
        None => plans::enumerate(workload, global_batch, &pool),
    };
    let judged = |Candidate { plan, refusal }| {
        let devices = &pool[..pool.len().min(plan.ranks() as usize)];
        let judgement = match refusal {
            None => estimates.judge(workload, global_batch, &plan, devices, Effort::Measure),
            Some(_) => Judgement { refusal, ..Judgement::default() },
        };
        row_of(plan, global_batch, judgement)
    };
    print_plans(candidates.into_iter().map(judged).collect(), args)
}

/// The plans of a program, whose memory is not estimated.
fn list_plans_of_program(
    program: &CatalogProgram,
    job: &Job,
    pool: &[Device],
    args: &Args,
) -> anyhow::Result<Exit> {
    let global_batch = job.global_batch.unwrap_or(program.batches[0]);
    let candidates = match job.plan {
        Some(plan) => vec![plans::candidate_of_program(program, global_batch, plan, pool)],
        None => plans::of_program(program, global_batch, pool),
    };
    let row = |Candidate { plan, refusal }| {
        row_of(plan, global_batch, Judgement { refusal, ..Judgement::default() })
    };
    print_plans(candidates.into_iter().map(row).collect(), args)
}

fn row_of(plan: Plan, global_batch: u32, judgement: Judgement) -> PlanRow {
    let divisor = plan.batch_divisor();
    PlanRow {
        plan,
        devices: plan.ranks(),
        micro_batch: global_batch.is_multiple_of(divisor).then(|| global_batch / divisor),
        memory_bytes: judgement.memory_bytes,
        capacity_bytes: judgement.capacity_bytes,
        valid: judgement.refusal.is_none(),
        reason: judgement.refusal,
    }
}

fn print_plans(rows: Vec<PlanRow>, args: &Args) -> anyhow::Result<Exit> {
    if args.json {
        output::print(rows::to_json(&rows))?;
        return Ok(Exit::Ok);
    }
    let mut table = table::new(&["plan", "devices", "micro-batch", "memory", "capacity", "here"]);
    table.mark_text(&["here"]);
    for row in rows {
        table.add_row([
            row.plan.to_string(),
            row.devices.to_string(),
            or_dash(row.micro_batch),
            or_dash(row.memory_bytes.map(HumanBytes)),
            or_dash(row.capacity_bytes.map(HumanBytes)),
            row.reason.unwrap_or_else(|| "valid".into()),
        ]);
    }
    args.table.print(&table)?;
    Ok(Exit::Ok)
}
