//! What every run has beside its launches: its lock, readings of its devices, and its last file.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail};
use record::{
    manifest::{End, Manifest, ObserverCost},
    rows::Appender,
    run_dir::RunDir,
};
use rig::{
    Exit,
    device::{self, DeviceReader},
    sampler::{Sampler, SamplerCost},
};
use rustix::{fs::FlockOperation, io::Errno};
use schema::{FORMAT, device::Device, files::RunError, units::Nanos};

/// Makes the directory of a run that --resume can continue.
///
/// # Errors
/// The errors of [`RunDir::create`].
pub fn create_resumable(path: &Path) -> anyhow::Result<RunDir> {
    RunDir::create(path).map_err(|error| match error {
        RunError::Exists { .. } => anyhow::anyhow!("{error}, or continue this run with --resume"),
        other => other.into(),
    })
}

/// Checks that the folder with real data exists, because launches read it much later.
///
/// # Errors
/// The folder does not exist.
pub fn check_data(data: Option<&Path>) -> anyhow::Result<()> {
    let Some(data) = data else { return Ok(()) };
    fs::read_dir(data).map(drop).with_context(|| {
        let data = data.display();
        format!("--data {data}: there is no such folder to read; leave out the option for synthetic data, or restore the folder that the run began with")
    })
}

/// Checks that the file of `--input` can be read from its beginning by each launch.
///
/// # Errors
/// It is no file, or cannot be read.
pub fn check_input(input: Option<&Path>) -> anyhow::Result<()> {
    let Some(input) = input else { return Ok(()) };
    let name = input.display();
    let unreadable = || {
        format!(
            "--input {name} cannot be read; name a file that can, or restore the one that the run began with"
        )
    };
    // The check comes first, because to open a pipe is to wait for its writer.
    let is_file = fs::metadata(input).with_context(unreadable)?.is_file();
    anyhow::ensure!(
        is_file,
        "--input {name} is no regular file, which each launch reads from its beginning; write the input into one"
    );
    File::open(input).map(drop).with_context(unreadable)
}

/// Locks a run while its files are written, including derived files, because two programs that write one run would corrupt it.
/// The lock ends with the program that holds it. What killed programs have left is removed.
///
/// # Errors
/// Another program holds the lock, which is not affected.
pub fn lock(run: &RunDir) -> anyhow::Result<File> {
    let manifest = File::open(run.manifest_path())?;
    match rustix::fs::flock(&manifest, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            run.remove_unfinished()?;
            rig::remove_remains(run)?;
            Ok(manifest)
        }
        Err(Errno::WOULDBLOCK) => {
            bail!(
                "another program is writing {}; wait until it has ended, or take a copy",
                run.path().display()
            )
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be locked", run.path().display())),
    }
}

/// Starts the sampler for the devices of a run.
pub fn start_sampler(run: &RunDir, manifest: &Manifest) -> anyhow::Result<Sampler> {
    let devices: Vec<Device> = manifest.devices.iter().map(|facts| facts.device.clone()).collect();
    let devices = open_all(&devices)?;
    let (device_rows, host_rows) = (Appender::open(&run.devices_path())?, Appender::open(&run.host_path())?);
    Ok(Sampler::start(devices, device_rows, host_rows)?)
}

/// Opens devices. If one is missing, the run cannot be made on this machine.
pub(crate) fn open_all(devices: &[Device]) -> anyhow::Result<Vec<Box<dyn DeviceReader>>> {
    devices
        .iter()
        .map(|device| device::open(device).map_err(|e| Exit::MachineLacks.because(e.to_string())))
        .collect()
}

/// The time from which the harness observes a run, or a resumed part of it.
pub struct Observed {
    began: Nanos,
    cpu_before: Duration,
}

impl Observed {
    pub fn from_now() -> Observed {
        Observed { began: Nanos::monotonic_now(), cpu_before: own_cpu() }
    }
}

/// Writes the last file of a run: how it ended, and the cost of observing it.
pub fn write_end(
    run: &RunDir,
    exit: Exit,
    missing: Vec<String>,
    observed: Observed,
    cost: SamplerCost,
) -> anyhow::Result<()> {
    let earlier = run.end()?.map_or_else(ObserverCost::default, |end| end.observer);
    let observer = ObserverCost {
        wall_ns: earlier.wall_ns + (Nanos::monotonic_now() - observed.began).0,
        cpu_ns: earlier.cpu_ns + own_cpu().saturating_sub(observed.cpu_before).as_nanos() as u64,
        sampler_cpu_ns: earlier.sampler_cpu_ns + cost.cpu_ns,
        sampler_ticks: earlier.sampler_ticks + cost.ticks,
        sampler_late_ticks: earlier.sampler_late_ticks + cost.late_ticks,
        sampler_worst_tick_ns: earlier.sampler_worst_tick_ns.max(cost.worst_tick_ns),
    };
    let end = End { format: FORMAT, ended_utc: utc_now(), exit_code: exit.code(), missing, observer };
    Ok(run.write_end(&end)?)
}

/// CPU time of this process so far, including its threads but not its children.
pub fn own_cpu() -> Duration {
    let clock = rustix::time::ClockId::ProcessCPUTime;
    let spent = rustix::time::clock_gettime(clock);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// The time in the format `2026-11-20T10:13:40Z`.
pub fn utc_now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
