//! The manifest of a run: what was asked for, on what, with which programs.

use std::{collections::BTreeSet, path::PathBuf};

use record::{
    group::Group,
    manifest::{Cell, DeviceFacts, Manifest, Settings},
};
use rig::device;
use schema::{FORMAT, catalog::Catalog, device::Device, units::Nanos};

use crate::{
    folder, machine,
    run::{open_all, utc_now},
    software,
};

/// What a run is made of.
pub struct RunRequest {
    pub cells: Vec<Cell>,
    /// Groups of these cells; empty where jobs are measured alone.
    pub groups: Vec<Group>,
    pub settings: Settings,
    pub seed: u64,
    /// The words of `--tag`; empty for runs of commands without this option.
    pub tags: Vec<String>,
}

/// The manifest of a run of `profile`, whose devices are those of its cells.
pub fn make(catalog: &Catalog, request: RunRequest) -> anyhow::Result<Manifest> {
    let devices = distinct_devices(&request.cells);
    make_for("profile", &devices, catalog, request)
}

/// The manifest of a run of `program`, whose jobs may be put on any of these devices.
pub fn make_for(
    program: &str,
    devices: &[Device],
    catalog: &Catalog,
    request: RunRequest,
) -> anyhow::Result<Manifest> {
    let libtorch = needs_torch(catalog, &request.cells).then(software::torch).transpose()?;
    let mut facts: Vec<DeviceFacts> =
        open_all(devices)?.iter().map(|reader| reader.facts().clone()).collect();
    for facts in facts.iter_mut().filter(|facts| matches!(facts.device, Device::Cpu(_))) {
        facts.memory_bytes = request.settings.memory_bytes.or(facts.memory_bytes);
    }
    let started_utc = utc_now();
    let folder = folder::of_run(&started_utc, &request.settings, &request.cells);
    let folder = folder.map(|folder| folder::with_source_trees(folder, &request.settings, &request.cells));
    Ok(Manifest {
        format: FORMAT,
        started_utc,
        // The path of this program is private.
        command: std::iter::once(program.to_owned())
            .chain(std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()))
            .collect(),
        version: software::VERSION.into(),
        git_revision: revision::REVISION.map(str::to_owned),
        seed: request.seed,
        tags: distinct(request.tags),
        settings: request.settings,
        folder,
        machine: machine::facts(libtorch, device::driver_version()),
        devices: facts,
        cells: request.cells,
        groups: request.groups,
        scheduling: None,
    })
}

/// A new directory such as `runs/20261120T101340Z-single-1a2b3c`. The names sort by time and are unique.
pub fn directory(what: &str, manifest: &Manifest) -> PathBuf {
    let time: String = manifest.started_utc.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let unique = u64::from(std::process::id()) ^ Nanos::monotonic_now().0;
    let hash = fastrand::Rng::with_seed(unique).u32(..) & 0xff_ffff;
    PathBuf::from("runs").join(format!("{time}-{what}-{hash:06x}"))
}

/// The words in their order, each once.
fn distinct(mut words: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words
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
