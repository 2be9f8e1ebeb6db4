//! `profile doctor`: what this machine offers and lacks, and the cost of the harness itself.

mod overhead;
mod readings;
mod transfers;
mod trial;

use std::{path::PathBuf, slice};

use cli::table::{self, TableLayout};
use jobs::machine;
use record::rows::{self, DoctorRow, Health};
use rig::{Exit, cgroup::quotas_of, cuda_checkpoint, device, mps, output, programs};
use schema::device::Device;

use statistics::Interval;

use crate::core_contention;

/// Show what this machine offers and lacks.
///
/// With --overhead, a job is trained for about a minute and a half. The harness watches it in some stretches and not in others:
/// the ratio of the step times is the cost of being watched.
///
/// With --readings, each reading of the device is taken many times at rest and again while a job trains, to measure how long it
/// takes. Metrics that one call returns together share the time of `field_values` or `gpm_metrics`; their rows have what the
/// driver says about each, if anything.
///
/// With --transfers, page-locked memory is copied to a GPU and back for a few seconds, while the device's counters of PCIe
/// traffic are read. This measures the speed of the link and the accuracy of the counters. Nothing else should use the device
/// at that time.
///
/// Example: `profile doctor`
///
/// Example: `profile doctor --overhead --device cpu:0`
///
/// Example: `profile doctor --overhead --device cuda:0 --fast-hz 100`
///
/// Example: `profile doctor --readings --device cuda:0 --job resnet18-cifar --calls 200`
///
/// Example: `profile doctor --transfers --device cuda:0`
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("measurement").args(["overhead", "readings", "transfers"])))]
pub(super) struct Args {
    /// Measure the cost of the harness to the job that it watches.
    #[arg(long, conflicts_with = "TableLayout")]
    overhead: bool,
    /// Measure how long readings of the device take, at rest and beside a job.
    #[arg(long)]
    readings: bool,
    /// Measure the link between host and GPU, and check the device's counters of its traffic.
    #[arg(long)]
    transfers: bool,
    /// The job to train [default: gpt2-mini, or synthetic-spin without libtorch].
    #[arg(long, value_name = "JOB", requires = "measurement", conflicts_with = "transfers")]
    job: Option<schema::job::Job>,
    /// The device to measure on [default: the best that is present; cuda:0 for transfers].
    #[arg(long, requires = "measurement")]
    device: Option<Device>,
    /// Number of blocks, each of four stretches of a second.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "overhead", value_parser = clap::value_parser!(u32).range(2..))]
    blocks: u32,
    /// Readings of the device per second while it is watched [default: the rate of its kind, 10 or 25].
    #[arg(long, value_name = "N", requires = "overhead", value_parser = hertz)]
    fast_hz: Option<f64>,
    /// Readings of each tier, at rest and again beside the job; a 99th percentile needs 200.
    #[arg(long, value_name = "N", default_value_t = 200, requires = "readings", value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// Size of each copy, in MiB.
    #[arg(long, value_name = "N", default_value_t = 8192, requires = "transfers", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    mib: u64,
    /// Copies in each direction, after one that does not count.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "transfers", value_parser = clap::value_parser!(u32).range(1..))]
    copies: u32,
    /// Directory of the job's run [default: runs/<utc time>-doctor-<hash>].
    #[arg(long, value_name = "DIR", requires = "measurement", conflicts_with = "transfers")]
    out: Option<PathBuf>,
    /// Print rows as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    layout: TableLayout,
}

/// Parses a rate. One reading in ten seconds would hardly be watching, and more than a thousand per second would leave time for
/// nothing else.
fn hertz(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hz) if (0.1..=1000.0).contains(&hz) => Ok(hz),
        _ => Err("expected a number from 0.1 to 1000".into()),
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.overhead {
        return overhead::run(args);
    }
    if args.readings {
        return readings::run(args);
    }
    if args.transfers {
        return transfers::run(args);
    }
    let rows = examine()?;
    if args.json {
        output::print(rows::to_json(&rows))?;
    } else {
        let mut table = table::new(&["about", "health", "found"]);
        table.mark_text(&["health", "found"]);
        for row in &rows {
            table.add_row([row.about.clone(), row.health.to_string(), row.found.clone()]);
        }
        args.layout.print(&table)?;
    }
    // Without torch-worker no workload can be trained. Anything else that is missing only limits what can be measured.
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
        let found = "virtual machine: steal time is measured, and cores may share a physical core";
        say("hypervisor", Health::Note, found.into());
    }
    for quota in quotas_of(std::process::id() as i32) {
        say("cpu quota", Health::Note, quota.to_string());
    }
    worker(&mut say);
    let found = device::discover()?;
    if let Some(reason) = &found.no_gpu {
        say("cuda", Health::Lacks, reason.to_string());
    } else {
        match device::cuda::version() {
            Ok(version) => say("libcuda", Health::Ok, format!("runs CUDA up to {version}")),
            Err(reason) => say("libcuda", Health::Lacks, reason.to_string()),
        }
    }
    for device in &found.devices {
        describe(&mut say, device);
    }
    let is_usable = |device: &&Device| matches!(device, Device::Cuda(_)) && device::open(device).is_ok();
    let gpus: Vec<Device> = found.devices.iter().filter(is_usable).cloned().collect();
    match cuda_checkpoint::check(&gpus) {
        Ok(()) => say(cuda_checkpoint::PROGRAM, Health::Ok, "can move a job off its GPU and back".into()),
        Err(why) => say(cuda_checkpoint::PROGRAM, Health::Lacks, why),
    }
    for gpu in &gpus {
        match mps::check(slice::from_ref(gpu)) {
            Ok(()) => say("mps", Health::Ok, format!("can share {gpu} by a daemon of its own")),
            Err(why) => say("mps", Health::Lacks, why),
        }
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
        let found =
            format!("is version {}, but this program is {}", capabilities.version, env!("CARGO_PKG_VERSION"));
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
        // The text of a capability begins with `ok` if the device has it; otherwise it is the reason.
        let (health, found) = match capability.strip_prefix("ok") {
            Some("") => (Health::Ok, "can be read"),
            Some(qualified) => (Health::Ok, qualified.trim_start_matches(", ")),
            None => (Health::Lacks, capability.as_str()),
        };
        say(&format!("{name} {metric}"), health, found.into());
    }
    for (part, number) in &facts.chip {
        say(&format!("{name} {part}"), Health::Ok, number.to_string());
    }
    if let Device::Cuda(index) = device
        && device::cuda::version().is_ok()
        && let Ok(uuid) = device::uuid(*index)
        && let Err(reason) = device::cuda::chip(&uuid)
    {
        say(&format!("{name} chip"), Health::Lacks, reason.to_string());
    }
}

/// The number of blocks of spin loops. With fewer, a busy host could be mistaken for cores that share a physical one.
const SPIN_BLOCKS: u32 = 8;

/// Runs two spin loops on each of the first four pairs of neighbouring cores.
fn siblings(say: &mut impl FnMut(&str, Health, String)) -> anyhow::Result<()> {
    let cores = device::allowed_cores()?;
    for pair in cores.windows(2).take(4) {
        let about = format!("cores {} and {}", pair[0], pair[1]);
        let Some(ratio) = core_contention::sibling_ratio(pair[0], pair[1], SPIN_BLOCKS) else {
            say(&about, Health::Lacks, "cannot pin a spin loop to them".into());
            continue;
        };
        let found = format!(
            "a spin loop takes {:.3} times as long beside another ({:.3} to {:.3})",
            ratio.estimate, ratio.lo, ratio.hi
        );
        let (health, advice) = cost_beside(ratio);
        say(&about, health, format!("{found}{advice}"));
    }
    Ok(())
}

/// Below this ratio of times, two spin loops are considered independent.
const APART: f64 = 1.05;

/// The finding about two spin loops, as far as the interval allows one.
fn cost_beside(ratio: Interval) -> (Health, &'static str) {
    if ratio.hi < APART {
        (Health::Ok, "")
    } else if ratio.lo >= APART {
        (Health::Note, "; they share a physical core, or the host is busy")
    } else {
        (Health::Note, "; cannot tell whether they share a physical core: run it again when the host is idle")
    }
}

/// The guarantees of the leash and their exceptions.
fn supervision() -> &'static str {
    "kill -9 of any one process of Tandem leaves none behind; a program's own children outlive harness \
     and leash killed at the same instant, and a child that leaves both its session and its \
     environment outlives a killed leash"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_apart_together_or_it_cannot_be_told() {
        for (lo, hi, health, advice) in [
            (0.99, 1.02, Health::Ok, ""),
            (1.3, 1.7, Health::Note, "; they share"),
            (0.7, 1.9, Health::Note, "; cannot tell"),
            (1.04, 1.06, Health::Note, "; cannot tell"),
        ] {
            let found = cost_beside(Interval { estimate: f64::midpoint(lo, hi), lo, hi, n: 8 });
            assert!(found.0 == health && found.1.starts_with(advice), "{lo} to {hi}: {found:?}");
            assert_eq!(found.1.is_empty(), advice.is_empty());
        }
    }
}
