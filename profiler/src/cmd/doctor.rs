//! `profile doctor`: what this machine offers, what it lacks, and what the harness itself costs.

use std::{path::PathBuf, time::Duration};

use schema::{
    catalog::Catalog,
    device::Device,
    manifest::Settings,
    rows::{self, DoctorRow, Health},
    run_dir::RunDir,
};

use super::Exit;
use crate::{
    blocks,
    cells::{self, Grid},
    device,
    interrupt::Interrupt,
    machine, overhead, pool, programs,
    rig::Rig,
    run::{self, Request},
    spin, table,
};

/// Show what this machine offers and lacks.
///
/// With --overhead a job is trained for about a minute and a half while the harness watches it in
/// some stretches and looks away in others: the ratio of step times is what being watched costs.
///
/// Example: `profile doctor`
///
/// Example: `profile doctor --overhead --device cpu:0`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Measure what the harness costs the job it watches.
    #[arg(long)]
    overhead: bool,
    /// The job to watch [default: gpt2-mini, or synthetic-spin without libtorch].
    #[arg(long, value_name = "JOB", requires = "overhead")]
    job: Option<schema::job::Job>,
    /// The device to watch it on. Without it, the best that is present.
    #[arg(long, requires = "overhead")]
    device: Option<Device>,
    /// Blocks of four stretches of a second.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "overhead", value_parser = clap::value_parser!(u32).range(2..))]
    blocks: u32,
    /// Directory of the overhead's run [default: runs/<utc time>-doctor-<hash>].
    #[arg(long, value_name = "DIR", requires = "overhead")]
    out: Option<PathBuf>,
    /// Print rows as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.overhead {
        return measure_overhead(args);
    }
    let rows = examine()?;
    if args.json {
        println!("{}", rows::to_json(&rows));
    } else {
        let mut table = table::new(&["about", "health", "found"]);
        for row in &rows {
            table.add_row([row.about.clone(), row.health.to_string(), row.found.clone()]);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
        table::print(&table);
    }
    // Without a worker no workload can be trained; all other lacks narrow what can be measured.
    let trains = rows.iter().any(|row| row.about == WORKER && row.health == Health::Ok);
    Ok(if trains { Exit::Ok } else { Exit::MachineLacks })
}

const WORKER: &str = "torch-worker";

fn examine() -> anyhow::Result<Vec<DoctorRow>> {
    let mut rows = Vec::new();
    let mut say =
        |about: &str, health, found: String| rows.push(DoctorRow { about: about.into(), health, found });
    let machine = machine::facts(None, device::driver_version());
    say("cpu", Health::Ok, machine.cpu.unwrap_or_else(|| "unknown".into()));
    say("kernel", Health::Ok, machine.kernel.unwrap_or_else(|| "unknown".into()));
    if machine.hypervisor == Some(true) {
        let found = "virtual machine: steal is watched, and cores may share a physical one";
        say("hypervisor", Health::Note, found.into());
    }
    worker(&mut say);
    let found = device::discover()?;
    if let Some(reason) = &found.no_gpu {
        say("cuda", Health::Lacks, reason.to_string());
    }
    for device in &found.devices {
        describe(&mut say, device);
    }
    siblings(&mut say)?;
    say("supervision", Health::Ok, supervision().into());
    Ok(rows)
}

fn worker(say: &mut impl FnMut(&str, Health, String)) {
    let program = match programs::find(WORKER) {
        Ok(_) => programs::torch_capabilities(),
        Err(error) => Err(error),
    };
    let capabilities = match program {
        Ok(capabilities) => capabilities,
        Err(error) => return say(WORKER, Health::Lacks, format!("{error:#}")),
    };
    if capabilities.version != env!("CARGO_PKG_VERSION") {
        let found = format!("is version {}, and this is {}", capabilities.version, env!("CARGO_PKG_VERSION"));
        return say(WORKER, Health::Lacks, format!("{found}; run scripts/setup"));
    }
    say(WORKER, Health::Ok, format!("libtorch {}", capabilities.libtorch));
    match (&capabilities.cuda, &capabilities.cuda_error) {
        (Some(version), None) => {
            say(
                "libtorch_cuda",
                Health::Ok,
                format!("CUDA {version}, {} devices", capabilities.cuda_devices),
            );
        }
        (_, Some(error)) => say("libtorch_cuda", Health::Lacks, error.clone()),
        (None, None) => say("libtorch_cuda", Health::Lacks, "this libtorch has no CUDA".into()),
    }
}

fn describe(say: &mut impl FnMut(&str, Health, String), device: &Device) {
    let reader = match device::open(device) {
        Ok(reader) => reader,
        Err(error) => return say(&device.to_string(), Health::Lacks, error.to_string()),
    };
    let facts = reader.facts();
    let memory = facts.memory_bytes.map(|bytes| format!(", {}", schema::units::HumanBytes(bytes)));
    let name = device.to_string();
    say(&name, Health::Ok, format!("{}{}", facts.name, memory.unwrap_or_default()));
    for (metric, capability) in &facts.capabilities {
        // A capability begins with `ok` where there is one, and with the reason where there is none.
        let (health, found) = match capability.strip_prefix("ok") {
            Some("") => (Health::Ok, "can be read"),
            Some(qualified) => (Health::Ok, qualified.trim_start_matches(", ")),
            None => (Health::Lacks, capability.as_str()),
        };
        say(&format!("{name} {metric}"), health, found.into());
    }
}

/// Two spin loops on each neighbouring pair of cores, the first four pairs of them.
fn siblings(say: &mut impl FnMut(&str, Health, String)) -> anyhow::Result<()> {
    let cores = device::allowed_cores()?;
    for pair in cores.windows(2).take(4) {
        let about = format!("cores {} and {}", pair[0], pair[1]);
        let Some(ratio) = spin::sibling_ratio(pair[0], pair[1]) else {
            say(&about, Health::Lacks, "a spin loop could not be pinned to them".into());
            continue;
        };
        let found = format!(
            "a spin loop takes {:.3} times as long beside another ({:.3} to {:.3})",
            ratio.estimate, ratio.lo, ratio.hi
        );
        let apart = ratio.lo < 1.05;
        let health = if apart { Health::Ok } else { Health::Note };
        let advice = if apart { "" } else { "; they share a physical core, or the host is busy" };
        say(&about, health, format!("{found}{advice}"));
    }
    Ok(())
}

/// What the leash promises and what it cannot.
fn supervision() -> &'static str {
    "kill -9 of any one process of ours leaves none behind; a program's own children outlive harness \
     and leash killed at the same instant, and a child that leaves both its session and its \
     environment outlives a killed leash"
}

fn measure_overhead(args: &Args) -> anyhow::Result<Exit> {
    let catalog = Catalog::embedded();
    let job = match &args.job {
        Some(job) => job.clone(),
        None if programs::find(WORKER).is_ok() => "gpt2-mini".parse()?,
        None => "synthetic-spin".parse()?,
    };
    let pool = pool::resolve(args.device.as_slice())?;
    let cells = cells::alone(&catalog, &[job], &Grid::default(), &pool)?;
    if let Some(reason) = &cells[0].unsupported {
        return Err(Exit::Usage.because(format!("{} cannot run here: {reason}", cells[0].name)));
    }
    let manifest = run::manifest(&catalog, Request { cells, settings: Settings::default(), seed: 1 })?;
    let run = RunDir::create(&args.out.clone().unwrap_or_else(|| run::directory("doctor", &manifest)))?;
    run.write_manifest(&manifest)?;
    let sampler = run::start_sampler(&run, &manifest)?;
    let mut rig = Rig::new(programs::all()?)?;
    let request = blocks::request(&run, &manifest, &catalog, &manifest.cells[0], 0, None)?;
    let stretch = Duration::from_secs(1);
    let row = overhead::measure(&mut rig, &sampler, request, args.blocks, stretch, &Interrupt::listen()?)?;
    drop(rig);
    sampler.stop()?;
    if args.json {
        println!("{}", rows::to_json(&row));
    } else {
        println!(
            "{} on {}: watched / not watched {:.4} ({:.4} to {:.4}, 95 %, {} blocks); the harness uses {:.2} ms of CPU time a second",
            row.job,
            row.device,
            row.step_ratio,
            row.step_ratio_ci_lo,
            row.step_ratio_ci_hi,
            row.blocks,
            row.harness_cpu_us_per_s as f64 / 1e3,
        );
    }
    eprintln!("run: {}", run.path().display());
    Ok(Exit::Ok)
}
