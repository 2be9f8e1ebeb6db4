//! `profile verify`: whether every workload matches its definition and learns, and whether all plans compute the same.

mod bench;
mod plans;
mod programs;
mod workloads;

use std::path::PathBuf;

use cli::table::TableLayout;
use jobs::{
    manifest::{self, RunRequest},
    pool,
    run::{self, Observed},
};
use record::{
    manifest::Settings,
    rows::{self, Status},
    run_dir::RunDir,
};
use rig::{Exit, output, sampler::SamplerCost};
use schema::{catalog::Catalog, device::Device, spec::Collectives, units::HumanBytes};

use self::bench::Bench;

/// Train every workload for a few steps, and check its parameters and that its loss falls.
///
/// A workload that needs more memory than the device has is not trained: its parameters and operations are counted from the
/// shapes of its tensors, and compared with the catalog.
///
/// With --plans, the plans of a job are compared with each other instead: all must compute the same. A plan that needs more
/// memory than its devices have is unsupported and not started. If that plan is dp1, no plan of the job is started.
///
/// A program of `--catalog` trains under a plan for each of its axes and under the plan with the most axes, or with --plans under all of
/// its plans on the pool. Each rank has to show its steps. If the definition has a pattern for losses, plans of the same precision
/// have to agree in their losses. If the definition has a checkpoint, the program saves, goes on from the checkpoint, and has to
/// repeat the losses of the launch without a stop. If checkpoints are portable, the program also goes on under the plan with the
/// most ranks.
///
/// Example: `profile verify`
///
/// Example: `profile verify resnet18-cifar gpt2-mini --device cuda:0`
///
/// Example: `profile verify gpt2-mini@b8 --plans --device cpu:0,cpu:1`
///
/// Example: `profile verify ddp --catalog workloads/programs/ddp.toml --device cpu:0,cpu:1`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Workloads and sets to verify, as `set:quick` [default: all of the catalog]; with --plans, jobs
    /// `WORKLOAD[@bN][@on=DEVICE]` and sets; or programs, as `PROGRAM[@bN]`.
    #[arg(value_name = "WORKLOAD|JOB")]
    workloads: Vec<String>,
    /// Train under every plan that is valid on the pool, and compare the losses of 20 steps with those of dp1.
    ///
    /// Workloads compute in fp64, where a plan may only change the order of sums: losses that differ by more than 1e-9 are not
    /// the same. Differences between plans by design are removed: dropout and stochastic depth are 0, random draws of a model
    /// are replaced by their mean, batch norm uses its initial running statistics, and advantages are not normalised.
    /// Programs of --catalog train in the precision of each plan, and are compared with the first plan of the same precision.
    #[arg(long, requires = "workloads")]
    plans: bool,
    /// Devices to take ranks from, in this order [default: the best device that is present].
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    /// Memory of each CPU device, as 2GiB [default: the device's share of the machine's memory].
    #[arg(long, value_name = "SIZE")]
    memory: Option<HumanBytes>,
    /// The library that moves tensors between ranks: gloo or nccl [default: gloo for CPU devices, nccl for GPUs].
    ///
    /// With gloo, several ranks may share one device.
    #[arg(long, value_name = "LIBRARY", requires = "plans")]
    collectives: Option<Collectives>,
    /// A file with additional workloads and programs.
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Directory of the run [default: runs/<utc time>-verify-<hash>].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print rows as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    layout: TableLayout,
}

/// The verdict depends on no seed; a fixed one makes failures reproducible.
const SEED: u64 = 1;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let catalog = Catalog::open(&args.catalog)?;
    let verifies_programs = programs::are_all(&catalog, &args.workloads)?;
    if verifies_programs && args.collectives.is_some() {
        return Err(Exit::Usage.because("--collectives does not apply to programs".to_string()));
    }
    let mut cells = if verifies_programs {
        programs::cells(&catalog, &args.workloads, &args.device, args.plans)?
    } else if args.plans {
        plans::cells(&catalog, &args.workloads, &args.device, args.collectives)?
    } else {
        workloads::cells(&catalog, &args.workloads, &pool::resolve(&args.device, None)?)?
    };
    pool::check_memory(args.memory, cells.iter().flat_map(|cell| &cell.devices))?;
    let settings = Settings {
        heartbeat_s: Some(300.0),
        collectives: args.collectives,
        memory_bytes: args.memory.map(|HumanBytes(bytes)| bytes),
        catalogs: args.catalog.clone(),
        ..Settings::default()
    };
    if args.plans && !verifies_programs {
        plans::refuse_outgrown(&catalog, &mut cells, &settings)?;
    }
    let manifest = manifest::make(
        &catalog,
        RunRequest { cells, groups: Vec::new(), settings, seed: SEED, tags: Vec::new() },
    )?;
    let run = RunDir::create(&args.out.clone().unwrap_or_else(|| manifest::directory("verify", &manifest)))?;
    run.write_manifest(&manifest)?;
    let bench = Bench { run: &run, manifest: &manifest, catalog: &catalog };
    let observed = Observed::from_now();
    let (verdicts, cost): (Vec<bool>, SamplerCost) = if verifies_programs {
        let (of_cells, cost) = programs::verify(&bench)?;
        let rows = of_cells.concat();
        print(args.json, || rows::to_json(&rows), || programs::show(&rows, args.layout))?;
        (of_cells.iter().map(|rows| rows.iter().all(|row| row.verified)).collect(), cost)
    } else if args.plans {
        let (rows, cost) = plans::verify(&bench)?;
        print(args.json, || rows::to_json(&rows), || plans::show(&rows, args.layout))?;
        (rows.iter().map(|row| row.verified).collect(), cost)
    } else {
        let (rows, cost) = workloads::verify(&bench)?;
        print(args.json, || rows::to_json(&rows), || workloads::show(&rows, args.layout))?;
        (rows.iter().map(|row| row.verified).collect(), cost)
    };
    output::news(format_args!("run: {}", run.path().display()));
    let missing: Vec<String> =
        manifest.cells.iter().skip(verdicts.len()).map(|cell| cell.name.clone()).collect();
    let exit = match (missing.is_empty(), verdicts.into_iter().all(|verified| verified)) {
        (false, _) => Exit::Interrupted,
        (true, true) => Exit::Ok,
        (true, false) => Exit::SomeFailed,
    };
    run::write_end(&run, exit, missing, observed, cost)?;
    Ok(exit)
}

/// The verdict of a row in words. `reason` says why the plan or the checkpoint is not verified.
fn verdict(status: Status, reason: Option<&str>) -> String {
    match (reason, status) {
        (None, _) => "verified".into(),
        (Some(reason), Status::Unsupported) => format!("unsupported: {reason}"),
        (Some(reason), _) => reason.into(),
    }
}

fn print(
    as_json: bool,
    json: impl FnOnce() -> String,
    show: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if as_json { output::print(json()) } else { show() }
}
