//! What a run is made of: its jobs, its devices, and what is known of both.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use engine::{
    Engine, cluster::JobId, job::JobRequest, legal_plans::LegalPlans, topology::Topology, view::PolicyContext,
};
use formats::{fitted::ModelFile, history::PastJob};
use jobs::plans::{Effort, Estimates, Judgement};
use model::{
    Throughput,
    switch_costs::{KnownCosts, Measured, Named, SwitchCosts},
};
use record::{
    calibration::Calibration,
    manifest::{AlikeNodes, DeviceFacts, FittedFile, Manifest, Scheduling},
    run_dir::RunDir,
};
use schema::{
    catalog::{Catalog, CatalogEntry},
    footprint::MeasuredFootprint,
    plan::Plan,
};
use testbed::process::WORK_LEFT;

use super::{cluster_memory::ClusterMemory, predict, true_plans};
use crate::{
    history,
    inputs::{self, Purpose},
    legal_plans,
    models::{ModelFiles, Models},
    policy,
};

/// The inputs of a run.
pub struct RunInputs {
    pub manifest: Manifest,
    pub catalog: Catalog,
    pub topology: Topology,
    pub asked: Vec<JobRequest>,
    pub models: Models,
    /// The costs of switches, if they are known.
    pub costs: Option<KnownCosts>,
    plans: LegalPlans,
    history: Vec<PastJob>,
    /// Its trace, and then the files with times.
    files: Vec<PathBuf>,
}

/// The files that the inputs of a run are read from.
#[derive(Clone)]
pub struct InputFiles<'a> {
    pub trace: &'a Path,
    /// Files of further workloads.
    pub catalogs: &'a [PathBuf],
    pub models: ModelFiles<'a>,
    /// A trace or the outcomes of an earlier run, from which the policy may learn.
    pub history: Option<&'a Path>,
    /// The costs of switches that were measured.
    pub machine: Option<&'a Path>,
    /// The footprints from which the memory of jobs is estimated.
    pub footprints: Vec<MeasuredFootprint>,
}

impl RunInputs {
    /// Reads the trace, the catalogs and the tables.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is invalid.
    pub fn new(manifest: Manifest, files: InputFiles<'_>) -> anyhow::Result<RunInputs> {
        let simulated = manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref());
        simulated.map_or(Ok(()), |of| check_size(&of.nodes))?;
        RunInputs::with_checked_manifest(manifest, files)
    }

    fn with_checked_manifest(manifest: Manifest, files: InputFiles<'_>) -> anyhow::Result<RunInputs> {
        let InputFiles { trace, catalogs, models, history, machine, footprints } = files;
        let catalog = Catalog::open(catalogs)?;
        let simulated = manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref());
        let topology = cluster(&manifest);
        let purpose = if simulated.is_some() { Purpose::Simulate } else { Purpose::Run };
        let asked = inputs::read_jobs(trace, &catalog, purpose, topology.most_of_a_type())?;
        let history = history.map(|path| history::read(path, &catalog)).transpose()?.unwrap_or_default();
        let tables = models.tables.iter().map(|table| Ok(RunDir::open(table)?.summary_path()));
        let tables = tables.collect::<anyhow::Result<Vec<_>>>()?;
        let files = [trace].into_iter().chain(machine).map(Path::to_path_buf);
        let files = files.chain(tables).chain(models.fitted.to_vec()).collect();
        let memory = (models, footprints);
        let models = Models::new(&manifest, &topology, models)?;
        let costs = costs(machine, &manifest, &models)?;
        let truth = simulated.map(|_| &*models.truth);
        let plans = legal_plans(&manifest, &catalog, &topology, &asked, memory, truth)?;
        let mut inputs =
            RunInputs { models, costs, plans, history, manifest, catalog, topology, asked, files };
        inputs.take_durations();
        Ok(inputs)
    }

    /// Reads the inputs that were copied into the directory of a run.
    ///
    /// # Errors
    /// Fails if it is not a run of the scheduler, and if one of its files cannot be read or is invalid.
    pub fn read(run: &RunDir) -> anyhow::Result<RunInputs> {
        let manifest = run.manifest()?;
        let scheduling = scheduling(&manifest).with_context(|| run.manifest_path().display().to_string())?;
        let settings = predict::settings(scheduling, manifest.seed);
        let mut simulated = scheduling.simulated.iter();
        let checked = settings.check().and_then(|()| simulated.try_for_each(|of| check_size(&of.nodes)));
        checked.with_context(|| run.manifest_path().display().to_string())?;
        let history = scheduling.history.then(|| run.history_path());
        let tables: Vec<PathBuf> =
            (0..scheduling.tables).map(|number| run.table(number).path().to_path_buf()).collect();
        let fitted = kept_models(run, scheduling)?;
        let catalogs = (0..).zip(&manifest.settings.catalogs).map(|(number, _)| run.catalog_path(number));
        let catalogs: Vec<PathBuf> = catalogs.collect();
        let machine = Some(run.calibration_path()).filter(|path| path.is_file());
        RunInputs::with_checked_manifest(
            manifest,
            InputFiles {
                trace: &run.arrivals_path(),
                catalogs: &catalogs,
                models: ModelFiles { tables: &tables, fitted: &fitted },
                history: history.as_deref(),
                machine: machine.as_deref(),
                footprints: run.footprints()?.map(|known| known.measured).unwrap_or_default(),
            },
        )
    }

    /// The files that the jobs and their times come from. It is the context of an error about them.
    pub fn files(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        match &names[..] {
            [trace, last] => format!("{trace} with {last}"),
            [trace, with @ .., last] => format!("{trace} with {} and {last}", with.join(", ")),
            _ => names.concat(),
        }
    }

    /// Checks that jobs can be held between steps if they are to take turns.
    ///
    /// # Errors
    /// Fails if nothing can hold a job.
    pub fn check_turns(&self) -> anyhow::Result<()> {
        let sharing = &scheduling(&self.manifest)?.sharing;
        let shows_steps = |asked: &&JobRequest| asked.steps_regex.is_some();
        match self.asked.iter().find(shows_steps).filter(|_| sharing.takes_turns()) {
            Some(asked) => bail!(
                "{} shows its steps in its output, and nothing can hold it between two of them, as {sharing} does; leave out column \
                 'steps_regex' if it trains with PyTorch, or share by time-slice",
                asked.name
            ),
            None => Ok(()),
        }
    }

    /// Creates the engine of the run, which admits the jobs that can run here.
    pub fn engine(&self) -> Engine<'_> {
        let settings = match &self.manifest.scheduling {
            Some(of) => engine::Settings {
                sharing: of.sharing.clone(),
                suspension: of.suspension,
                placement: of.placement,
                jobs_per_device: of.jobs_per_device,
                retries: of.retries,
                counts_cpus: of.counts_cpus,
                refits: of.refit,
            },
            None => engine::Settings::default(),
        };
        let known = PolicyContext {
            costs: self.costs.as_ref().map(|costs| costs as &dyn SwitchCosts),
            plans: Some(&self.plans),
            history: &self.history,
            classes: self.models.classes(),
        };
        let engine = Engine::new(&self.topology, &self.asked, self.models.belief(), settings);
        let mut engine = engine.knowing(known);
        for (cell, id) in self.manifest.cells.iter().zip(0..) {
            if let Some(why) = &cell.unsupported {
                engine.refuse(JobId(id), why.clone());
            }
        }
        let policy = self.manifest.scheduling.as_ref().map(|of| &*of.policy);
        if let Some(policy) = policy.filter(|policy| !policy::resizes(policy)) {
            engine.refuse_for_lack_of_cpus(engine.view().placement);
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

/// The fitted models that were copied into the directory of a run.
///
/// # Errors
/// Fails if one cannot be read, or is another than the run was begun with.
fn kept_models(run: &RunDir, scheduling: &Scheduling) -> anyhow::Result<Vec<PathBuf>> {
    let kept = |(number, of): (u32, &FittedFile)| {
        let path = run.fitted_path(number);
        ensure!(
            ModelFile::digest(&path)? == of.blake3,
            "{}: it is not the {} that the run was begun with; put it back, or begin a new run",
            path.display(),
            of.name
        );
        Ok(path)
    };
    (0..).zip(&scheduling.fitted).map(kept).collect()
}

/// The costs of switches, from the file `machine`, the tables and the manifest. `None` if there is no such file and the manifest names no
/// cost.
///
/// # Errors
/// Fails if the calibration cannot be read, or names something that is no job.
fn costs(machine: Option<&Path>, manifest: &Manifest, models: &Models) -> anyhow::Result<Option<KnownCosts>> {
    let named = manifest.scheduling.as_ref().and_then(Named::recorded);
    let suspension = manifest.scheduling.as_ref().map(|of| of.suspension).unwrap_or_default();
    let measured = |path: &Path| {
        let measured = Measured::new(&[Calibration::read(path)?], WORK_LEFT);
        anyhow::Ok(measured.with_context(|| path.display().to_string())?.suspended_by(suspension))
    };
    let measured = machine.map(measured).transpose()?;
    let is_known = measured.is_some() || named.is_some();
    let starts_and_exits = models.starts_and_exits.clone();
    Ok(is_known.then_some(KnownCosts { measured, starts_and_exits, named }))
}

/// The legal plans of elastic jobs on the devices of this machine, or on those of a described cluster. `truth` is that of a simulation, in
/// which a plan without a time cannot run. What a job of a described cluster asks for is taken to have run there.
///
/// # Errors
/// Fails if a fitted model cannot be read.
fn legal_plans(
    manifest: &Manifest,
    catalog: &Catalog,
    topology: &Topology,
    asked: &[JobRequest],
    (models, footprints): (ModelFiles<'_>, Vec<MeasuredFootprint>),
    truth: Option<&dyn Throughput>,
) -> anyhow::Result<LegalPlans> {
    let wanted: BTreeSet<(Cow<'_, str>, u32, Plan)> = asked
        .iter()
        .filter_map(|asked| Some((asked.what.workload(), asked.what.global_batch()?, asked.plan?)))
        .collect();
    let is_wanted = |entry: CatalogEntry<'_>, batch, plan: &Plan| {
        wanted.contains(&(Cow::Borrowed(entry.name()), batch, *plan))
    };
    let lacks_time = |entry: CatalogEntry<'_>, batch, plan: &Plan, device_type: &str| {
        let job = (entry.name(), batch, *plan);
        truth.is_some_and(|truth| !true_plans::has_time(truth, topology, job, device_type))
    };
    let without_time =
        || Judgement { refusal: Some("its true time is not known".into()), ..Judgement::default() };
    let memory = ClusterMemory::new(manifest, topology, models)?;
    if manifest.devices.is_empty() {
        return Ok(legal_plans::enumerate(
            asked,
            catalog,
            topology,
            |entry, batch, plan, (device_type, _)| {
                let judged = memory.judge(entry, batch, plan, device_type);
                match is_wanted(entry, batch, plan) {
                    true => Judgement { refusal: None, ..judged },
                    false if lacks_time(entry, batch, plan, device_type) => without_time(),
                    false => judged,
                }
            },
        ));
    }
    let mut estimates = Estimates::of_run(manifest, footprints);
    Ok(legal_plans::enumerate(asked, catalog, topology, |entry, batch, plan, (device_type, devices)| {
        if !is_wanted(entry, batch, plan) && lacks_time(entry, batch, plan, device_type) {
            return without_time();
        }
        match entry {
            CatalogEntry::Workload(workload) => {
                estimates.judge(workload, batch, plan, devices, Effort::Known)
            }
            CatalogEntry::Program(_) => {
                let judged = memory.judge(entry, batch, plan, device_type);
                let refusal = judged.refusal.filter(|_| !is_wanted(entry, batch, plan));
                Judgement { refusal, ..judged }
            }
        }
    }))
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

/// The most devices of a simulated cluster.
const MOST_DEVICES: u64 = 1 << 20;

/// Checks that a simulated cluster has devices, and not too many of them for the memory of this machine.
///
/// # Errors
/// Fails if it has not.
fn check_size(nodes: &[AlikeNodes]) -> anyhow::Result<()> {
    let devices = |alike: &AlikeNodes| u64::from(alike.nodes) * u64::from(alike.devices);
    if let Some(without) = nodes.iter().find(|alike| devices(alike) == 0) {
        bail!("{} nodes of {} devices are no part of a cluster", without.nodes, without.devices);
    }
    let all = nodes.iter().map(devices).fold(0, u64::saturating_add);
    ensure!(all <= MOST_DEVICES, "the cluster has {all} devices; at most {MOST_DEVICES} can be simulated");
    Ok(())
}

/// The topology of the cluster of a run: the nodes of a simulated cluster, or the devices of the machine.
pub fn cluster(manifest: &Manifest) -> Topology {
    match manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref()) {
        Some(of) if !of.nodes.is_empty() => Topology::simulated(&of.nodes),
        _ => {
            let topology = topology(&manifest.devices);
            match manifest.scheduling.as_ref().and_then(|of| of.host_cores) {
                Some(cores) => topology.with_cpus(cores),
                None => topology,
            }
        }
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
