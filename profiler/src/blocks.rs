//! The course of a run: block after block over its cells, until each is known well enough.

use std::time::Duration;

use anyhow::Context as _;
use schema::{
    FORMAT,
    catalog::{Catalog, Workload},
    device::Device,
    manifest::{Cell, Manifest, Settings},
    plan::Plan,
    rows::{Measurement, Status, Warning},
    run_dir::RunDir,
    spec::{AllReduce, LaunchSpec, Program, Training},
    units::Nanos,
};
use statistics::stop::{self, MIN_REPEATS, Verdict};

use crate::{
    derive::{self, Derived},
    interrupt::Interrupt,
    measure::{self, Enough},
    named, order,
    progress::Progress,
    rig::{LaunchRequest, Patience, Rig},
    sampler::Sampler,
    sharing::Joins,
    table,
    usage::{Scan, top_foreign},
};

/// Launches without a number after which a cell without any is given up.
const GIVE_UP_AFTER: usize = 2;

/// A run that is going on.
pub struct Blocks<'a> {
    pub run: &'a RunDir,
    pub manifest: &'a Manifest,
    /// Those of the manifest that are measured here.
    pub cells: &'a [Cell],
    pub catalog: &'a Catalog,
    pub rig: &'a mut Rig,
    pub sampler: &'a Sampler,
    pub interrupt: &'a Interrupt,
    pub derived: Derived,
    /// When the command began: since then the budget is spent.
    pub began: Nanos,
}

/// Why a run measured no more.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// What was asked for and not measured: `cell, block N`.
    pub launches: Vec<String>,
    pub interrupted: bool,
}

impl Blocks<'_> {
    /// Measures what is missing, and returns what is missing still.
    pub fn measure(&mut self) -> anyhow::Result<Missing> {
        let progress = Progress::new(self.launches_left());
        let mut stopped = None;
        for block in 0.. {
            let wanted: Vec<usize> = order::of_block(self.cells.len(), self.manifest.seed, block)
                .into_iter()
                .filter(|&cell| self.wants(&self.cells[cell], block))
                .collect();
            if wanted.is_empty() && block >= self.manifest.settings.repeats {
                break;
            }
            stopped = self.block(block, &wanted, &progress)?;
            if stopped.is_some() {
                break;
            }
            progress.expect(self.launches_left());
        }
        progress.finish();
        let launches = if stopped.is_some() { self.missing_launches() } else { Vec::new() };
        Ok(Missing { launches, interrupted: stopped == Some(Stopped::Interrupted) })
    }

    fn block(&mut self, block: u32, cells: &[usize], progress: &Progress) -> anyhow::Result<Option<Stopped>> {
        for &cell in cells {
            if self.interrupt.asked() {
                return Ok(Some(Stopped::Interrupted));
            }
            if self.budget_is_spent() {
                return Ok(Some(Stopped::Budget));
            }
            let cell = &self.cells[cell];
            progress.begin(&cell.name);
            let before = Scan::take();
            let launch = self.launch(cell, block)?;
            progress.end(&self.line(cell, &launch));
            if self.row(&launch).is_some_and(|row| row.warnings.iter().any(|w| w == Warning::Foreign)) {
                progress.say(&busiest_other(cell, &before));
            }
        }
        Ok(self.interrupt.asked().then_some(Stopped::Interrupted))
    }

    /// Starts a cell once and adds it to the tables; returns the launch's name.
    fn launch(&mut self, cell: &Cell, block: u32) -> anyhow::Result<String> {
        let request = request(self.run, self.manifest, self.catalog, cell, block, None)?;
        let launch = request.spec.launch.clone();
        let settings = &self.manifest.settings;
        let asked = settings.steps.map(Enough::Steps).or(settings.seconds.map(Enough::Seconds));
        let to_its_end = cell.command.as_ref().map(|_| Enough::End);
        let enough = asked.or(to_its_end).context("the manifest names neither seconds nor steps")?;
        measure::alone(self.rig, self.sampler, request, enough, self.interrupt);
        self.sampler.flush()?;
        self.derived.add(&launch)?;
        Ok(launch)
    }

    /// Whether a block should launch this cell.
    fn wants(&self, cell: &Cell, block: u32) -> bool {
        let rows = self.rows(cell);
        let failed = rows.iter().filter(|row| row.status == Status::Failed).count();
        let given_up = failed >= GIVE_UP_AFTER && failed == rows.len();
        let done = rows.iter().any(|row| row.repeat == block);
        if cell.unsupported.is_some() || given_up || done {
            return false;
        }
        match self.manifest.settings.ci_percent {
            Some(_) => self.more_launches(cell) > 0,
            None => block < self.manifest.settings.repeats,
        }
    }

    /// How many more launches the interval asked for is likely to take.
    fn more_launches(&self, cell: &Cell) -> usize {
        let Some(target) = self.manifest.settings.ci_percent else { return 0 };
        // Of a program without steps one number a launch is known: how long it ran.
        let of_row =
            |row: &&Measurement| row.step_ns_median.or(row.wall_ns.filter(|_| cell.command.is_some()));
        let medians: Vec<f64> = self.rows(cell).iter().filter_map(of_row).map(|ns| ns as f64).collect();
        let repeats = (self.manifest.settings.repeats as usize).max(MIN_REPEATS);
        match stop::verdict(&medians, target, repeats) {
            Verdict::Reached => 0,
            Verdict::Continue { estimated_more_launches } => estimated_more_launches,
        }
    }

    fn rows(&self, cell: &Cell) -> Vec<&Measurement> {
        derive::rows_of(cell, &self.derived.measurements)
    }

    /// How many launches are still to come, as far as can be told.
    fn launches_left(&self) -> u64 {
        let left_of = |cell: &Cell| match self.manifest.settings.ci_percent {
            Some(_) if self.wants(cell, u32::MAX) => self.more_launches(cell),
            Some(_) => 0,
            None => (0..self.manifest.settings.repeats).filter(|&block| self.wants(cell, block)).count(),
        };
        self.cells.iter().map(|cell| left_of(cell) as u64).sum()
    }

    fn missing_launches(&self) -> Vec<String> {
        if self.manifest.settings.ci_percent.is_some() {
            let unreached = self.cells.iter().filter(|cell| self.wants(cell, u32::MAX));
            return unreached.map(|cell| format!("{}, until its interval is reached", cell.name)).collect();
        }
        let of_block = |block| {
            let wanted = self.cells.iter().filter(move |cell| self.wants(cell, block));
            wanted.map(move |cell| format!("{}, block {block}", cell.name))
        };
        (0..self.manifest.settings.repeats).flat_map(of_block).collect()
    }

    fn budget_is_spent(&self) -> bool {
        let spent = Nanos::monotonic_now().saturating_sub(self.began).as_secs_f64();
        self.manifest.settings.budget_s.is_some_and(|budget| spent >= budget)
    }

    /// Absent where the launch was interrupted.
    fn row(&self, launch: &str) -> Option<&Measurement> {
        self.derived.measurements.iter().find(|row| row.launch == launch)
    }

    /// One line for people about a launch.
    fn line(&self, cell: &Cell, launch: &str) -> String {
        let Some(row) = self.row(launch) else { return format!("{launch}: interrupted") };
        match (row.status, row.step_ns_median) {
            (Status::Ok, Some(ns)) => {
                format!("{launch}: {} a step, {} steps used", Nanos(ns), row.steps_used)
            }
            (Status::Ok, None) => format!("{launch}: ran for {}", table::or_dash(row.wall_ns.map(Nanos))),
            _ => format!("{}: {}", cell.name, row.err_detail.as_deref().unwrap_or("failed")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    Interrupted,
    Budget,
}

/// What the next launch of a run is told, for a cell and a block.
///
/// With `steps` a job leaves by itself after so many; otherwise when it is told to.
pub fn request(
    run: &RunDir,
    manifest: &Manifest,
    catalog: &Catalog,
    cell: &Cell,
    block: u32,
    steps: Option<u64>,
) -> anyhow::Result<LaunchRequest> {
    let settings = &manifest.settings;
    let program = match (&cell.command, cell.all_reduce_bytes) {
        (Some(argv), _) => Program::Command(argv.clone()),
        (None, Some(bytes)) => {
            Program::AllReduce(AllReduce { bytes, collectives: settings.collectives, rendezvous: None })
        }
        (None, None) => {
            let workload = named::workload(catalog, &cell.workload)?;
            let global_batch = cell.global_batch.context("a cell with a workload has a batch")?;
            let plan = cell.plan.context("a cell with a workload has a plan")?;
            Program::Training(Box::new(Training {
                steps,
                ..training(settings, workload, global_batch, plan)
            }))
        }
    };
    let spec = LaunchSpec {
        format: FORMAT,
        launch: format!("{:04}-{}", run.launches()?.len() + 1, cell.workload),
        job: cell.job.clone(),
        cell: cell.name.clone(),
        block,
        program,
        steps_regex: settings.steps_regex.clone().filter(|_| cell.command.is_some()),
        devices: cell.devices.clone(),
        sharing: cell.sharing.clone(),
        seat: None,
        threads: settings.threads.unwrap_or_else(|| threads(&cell.devices)),
        threads_named: settings.threads.is_some(),
        memory_bytes: settings.memory_bytes,
        // Repeats differ in chance as they differ in everything else that is not controlled.
        seed: manifest.seed.wrapping_add(u64::from(block)),
    };
    let heartbeat = settings.heartbeat_s.map_or(Patience::ENDLESS, Duration::from_secs_f64);
    let patience = Patience { heartbeat, ..Patience::default() };
    Ok(LaunchRequest { run: run.clone(), spec, patience, joins: Joins::default() })
}

/// A job that trains with the settings of a run until it is told to leave.
pub(crate) fn training(settings: &Settings, workload: &Workload, global_batch: u32, plan: Plan) -> Training {
    Training {
        workload: workload.clone(),
        global_batch,
        plan,
        steps: None,
        data: settings.data.clone(),
        loaders: settings.loaders,
        restore: None,
        offload_threads: settings.offload_threads,
        collectives: settings.collectives,
        exact: false,
        rendezvous: None,
    }
}

/// Who it was, for people alone: a record names no program of others.
fn busiest_other(cell: &Cell, before: &Scan) -> String {
    let of_device = |device: &Device| match device {
        Device::Cpu(cores) => cores.clone(),
        _ => Vec::new(),
    };
    let cores: Vec<u16> = cell.devices.iter().flat_map(of_device).collect();
    match top_foreign(before, &Scan::take(), &cores, &[std::process::id()]) {
        Some(other) => format!(
            "  others used its device: most of all {} (process {}), {} of CPU time",
            other.name,
            other.pid,
            Nanos(other.cpu_ns)
        ),
        None => "  others used its device, and none of them runs any more".into(),
    }
}

/// Threads of each rank where the user names none: one a core of the rank's device; beside GPUs, the
/// cores are shared out among the ranks.
pub(crate) fn threads(devices: &[Device]) -> u32 {
    match devices.first() {
        Some(Device::Cpu(cores)) => cores.len() as u32,
        _ => {
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
            (cores / devices.len().max(1) as u32).max(1)
        }
    }
}

/// How often each cell is launched at least.
pub fn fewest_launches(settings: &Settings) -> u32 {
    match settings.ci_percent {
        Some(_) => settings.repeats.max(MIN_REPEATS as u32),
        None => settings.repeats,
    }
}

/// What each cell is expected to take: for `--dry-run` and for people's patience.
pub fn estimate(manifest: &Manifest) -> Option<Nanos> {
    /// A launch takes so long beyond its steady time: start, warm-up, end.
    const AROUND_S: f64 = 3.0;
    let settings = &manifest.settings;
    let runnable = manifest.cells.iter().filter(|cell| cell.unsupported.is_none()).count();
    let launches = runnable as f64 * f64::from(fewest_launches(settings));
    settings.seconds.map(|seconds| Nanos::from_secs_f64(launches * (seconds + AROUND_S)))
}
