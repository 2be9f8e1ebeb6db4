//! A run from its manifest to its last file.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail};
use rig::{
    Exit, Rig,
    device::{self, DeviceReader},
    interrupt::Interrupt,
    output, programs,
    sampler::{Sampler, SamplerCost},
};
use rustix::{fs::FlockOperation, io::Errno};
use schema::{
    FORMAT,
    catalog::Catalog,
    device::Device,
    group::Group,
    manifest::{Cell, DeviceFacts, End, Manifest, ObserverCost, Settings},
    rows::{Appender, ErrorKind, Status},
    run_dir::RunDir,
    units::Nanos,
};

use crate::{
    blocks::{Blocks, Ledger, Lost, Missing},
    cores::HostCores,
    derive::Derived,
    machine,
};

/// What a command wants to have measured.
pub struct Request {
    pub cells: Vec<Cell>,
    /// Of those cells; none where jobs are measured alone.
    pub groups: Vec<Group>,
    pub settings: Settings,
    pub seed: u64,
}

/// What came of it.
pub struct Outcome {
    pub derived: Derived,
    pub missing: Missing,
    pub exit: Exit,
}

/// Writes down what was asked for, on what, before anything starts.
pub fn manifest(catalog: &Catalog, request: Request) -> anyhow::Result<Manifest> {
    let devices = distinct_devices(&request.cells);
    manifest_on("profile", &devices, catalog, request)
}

/// The same for a program of that name, whose jobs may come to any of these devices.
pub fn manifest_on(
    program: &str,
    devices: &[Device],
    catalog: &Catalog,
    request: Request,
) -> anyhow::Result<Manifest> {
    let libtorch = needs_torch(catalog, &request.cells).then(torch).transpose()?;
    let mut facts: Vec<DeviceFacts> =
        open_all(devices)?.iter().map(|reader| reader.facts().clone()).collect();
    for facts in facts.iter_mut().filter(|facts| matches!(facts.device, Device::Cpu(_))) {
        facts.memory_bytes = request.settings.memory_bytes.or(facts.memory_bytes);
    }
    Ok(Manifest {
        format: FORMAT,
        started_utc: utc_now(),
        // The path of this program is private.
        command: std::iter::once(program.to_owned())
            .chain(std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()))
            .collect(),
        version: env!("CARGO_PKG_VERSION").into(),
        git_revision: option_env!("TANDEM_REVISION").map(str::to_owned),
        seed: request.seed,
        settings: request.settings,
        machine: machine::facts(libtorch, device::driver_version()),
        devices: facts,
        cells: request.cells,
        groups: request.groups,
        scheduling: None,
    })
}

/// `runs/20261120T101340Z-single-1a2b3c`: sorted by time, and no two runs the same.
pub fn directory(what: &str, manifest: &Manifest) -> PathBuf {
    let time: String = manifest.started_utc.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let unique = u64::from(std::process::id()) ^ Nanos::monotonic_now().0;
    let hash = fastrand::Rng::with_seed(unique).u32(..) & 0xff_ffff;
    PathBuf::from("runs").join(format!("{time}-{what}-{hash:06x}"))
}

/// Whether a run that was begun can be continued here and now.
///
/// # Errors
/// Where its clock has begun anew since, so that old and new readings would stand on one time line; where it is no run of
/// `profile` and this command; and where other programs would go on with it, as of [`is_measured_by_the_same`].
pub fn can_go_on(run: &RunDir, manifest: &Manifest, command: &str) -> anyhow::Result<()> {
    let path = run.path().display();
    if manifest.command.get(1).map(String::as_str) != Some(command) {
        bail!("{path} is not a run of `profile {command}`, which goes on with its own alone");
    }
    if manifest.machine.boot_id != machine::boot_id() {
        bail!("{path} was begun before this machine was started, or on another; begin a new run");
    }
    is_measured_by_the_same(run, manifest)?;
    check_data(manifest.settings.data.as_deref())
}

/// Whether the folder with real data is there, which launches read that come hours later.
///
/// # Errors
/// Where it is not.
pub fn check_data(data: Option<&Path>) -> anyhow::Result<()> {
    let Some(data) = data else { return Ok(()) };
    fs::read_dir(data).map(drop).with_context(|| {
        let data = data.display();
        format!("--data {data}: there is no such folder to read; leave it out for synthetic data, or bring back what the run began with")
    })
}

/// Whether what measured a run, and what its jobs run on, is here as it was: otherwise a difference between two of its rows
/// could be one between two programs.
///
/// # Errors
/// Another version of Tandem, of libtorch where a job of the run uses it, or of the driver where a device of it is a GPU.
pub fn is_measured_by_the_same(run: &RunDir, manifest: &Manifest) -> anyhow::Result<()> {
    let then = Software::of(manifest);
    let now = Software {
        version: env!("CARGO_PKG_VERSION").into(),
        revision: option_env!("TANDEM_REVISION").map(str::to_owned),
        libtorch: then.libtorch.is_some().then(torch).transpose()?,
        driver: then.driver.is_some().then(device::driver_version).flatten(),
    };
    match then.differs_from(&now) {
        Some(difference) => bail!("{}: {difference}; begin a new run", run.path().display()),
        None => Ok(()),
    }
}

/// What a run depends on and an update may change.
#[derive(Clone, Debug, PartialEq)]
struct Software {
    version: String,
    revision: Option<String>,
    libtorch: Option<String>,
    driver: Option<String>,
}

impl Software {
    fn of(manifest: &Manifest) -> Software {
        let has_gpu = manifest.devices.iter().any(|facts| matches!(facts.device, Device::Cuda(_)));
        Software {
            version: manifest.version.clone(),
            revision: manifest.git_revision.clone(),
            libtorch: manifest.machine.libtorch.clone(),
            driver: manifest.machine.driver.clone().filter(|_| has_gpu),
        }
    }

    /// The first difference, in words. A revision counts where both are known.
    fn differs_from(&self, now: &Software) -> Option<String> {
        let known = self.revision.is_some() && now.revision.is_some();
        let some = |text: &str| Some(text.to_owned());
        [
            ("Tandem", some(&self.version), some(&now.version)),
            (
                "revision of Tandem",
                self.revision.clone().filter(|_| known),
                now.revision.clone().filter(|_| known),
            ),
            ("libtorch", self.libtorch.clone(), now.libtorch.clone()),
            ("NVIDIA's driver", self.driver.clone(), now.driver.clone()),
        ]
        .into_iter()
        .find(|(_, then, now)| then != now)
        .map(|(what, then, now)| {
            let unknown = || "an unknown version".into();
            let (then, now) = (then.unwrap_or_else(unknown), now.unwrap_or_else(unknown));
            format!("it was begun with {what} {then}, and here is {now}")
        })
    }
}

/// Measures what the manifest asks for and the run does not have yet. Its budget is spent since `began`.
///
/// # Errors
/// Before the first launch: what the machine lacks, and files that cannot be read. Later: files that cannot be written. The run
/// has its last file then too, as far as that can be written.
pub fn measure(
    run: &RunDir,
    manifest: &Manifest,
    catalog: &Catalog,
    began: Nanos,
) -> anyhow::Result<Outcome> {
    let observed = Observed::from_now();
    let _lock = lock(run)?;
    let interrupt = Interrupt::listen().context("signals cannot be listened to")?;
    let sampler = start_sampler(run, manifest)?;
    let mut rig = Rig::new(programs::all()?)?;
    let derived = Derived::of(run)?;
    let host_cores = HostCores::of(manifest)?;
    host_cores.keep_off(manifest);
    let mut blocks = Blocks {
        run,
        manifest,
        cells: &manifest.cells,
        groups: &manifest.groups,
        catalog,
        rig: &mut rig,
        sampler: &sampler,
        interrupt: &interrupt,
        host_cores,
        part: derived.next_part(),
        derived,
        ledger: Ledger::default(),
        lost: Lost::default(),
        next_number: run.next_number()?,
        began,
    };
    let measured = blocks.measure();
    let left = blocks.missing_launches();
    drop(rig);
    let cost = sampler.cost();
    let stopped = sampler.stop();
    let cost = stopped.as_ref().copied().unwrap_or(cost);
    match measured.and_then(|missing| Ok(stopped.map(|_| missing)?)).and_then(|missing| outcome(run, missing))
    {
        Ok(outcome) => {
            write_end(run, outcome.exit, outcome.missing.launches.clone(), observed, cost)?;
            Ok(outcome)
        }
        Err(error) => {
            write_failed_end(run, &error, left, observed, cost);
            Err(error)
        }
    }
}

/// Writes tables and the last file of a run that an error has ended, as far as they can be written.
pub(crate) fn write_failed_end(
    run: &RunDir,
    error: &anyhow::Error,
    left: Vec<String>,
    observed: Observed,
    cost: SamplerCost,
) {
    // What failed may be whole again by now, and where it is not, what it was is said by the error.
    let tables = Derived::of(run).and_then(|derived| derived.write());
    let end = write_end(run, Exit::of(error), left, observed, cost);
    if let Err(further) = tables.and(end) {
        output::note(format_args!("warning: {further:#}"));
    }
}

/// What came of a run of which this is missing.
fn outcome(run: &RunDir, missing: Missing) -> anyhow::Result<Outcome> {
    let derived = Derived::of(run)?;
    derived.write()?;
    let rows = &derived.measurements;
    let failed = rows.iter().any(|row| row.status != Status::Ok);
    let exit = match (missing.interrupted, failed) {
        (true, _) => Exit::Interrupted,
        (false, true) if rows.iter().any(|row| row.err == Some(ErrorKind::Stuck)) => Exit::Stuck,
        (false, true) => Exit::SomeFailed,
        // What was asked for and is missing failed too: a row, or an interval that was not reached.
        (false, false) if !missing.launches.is_empty() => Exit::SomeFailed,
        (false, false) => Exit::Ok,
    };
    Ok(Outcome { derived, missing, exit })
}

/// Since when the harness measures a run, or its resumed part.
pub struct Observed {
    began: Nanos,
    cpu_before: Duration,
}

impl Observed {
    pub fn from_now() -> Observed {
        Observed { began: Nanos::monotonic_now(), cpu_before: own_cpu() }
    }
}

/// Writes the last file of a run: how it ended, and what observing it has cost.
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

/// Held while files of a run are written, derived ones too: two programs that write one run would spoil it. It ends with the
/// program that holds it, whatever ends that one.
///
/// # Errors
/// Where another one has it, which does not notice.
pub fn lock(run: &RunDir) -> anyhow::Result<File> {
    let manifest = File::open(run.manifest_path())?;
    match rustix::fs::flock(&manifest, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(manifest),
        Err(Errno::WOULDBLOCK) => {
            bail!(
                "another program is writing {}; wait until it has ended, or take a copy",
                run.path().display()
            )
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be locked", run.path().display())),
    }
}

/// Begins to watch the devices of a run.
pub fn start_sampler(run: &RunDir, manifest: &Manifest) -> anyhow::Result<Sampler> {
    let devices: Vec<Device> = manifest.devices.iter().map(|facts| facts.device.clone()).collect();
    let devices = open_all(&devices)?;
    let (device_rows, host_rows) = (Appender::open(&run.devices_path())?, Appender::open(&run.host_path())?);
    Ok(Sampler::start(devices, device_rows, host_rows)?)
}

/// Opens devices. A machine that lacks one of them cannot do the run.
fn open_all(devices: &[Device]) -> anyhow::Result<Vec<Box<dyn DeviceReader>>> {
    devices
        .iter()
        .map(|device| device::open(device).map_err(|e| Exit::MachineLacks.because(e.to_string())))
        .collect()
}

fn distinct_devices(cells: &[Cell]) -> Vec<Device> {
    let runnable = cells.iter().filter(|cell| cell.unsupported.is_none());
    let mut devices: Vec<Device> = runnable.flat_map(|cell| cell.devices.clone()).collect();
    devices.sort();
    devices.dedup();
    devices
}

fn needs_torch(catalog: &Catalog, cells: &[Cell]) -> bool {
    let mut runnable = cells.iter().filter(|cell| cell.unsupported.is_none());
    let trains_in_torch = |cell: &Cell| {
        catalog.get(&cell.workload).is_some_and(|workload| workload.model.worker() == "torch-worker")
    };
    runnable.any(|cell| cell.all_reduce_bytes.is_some() || trains_in_torch(cell))
}

/// The version of the libtorch that workers use; asks the worker, so that a run that cannot start
/// says so before it makes a directory.
fn torch() -> anyhow::Result<String> {
    match programs::torch_capabilities() {
        Ok(capabilities) => Ok(capabilities.libtorch),
        Err(error) => Err(Exit::MachineLacks.because(format!("{error:#}"))),
    }
}

/// CPU time of this process so far, its threads included and its children left out.
pub fn own_cpu() -> Duration {
    let clock = rustix::time::ClockId::ProcessCPUTime;
    let spent = rustix::time::clock_gettime(clock);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// As `2026-11-20T10:13:40Z`.
pub fn utc_now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_with_the_software_that_it_was_begun_with() {
        let text = |text: &str| Some(text.to_owned());
        let then = Software {
            version: "0.1.0".into(),
            revision: text("abc"),
            libtorch: text("2.11.0"),
            driver: text("580.1"),
        };
        assert_eq!(then.differs_from(&then), None);
        assert_eq!(
            then.differs_from(&Software { revision: None, ..then.clone() }),
            None,
            "not known of both"
        );
        for (now, words) in [
            (Software { version: "0.2.0".into(), ..then.clone() }, "with Tandem 0.1.0, and here is 0.2.0"),
            (Software { revision: text("def"), ..then.clone() }, "revision of Tandem abc, and here is def"),
            (
                Software { libtorch: text("2.12.0"), ..then.clone() },
                "with libtorch 2.11.0, and here is 2.12.0",
            ),
            (Software { driver: None, ..then.clone() }, "driver 580.1, and here is an unknown version"),
        ] {
            let said = then.differs_from(&now).expect("they differ");
            assert!(said.ends_with(words), "{said}");
        }
    }
}
