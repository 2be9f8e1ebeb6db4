//! Measured step times of jobs alone, for fits: from runs of `profile`, from its exports, and from published tables. Slowdowns of jobs
//! that share devices are in [`together`].

mod export;
mod pairs_together;
mod parameters;
mod published;
mod runs;
mod step_times;
pub mod together;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    num::{NonZeroU32, NonZeroU64},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use formats::fitted::{FittedRow, LaunchesDiffer, Layout, ModelSource, UnfitRow};
use model::Launches;
use record::{facts::Facts, lines, rows::Warnings};
use rig::Exit;
use schema::{
    catalog::{Catalog, CatalogEntry, Features, ProgramModel},
    device::{Device, Division},
    job::Job,
};

pub use self::parameters::parameters;

/// Why rows of a program with values of `--vary` are not used.
const OTHER_VALUES: &str = "they have values of --vary, and a model has one time for each batch and plan; measure the defaults without --vary";

/// Where step times come from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Runs of `profile`.
    pub runs: &'a [PathBuf],
    /// Tables: exports of `profile`, or published ones.
    pub tables: &'a [PathBuf],
    /// The workload of published tables, with the global batch of their rows.
    pub workload: Option<&'a Job>,
    /// The type of the devices whose rows are wanted. Published tables are taken to be of this type.
    pub device_type: Option<&'a str>,
    pub catalog: &'a Catalog,
}

/// Step times of jobs on devices of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub device_type: String,
    /// Whether the devices are cores of the host.
    pub is_on_cores: bool,
    pub sources: Vec<ModelSource>,
    /// In the order in which they first appear.
    pub workloads: Vec<OfWorkload>,
    /// Configurations that did not fit and have no row.
    pub unfit: Vec<UnfitRow>,
    /// How runs of `profile` launched their jobs; `None` if all rows are of tables.
    pub launched: Option<Launches>,
    /// The number of rows that are not used, for each reason.
    pub left_out: BTreeMap<String, usize>,
    /// The jobs of rows that were measured beside other users of the machine, or did not settle, with their warnings. They are used.
    pub disturbed: Vec<(String, Warnings)>,
}

/// The step times of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct OfWorkload {
    pub workload: String,
    pub facts: Facts,
    pub rows: Vec<FittedRow>,
    /// How much its launches of one configuration differ.
    pub launches_differ: Option<LaunchesDiffer>,
    /// Times of the launches of each configuration.
    pub launches: Vec<Vec<u64>>,
    /// What the launches of each row cost, in seconds times devices, if it is of a run.
    pub device_s: Vec<Option<f64>>,
}

/// The rows of one source.
struct Found {
    path: PathBuf,
    layout: Layout,
    /// The file of the rows.
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// Configurations that did not fit, each with the type of its devices.
    unfit: Vec<(String, UnfitRow)>,
    launched: Option<Launches>,
    left_out: BTreeMap<String, usize>,
}

/// A row and what it is of. The number of its source is not known yet.
struct Row {
    workload: String,
    facts: Facts,
    /// What the definition says. It counts where no row of the workload has a fact.
    defined: Facts,
    device_type: String,
    is_on_cores: bool,
    /// Memory of its smallest device, if known.
    memory_bytes: Option<u64>,
    row: FittedRow,
    warnings: Warnings,
    /// Times of the launches that the row is the mean of.
    launches: Vec<u64>,
    device_s: Option<f64>,
}

/// Reads step times.
///
/// # Errors
/// A file cannot be read or is no table, no row is left, or the rows are of devices of several types.
pub fn read(inputs: &Inputs<'_>) -> anyhow::Result<Measured> {
    let mut found = Vec::new();
    for run in inputs.runs {
        found.push(runs::read(run, inputs.catalog)?);
    }
    for table in inputs.tables {
        found.push(published::table(table, inputs)?);
    }
    joined(found, inputs.device_type)
}

fn joined(found: Vec<Found>, device_type: Option<&str>) -> anyhow::Result<Measured> {
    let types: BTreeSet<&str> =
        found.iter().flat_map(|source| &source.rows).map(|row| row.device_type.as_str()).collect();
    let names = || types.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let paths =
        || found.iter().map(|source| source.path.display().to_string()).collect::<Vec<_>>().join(", ");
    let device_type = match (device_type, types.len()) {
        (_, 0) => {
            let mut reasons: BTreeSet<&str> =
                found.iter().flat_map(|source| source.left_out.keys().map(String::as_str)).collect();
            if found.iter().any(|source| !source.unfit.is_empty()) {
                reasons.insert("their time is 0, which stands for a plan that does not fit");
            }
            let reasons: Vec<&str> = reasons.into_iter().collect();
            let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
            return Err(
                Exit::NothingMatched.because(format!("{} has no step time of a job alone{why}", paths()))
            );
        }
        (Some(name), _) if types.contains(name) => name.to_owned(),
        (Some(name), _) => {
            let message =
                format!("{}: no row is of a device of type '{name}'; rows are of {}", paths(), names());
            return Err(Exit::NothingMatched.because(message));
        }
        (None, 1) => types.first().copied().unwrap_or_default().to_owned(),
        (None, _) => anyhow::bail!(
            "{}: rows are of devices of several types, and a model is of one: {}; name one with --device-type",
            paths(),
            names()
        ),
    };

    let mut measured = Measured {
        device_type,
        is_on_cores: false,
        sources: Vec::new(),
        workloads: Vec::new(),
        unfit: Vec::new(),
        launched: found.iter().find_map(|source| source.launched),
        left_out: BTreeMap::new(),
        disturbed: Vec::new(),
    };
    let mut defined: BTreeMap<String, Facts> = BTreeMap::new();
    for source in found {
        for (why, rows) in source.left_out {
            *measured.left_out.entry(why).or_default() += rows;
        }
        let (own, others): (Vec<Row>, Vec<Row>) =
            source.rows.into_iter().partition(|row| row.device_type == measured.device_type);
        for row in others {
            *measured
                .left_out
                .entry(format!("they are of a device of type '{}'", row.device_type))
                .or_default() += 1;
        }
        let number = measured.sources.len() as u32;
        let smallest = own.iter().map(|row| row.memory_bytes).min().flatten();
        measured.sources.push(ModelSource {
            memory_bytes: smallest,
            ..ModelSource::new(&source.path, source.layout, own.len(), &source.bytes)
        });
        let unfit = source.unfit.into_iter().filter(|(device_type, _)| *device_type == measured.device_type);
        measured.unfit.extend(unfit.map(|(_, row)| UnfitRow { source: number, ..row }));
        for mut row in own {
            row.row.source = number;
            let known = defined.entry(row.workload.clone()).or_default();
            *known = known_of(*known, row.defined);
            measured.add(row);
        }
    }
    for workload in &mut measured.workloads {
        workload.facts = known_of(workload.facts, defined[&workload.workload]);
        workload.launches_differ = LaunchesDiffer::of(workload.launches.iter().map(Vec::as_slice));
    }
    measured.drop_unfit_that_ran();
    Ok(measured)
}

impl Measured {
    /// Leaves out the configurations that did not fit once and have a row, which shows that they do.
    fn drop_unfit_that_ran(&mut self) {
        let all = self.unfit.len();
        let workloads = &self.workloads;
        let ran = |unfit: &UnfitRow| {
            let rows = workloads.iter().find(|of| of.workload == unfit.workload).map(|of| &of.rows);
            let is_same = |row: &FittedRow| (row.plan, row.global_batch) == (unfit.plan, unfit.global_batch);
            rows.is_some_and(|rows| rows.iter().any(is_same))
        };
        self.unfit.retain(|unfit| !ran(unfit));
        let dropped = all - self.unfit.len();
        if dropped > 0 {
            let why = "their time is 0, and another row has a time of the same plan and batch";
            *self.left_out.entry(why.into()).or_default() += dropped;
        }
    }

    fn add(&mut self, row: Row) {
        self.is_on_cores |= row.is_on_cores;
        let disturbances = row.warnings.of_disturbances();
        if !disturbances.is_empty() {
            let job = format!("{}@b{}@{}", row.workload, row.row.global_batch, row.row.plan);
            self.disturbed.push((job, disturbances));
        }
        let known = self.workloads.iter().position(|of| of.workload == row.workload);
        let index = known.unwrap_or_else(|| {
            let facts = Facts::default();
            self.workloads.push(OfWorkload {
                workload: row.workload,
                facts,
                rows: Vec::new(),
                launches_differ: None,
                launches: Vec::new(),
                device_s: Vec::new(),
            });
            self.workloads.len() - 1
        });
        let of = &mut self.workloads[index];
        of.facts = known_of(of.facts, row.facts);
        of.rows.push(row.row);
        of.launches.push(row.launches);
        of.device_s.push(row.device_s);
    }
}

impl OfWorkload {
    /// Why nothing can be learned from the rows: a column that makes the configurations or their times is the same in all of them.
    pub fn problem(&self) -> Option<String> {
        let (first, others) = self.rows.split_first()?;
        let configuration = |row: &FittedRow| {
            (row.global_batch, row.plan, row.placement.clone(), row.cpus, row.ranks_per_device)
        };
        let count = self.rows.len();
        if count > 1 && others.iter().all(|row| configuration(row) == configuration(first)) {
            let FittedRow { plan, global_batch, .. } = first;
            let placement = placement_text(&first.placement);
            return Some(format!(
                "its plan, batch and devices never change: all {count} rows are of {plan} at batch {global_batch} with --devices \
                 {placement}; measure other plans, batches or devices"
            ));
        }
        (count > 2 && others.iter().all(|row| row.step_ns == first.step_ns)).then(|| {
            let seconds = first.step_ns as f64 / 1e9;
            format!(
                "its time of a step never changes: {seconds} s in all {count} rows, which no measurement has"
            )
        })
    }
}

/// Numbers of devices of nodes, as they are typed: `4+4`.
pub fn placement_text(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join("+")
}

/// The first of two values that is known, of each fact.
pub(crate) fn known_of(first: Facts, second: Facts) -> Facts {
    Facts {
        parameters: first.parameters.or(second.parameters),
        layers: first.layers.or(second.layers),
        sequence: first.sequence.or(second.sequence),
        hidden: first.hidden.or(second.hidden),
        state_per_parameter: first.state_per_parameter.or(second.state_per_parameter),
    }
}

/// What the definition of a workload or a program says of its model.
pub fn facts(entry: Option<CatalogEntry<'_>>) -> Facts {
    match entry {
        None => Facts::default(),
        Some(CatalogEntry::Workload(workload)) => {
            let Features { layers, sequence, hidden, .. } = workload.model.features();
            let state_per_parameter = u32::try_from(workload.optimizer.state_per_parameter()).ok();
            Facts { parameters: workload.parameters, layers, sequence, hidden, state_per_parameter }
        }
        Some(CatalogEntry::Program(program)) => {
            let ProgramModel { parameters, layers, sequence, hidden, state_per_parameter } = program.model;
            Facts {
                parameters: parameters.map(NonZeroU64::get),
                layers: layers.map(NonZeroU32::get),
                sequence: sequence.map(NonZeroU32::get),
                hidden: hidden.map(NonZeroU32::get),
                state_per_parameter,
            }
        }
    }
}

/// The devices of the ranks of a row.
struct Devices {
    division: Division,
    device_type: String,
    is_on_cores: bool,
}

/// The devices of ranks, named one by one with commas between. `type_of` gives the type of one.
///
/// # Errors
/// Why a row with these devices cannot be used.
fn devices(names: &str, type_of: impl Fn(&Device) -> Option<String>) -> Result<Devices, &'static str> {
    let devices: Option<Vec<Device>> = names.split(',').map(|name| name.parse().ok()).collect();
    let devices = devices.ok_or("their devices have unknown names")?;
    let types: Option<BTreeSet<String>> = devices.iter().map(type_of).collect();
    let types = types.ok_or("the types of their devices are not known")?;
    let division = Division::of(&devices).ok_or("their ranks do not share devices evenly")?;
    let mut types = types.into_iter();
    let (Some(device_type), None) = (types.next(), types.next()) else {
        return Err("their devices are of several types");
    };
    let is_on_cores = !devices.iter().any(|device| matches!(device, Device::Cuda(_)));
    Ok(Devices { division, device_type, is_on_cores })
}

/// Reads the bytes of a table.
fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let open = File::open(path).with_context(|| path.display().to_string())?;
    Ok(lines::read_to_end(path, open, 0)?)
}
