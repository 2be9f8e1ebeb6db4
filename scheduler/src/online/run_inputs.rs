//! What a run is made of: its jobs, its devices, and what is known of both.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schema::{
    catalog::Catalog,
    manifest::{DeviceFacts, Manifest, Scheduling},
    run_dir::RunDir,
    sharing::Sharing,
    trace::Trace,
};

use crate::{
    cluster::JobId,
    engine::{self, Engine},
    inputs::{self, Purpose},
    job::JobRequest,
    models::Models,
    policy,
    topology::Topology,
};

/// The inputs of a run.
pub struct RunInputs {
    pub manifest: Manifest,
    pub catalog: Catalog,
    pub topology: Topology,
    pub asked: Vec<JobRequest>,
    pub models: Models,
}

impl RunInputs {
    /// Reads the trace, the catalogs and the tables.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is invalid.
    pub fn new(manifest: Manifest, trace: &Path, tables: &[PathBuf]) -> anyhow::Result<RunInputs> {
        let catalog = Catalog::open(&manifest.settings.catalogs)?;
        let simulated = manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref());
        let topology = cluster(&manifest);
        let purpose = if simulated.is_some() { Purpose::Simulate } else { Purpose::Run };
        let asked = inputs::jobs(&Trace::read(trace)?, &catalog, purpose, topology.most_of_a_type())?;
        Ok(RunInputs { models: Models::new(&manifest, tables)?, manifest, catalog, topology, asked })
    }

    /// Reads the inputs that were copied into the directory of a run.
    ///
    /// # Errors
    /// Fails if it is not a run of the scheduler, and if one of its files cannot be read or is invalid.
    pub fn read(run: &RunDir) -> anyhow::Result<RunInputs> {
        let manifest = run.manifest()?;
        let tables = scheduling(&manifest).with_context(|| run.path().display().to_string())?.tables;
        let tables: Vec<PathBuf> = (0..tables).map(|number| run.table(number).path().to_path_buf()).collect();
        RunInputs::new(manifest, &run.arrivals_path(), &tables)
    }

    /// Creates the engine of the run, which admits the jobs that can run here.
    pub fn engine(&self) -> Engine<'_> {
        let settings = match &self.manifest.scheduling {
            Some(of) => engine::Settings {
                sharing: Sharing::TIME_SLICE,
                placement: of.placement,
                jobs_per_device: of.jobs_per_device,
                retries: of.retries,
            },
            None => engine::Settings::default(),
        };
        let mut engine = Engine::new(&self.topology, &self.asked, &*self.models.belief, settings);
        for (cell, id) in self.manifest.cells.iter().zip(0..) {
            if let Some(why) = &cell.unsupported {
                engine.refuse(JobId(id), why.clone());
            }
        }
        let policy = self.manifest.scheduling.as_ref().map(|of| &*of.policy);
        if let Some(policy) = policy.filter(|policy| !policy::resizes(policy)) {
            for asked in &self.asked {
                let (devices, wanted) = (asked.devices, asked.device_type.as_deref());
                let most = self.topology.most_for(&asked.virtual_cluster, wanted);
                if devices <= most {
                    continue;
                }
                let of = wanted.map_or("of one type".into(), |wanted| format!("of type {wanted}"));
                let why = format!(
                    "asks for {devices} devices, the cluster has {most} {of}, and policy '{policy}' gives no other number"
                );
                engine.refuse(asked.id, why);
            }
        }
        engine
    }
}

/// The settings of `sched` in a manifest.
///
/// # Errors
/// Fails if the manifest is not that of a run of `sched`.
pub fn scheduling(manifest: &Manifest) -> anyhow::Result<&Scheduling> {
    manifest.scheduling.as_ref().context("this is not a run of `sched`")
}

/// Sorts devices so that those of one type are adjacent and form a node.
pub fn by_type(devices: &mut [DeviceFacts]) {
    let types: Vec<String> = devices.iter().map(DeviceFacts::device_type).collect();
    devices.sort_by_key(|facts| types.iter().position(|of| *of == facts.device_type()));
}

/// The topology of the cluster of a run: the nodes of a simulated cluster, or the devices of the machine.
pub fn cluster(manifest: &Manifest) -> Topology {
    match manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref()) {
        Some(of) if !of.nodes.is_empty() => Topology::simulated(&of.nodes),
        _ => topology(&manifest.devices),
    }
}

/// The topology of the devices of a machine. Adjacent devices of one type are a node.
fn topology(devices: &[DeviceFacts]) -> Topology {
    let nodes =
        devices.chunk_by(|a, b| a.device_type() == b.device_type()).enumerate().map(|(number, same)| {
            let devices = same.iter().map(|facts| facts.device.clone()).collect();
            (format!("n{number}"), same[0].device_type(), devices)
        });
    Topology::new(nodes)
}
