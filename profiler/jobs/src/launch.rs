//! Makes the request of a launch.

use std::time::Duration;

use anyhow::Context as _;
use record::{
    manifest::{Cell, Manifest, Settings},
    run_dir::RunDir,
};
use rig::{FIRST_STEP, Isolation, LaunchRequest, Timeouts};
use schema::{
    catalog::{Catalog, Workload},
    device::Device,
    plan::Plan,
    spec::{AllReduce, JobCheckpoint, LaunchSpec, Program, Training},
    surroundings::Surroundings,
};

use crate::workload_lookup;

/// The request of launch `number`, for a cell and a block.
///
/// With `steps`, a job ends by itself after that number of steps; otherwise when it is stopped.
pub fn request(
    run: &RunDir,
    manifest: &Manifest,
    catalog: &Catalog,
    cell: &Cell,
    (number, block): (usize, u32),
    steps: Option<u64>,
) -> anyhow::Result<LaunchRequest> {
    let settings = &manifest.settings;
    let program = match (&cell.command, cell.all_reduce_bytes) {
        (Some(argv), _) => Program::Command(argv.clone()),
        (None, Some(bytes)) => {
            Program::AllReduce(AllReduce { bytes, collectives: settings.collectives, rendezvous: None })
        }
        (None, None) => {
            let workload = workload_lookup::workload(catalog, &cell.workload)?;
            let global_batch = cell.global_batch.context("a cell with a workload has a batch")?;
            let plan = cell.plan.context("a cell with a workload has a plan")?;
            Program::Training(Box::new(Training {
                steps,
                ..training(settings, workload, global_batch, plan)
            }))
        }
    };
    let launch = launch_name(number, cell);
    let program_of_catalog = catalog.program(&cell.workload).filter(|_| cell.command.is_some());
    let checkpoint = program_of_catalog.and_then(|program| program.checkpoint.clone());
    let spec = LaunchSpec {
        cell: cell.name.clone(),
        block,
        steps_regex: settings.steps_regex.clone().filter(|_| cell.command.is_some()),
        input: settings.input.clone().filter(|_| cell.command.is_some()),
        surroundings: Surroundings::with_folder(settings.surroundings.as_ref(), cell.folder.as_ref())
            .filter(|_| cell.command.is_some()),
        checkpoint: checkpoint.map(|definition| JobCheckpoint { folder: launch.clone(), definition }),
        sharing: cell.sharing.clone(),
        threads: settings.threads.unwrap_or_else(|| threads(&cell.devices)),
        threads_named: settings.threads.is_some(),
        memory_bytes: settings.memory_bytes,
        // Repeats differ in their random numbers, as in everything else that is not controlled.
        seed: manifest.seed.wrapping_add(u64::from(block)),
        ..LaunchSpec::new(launch, &cell.job, program, cell.devices.clone())
    };
    let heartbeat = settings.heartbeat_s.map_or(Timeouts::ENDLESS, Duration::from_secs_f64);
    let first_step = settings.first_step_timeout_s.map_or(FIRST_STEP, Duration::from_secs_f64);
    let timeouts = Timeouts { heartbeat, first_step, ..Timeouts::default() };
    Ok(LaunchRequest { run: run.clone(), spec, timeouts, isolation: Isolation::default() })
}

/// Lets the program of a launch go on from what an earlier launch has saved in this folder of the run's checkpoints.
pub fn resume(spec: &mut LaunchSpec, catalog: &Catalog, cell: &Cell, folder: &str) {
    let program = catalog.program(&cell.workload);
    if let (Some(program), Some(batch), Some(plan)) = (program, cell.global_batch, &cell.plan) {
        spec.program = Program::Command(program.arguments_to_resume(batch, plan, &cell.vary));
    }
    if let Some(checkpoint) = &mut spec.checkpoint {
        folder.clone_into(&mut checkpoint.folder);
    }
}

/// `0007-resnet50`.
fn launch_name(number: usize, cell: &Cell) -> String {
    format!("{number:04}-{}", cell.workload)
}

/// A job that trains with the settings of a run until it is stopped.
pub fn training(settings: &Settings, workload: &Workload, global_batch: u32, plan: Plan) -> Training {
    Training {
        data: settings.data.clone(),
        loaders: settings.loaders,
        offload_threads: settings.offload_threads,
        collectives: settings.collectives,
        ..Training::new(workload.clone(), global_batch, plan)
    }
}

/// Threads of each rank where the user names none: one a core of the rank's device; beside GPUs, the
/// cores are shared out among the ranks.
pub fn threads(devices: &[Device]) -> u32 {
    match devices.first() {
        Some(Device::Cpu(cores)) => cores.len() as u32,
        _ => {
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
            (cores / devices.len().max(1) as u32).max(1)
        }
    }
}
