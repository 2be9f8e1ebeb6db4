//! `profile calibrate`: measures the parts of this machine, and writes `machine.toml`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use clap::ValueEnum as _;
use cli::{
    heading,
    table::{self, TableLayout, TableOptions},
};
use jobs::{
    catalog_programs,
    cells::{self, Grid, joined},
    command_line::{self, CommandLine},
    manifest::{self, RunRequest},
    pool, surroundings, users_programs,
    vary::Varied,
};
use record::{
    calibration::{Calibration, Measured, SuspendRow},
    manifest::{DeviceFacts, Manifest, Settings},
    rows,
};
use rig::{Exit, device, output};
use schema::{
    catalog::Catalog,
    device::Device,
    job::Job,
    spec::Collectives,
    units::{HumanBytes, Nanos},
};

use super::options::seconds;
use crate::calibrate::{self, CalibrationPart, Calibrator};

/// Measure the parts of this machine, and write the results to machine.toml.
///
/// On the devices of the pool, it measures the contention between cores, the memory bandwidth of CPU devices, copies to and
/// from GPUs, and all-reduces by size and number of ranks through the process groups that training uses. For each JOB, it
/// measures the cost to stop the job and to start it again from a checkpoint, part by part, on a real launch, and what one suspension
/// costs in each of the ways of `sched run --suspend`: step-gate, pause, checkpoint, and cuda-checkpoint if it is usable here. For each
/// program of --cmd, it measures the start, the end, and what one hold at a step costs. Without a JOB and a program, no restart is
/// measured: each takes several launches, and you choose the jobs that matter.
///
/// Every number has a 95 % interval over repeats. The file is replaced only when everything is measured; it also has what could
/// not be measured, with the reason. The events behind the numbers are in a separate run under runs/. Nothing else should use
/// the machine during a calibration.
///
/// Example: `profile calibrate --device cpu:0,cpu:1`
///
/// Example: `profile calibrate resnet18-cifar gpt2-mini@dp2 --device cuda:0,cuda:1 --out h200.toml`
///
/// Example: `profile calibrate --parts restart --cmd "python3 train.py" --device cpu:0`
///
/// Example: `profile calibrate --parts all-reduce --kib 1,1024 --device cpu:0,cpu:1`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Jobs whose restarts are measured: `WORKLOAD[@bN][@PLAN][@on=DEVICE]`, or `set:NAME`.
    jobs: Vec<Job>,
    /// A program of your own whose start, end and hold are measured, with the step hook in it unless --steps-regex is given. The text
    /// is split as a shell splits it, but no shell runs it.
    ///
    /// It takes the first device, and has to take at least ten steps. A program is started again from its beginning.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "COMMAND")]
    cmd: Vec<CommandLine>,
    /// A regular expression for the lines of a program's output that end a step, as in `profile single`. Such a program is frozen in
    /// place of being held, and the cost of freezing it is measured.
    #[arg(long, help_heading = heading::PROGRAMS, value_name = "REGEX", value_parser = command_line::steps_regex)]
    steps_regex: Option<String>,
    /// Devices to measure [default: the best device that is present].
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    /// The parts to measure [default: all, and restart only if a JOB is named].
    #[arg(long, value_name = "PART,..", value_delimiter = ',')]
    parts: Vec<CalibrationPart>,
    /// The number of measurements of each value.
    #[arg(short = 'n', long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..))]
    repeats: u32,
    /// Steady time of each all-reduce launch [default: 1].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Sizes of all-reduces in KiB [default: 1, 4, 16 and so on up to 262144, as far as memory allows].
    #[arg(long, help_heading = heading::DEVICES, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    kib: Vec<u64>,
    /// The library that moves tensors between ranks: gloo or nccl [default: gloo for CPU devices, nccl for GPUs].
    #[arg(long, help_heading = heading::DEVICES, value_name = "LIBRARY")]
    collectives: Option<Collectives>,
    /// The time after which no measurement is started.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    budget: Option<Duration>,
    /// A file with additional workloads and programs.
    #[arg(long, help_heading = heading::JOBS, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Seed of the order of launches, the initial weights and the data.
    #[arg(long, help_heading = heading::RUN, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file to write. An existing file is replaced.
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    out: PathBuf,
    /// Directory of the run with the events [default: runs/<utc time>-calibrate-<hash>].
    #[arg(long, help_heading = heading::RUN, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Print the calibration as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

const SECONDS: f64 = 1.0;

/// The default sizes: from 1 KiB to 256 MiB, each four times the one before.
const SIZES_KIB: [u64; 10] = [1, 4, 16, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18];

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    args.table.check(&COLUMNS)?;
    let folder = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        bail!("--out {}: there is no folder {}", args.out.display(), folder.display());
    }
    let catalog = Catalog::open(&args.catalog)?;
    let pool = pool::resolve(&args.device, args.collectives)?;
    let parts = parts(args)?;
    let manifest = manifest(args, &catalog, &pool, &parts)?;
    let run = args.run.clone().unwrap_or_else(|| manifest::directory("calibrate", &manifest));
    let calibrator =
        Calibrator { catalog: &catalog, manifest: &manifest, pool: &pool, parts: &parts, run: &run };
    let found = calibrator.measure()?;
    found.write(&args.out)?;
    if args.json {
        output::print(rows::to_json(&found))?;
    } else {
        show(&found, &args.table)?;
    }
    for row in &found.not_measured {
        output::note(format_args!("not measured: {}: {}: {}", row.what, row.status, row.reason));
    }
    if found.run.is_some() {
        output::news(format_args!("run: {}", run.display()));
    }
    output::news(format_args!("calibration: {}", args.out.display()));
    Ok(calibrator.exit(&found))
}

/// The parts to measure, without duplicates, in the order in which they are measured.
fn parts(args: &Args) -> anyhow::Result<Vec<CalibrationPart>> {
    if args.parts.is_empty() {
        return Ok(CalibrationPart::value_variants().to_vec());
    }
    let names = |part| args.parts.contains(&part);
    match (names(CalibrationPart::Restart), args.jobs.is_empty() && args.cmd.is_empty()) {
        (true, true) => {
            bail!(
                "--parts restart: name a job to restart, as in `profile calibrate lstm`, or a program with --cmd"
            )
        }
        (false, false) => {
            bail!(
                "a job or a program is named, but --parts does not contain restart; add it, or remove the name"
            )
        }
        _ => {}
    }
    if !names(CalibrationPart::AllReduce) && (args.seconds.is_some() || !args.kib.is_empty()) {
        bail!(
            "--kib and --seconds apply to all-reduces only, and --parts does not contain all-reduce; add it"
        );
    }
    Ok(CalibrationPart::value_variants().iter().copied().filter(|part| names(*part)).collect())
}

/// The manifest of the run: all-reduces, and jobs to restart.
fn manifest(
    args: &Args,
    catalog: &Catalog,
    pool: &[Device],
    parts: &[CalibrationPart],
) -> anyhow::Result<Manifest> {
    let facts: Vec<DeviceFacts> = pool
        .iter()
        .map(|device| match device::open(device) {
            Ok(reader) => Ok(reader.facts().clone()),
            Err(error) => Err(Exit::MachineLacks.because(error.to_string())),
        })
        .collect::<anyhow::Result<_>>()?;
    let jobs = cells::alone(catalog, &args.jobs, &Grid::default(), pool, None)?;
    if let [only] = &jobs[..]
        && let Some(reason) = &only.unsupported
    {
        return Err(Exit::Usage.because(format!("{} cannot run here: {reason}", only.name)));
    }
    let mut cells = Vec::new();
    if parts.contains(&CalibrationPart::AllReduce) {
        let kib = if args.kib.is_empty() { &SIZES_KIB[..] } else { &args.kib };
        let sizes: BTreeSet<u64> = kib.iter().map(|kib| kib << 10).collect();
        let sizes: Vec<u64> = sizes.into_iter().collect();
        cells = calibrate::all_reduces(&facts, &sizes);
        if cells.is_empty() && !args.parts.is_empty() {
            bail!("--parts all-reduce: {}", calibrate::NO_PAIR);
        }
        if args.kib.is_empty() {
            // The user named no sizes, so those that do not fit into memory are left out.
            cells.retain(|cell| cell.unsupported.is_none());
        }
    }
    cells.extend(jobs);
    let surroundings = surroundings::make(None, &[])?;
    let commands = args.cmd.iter().map(|CommandLine(argv)| &argv[..]);
    for program in users_programs::programs(catalog, commands, &[], None, &Varied::default())? {
        cells.push(users_programs::cell(&program, &pool[0], &surroundings)?);
    }
    catalog_programs::check(&cells, catalog, &surroundings)?;
    cells::distinct(&cells)?;
    let has_programs = cells.iter().any(|cell| cell.command.is_some());
    if args.steps_regex.is_some() && !has_programs {
        bail!("--steps-regex applies to programs only, and none is named; name one with --cmd");
    }
    let settings = Settings {
        repeats: args.repeats,
        steps_regex: args.steps_regex.clone(),
        seconds: Some(args.seconds.unwrap_or(SECONDS)),
        budget_s: args.budget.map(|budget| budget.as_secs_f64()),
        collectives: args.collectives,
        catalogs: args.catalog.clone(),
        surroundings: has_programs.then_some(surroundings),
        ..Settings::default()
    };
    manifest::make(
        catalog,
        RunRequest { cells, groups: Vec::new(), settings, seed: args.seed, tags: Vec::new() },
    )
}

/// The columns of what was measured.
const COLUMNS: [&str; 7] = ["what", "measured", "95 % interval", "size", "devices", "repeats", "more"];

fn show(found: &Calibration, options: &TableOptions) -> anyhow::Result<()> {
    let mut table = table::new(&COLUMNS);
    table.mark_text(&["devices", "more"]);
    let mut line =
        |what: String, devices: &[Device], bytes: Option<u64>, number: [String; 2], repeats: u32, more| {
            let [measured, interval] = number;
            let size = table::or_dash(bytes.map(HumanBytes));
            table.add_row([what, measured, interval, size, joined(devices), repeats.to_string(), more]);
        };
    let nothing = String::new;
    for row in &found.spin {
        let number = interval(row.ratio, |ratio| format!("{ratio:.3} times"));
        line("spin loop beside another".into(), &row.devices, None, number, row.repeats, nothing());
    }
    for row in &found.memory {
        let number = interval(row.bytes_per_s, gb_per_s);
        line("memory, triad".into(), &row.devices, Some(row.array_bytes), number, row.repeats, nothing());
    }
    for row in &found.copy {
        let what = format!("copy, {}", row.direction);
        let number = interval(row.bytes_per_s, gb_per_s);
        line(what, std::slice::from_ref(&row.device), Some(row.bytes), number, row.repeats, nothing());
    }
    for row in &found.all_reduce {
        let what = format!("all-reduce, {}", row.collectives);
        let number = interval(row.time_ns, time);
        let [algorithm, bus] =
            [row.algorithm_bytes_per_s, row.bus_bytes_per_s].map(|speed| gb_per_s(speed.value));
        line(
            what,
            &row.devices,
            Some(row.bytes),
            number,
            row.repeats,
            format!("{algorithm}, on the bus {bus}"),
        );
    }
    for row in &found.restart {
        let what = format!("{}, {}", row.job, row.part);
        let number = interval(row.ns, time);
        line(what, &row.devices, row.bytes, number, row.repeats, nothing());
    }
    options.print(&table)?;
    if found.suspend.is_empty() { Ok(()) } else { show_suspensions(&found.suspend, options.layout()) }
}

/// Prints what it costs each job to be suspended in each way.
fn show_suspensions(rows: &[SuspendRow], layout: TableLayout) -> anyhow::Result<()> {
    let heads = [
        "suspended by",
        "job",
        "both",
        "95 % interval",
        "suspend",
        "resume",
        "moved",
        "devices",
        "repeats",
        "more",
    ];
    let mut table = table::new(&heads);
    table.mark_text(&["job", "devices", "more"]);
    for row in rows {
        let way = row.suspension.to_string();
        let own = [way, row.job.clone()];
        let devices = joined(&row.devices);
        let rest = match &row.cost {
            Some(cost) => {
                let [both, interval] = interval(cost.both_ns, time);
                let [suspend, resume] =
                    [cost.suspend_ns, cost.resume_ns].map(|measured| time(measured.value));
                let moved = table::or_dash(cost.bytes.map(HumanBytes));
                [both, interval, suspend, resume, moved, devices, cost.repeats.to_string(), String::new()]
            }
            None => {
                let [both, interval, suspend, resume, moved, repeats] = [(); 6].map(|()| "-".to_owned());
                let why_not = row.why_not.clone().unwrap_or_default();
                [both, interval, suspend, resume, moved, devices, repeats, why_not]
            }
        };
        table.add_row(own.into_iter().chain(rest));
    }
    layout.print(&table)
}

/// A number and its interval, formatted by `spell`.
fn interval<T>(measured: Measured<T>, spell: impl Fn(T) -> String) -> [String; 2] {
    let ends = measured.interval.map(|ends| ends.map(&spell).join(" to "));
    [spell(measured.value), ends.unwrap_or_else(|| "repeats differ too much".into())]
}

fn time(ns: u64) -> String {
    Nanos(ns).to_string()
}

fn gb_per_s(bytes_per_s: u64) -> String {
    let gb_per_s = bytes_per_s as f64 / 1e9;
    // The speed of a small tensor is mostly latency, and two decimals would round it to 0.
    if gb_per_s < 0.1 { format!("{gb_per_s:.4} GB/s") } else { format!("{gb_per_s:.2} GB/s") }
}
