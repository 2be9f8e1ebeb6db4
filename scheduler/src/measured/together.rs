//! What was measured of jobs that share devices, for the fit of their slowdowns: from runs of `profile colocate`, from exports, and from
//! tables of pairs of any origin.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use formats::{
    fitted::{Layout, ModelSource},
    import::{Source, pairs},
    interference_fit::JobAlone,
    rows::TogetherRow,
};
use model::interference::Together;
use record::{
    manifest::Manifest,
    rows::{self, Status},
    run_dir::RunDir,
};
use rig::Exit;
use schema::{device::Device, plan::Plan, sharing::Sharing};

use super::{OTHER_VALUES, bytes, devices, pairs_together::PairsTogether};

/// Jobs on devices of one type, alone and together.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredTogether {
    pub device_type: String,
    pub is_on_cores: bool,
    pub sources: Vec<ModelSource>,
    /// What each job does alone.
    pub jobs: Vec<JobAlone>,
    pub together: BTreeMap<Sharing, Vec<Together>>,
    /// The number of launches, pairs and slowdowns that are not used, for each reason.
    pub left_out: BTreeMap<String, usize>,
}

/// A launch that is used, with its source.
struct Launch {
    source: usize,
    device_type: String,
    is_on_cores: bool,
    row: TogetherRow,
    step_ns: u64,
}

/// A block of a run: the source, the run, the part and the repeat.
type Block<'a> = (usize, &'a str, u32, u32);

/// The logarithms of slowdowns by block, of each job beside its co-runners. Jobs are named by their places.
pub(super) type Slowdowns = BTreeMap<(usize, Vec<usize>), Vec<f64>>;

/// A job as rows name it.
type Key<'a> = (&'a str, Option<u32>, Option<Plan>);

/// Reads launches of runs, which are directories, and of exports, and tables of pairs.
///
/// # Errors
/// A file cannot be read or is no table, no group has its members alone in the same block, or the rows are of devices of several types
/// and none is chosen.
pub fn read(paths: &[PathBuf], device_type: Option<&str>) -> anyhow::Result<MeasuredTogether> {
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    let (mut launches, mut sources) = (Vec::new(), Vec::new());
    let mut pairs = PairsTogether::default();
    for (source, path) in paths.iter().enumerate() {
        let Table { file, text, layout, manifest } = table(path)?;
        if layout == Layout::Pairs {
            let count = pairs.read(Source { file: &file, text: &text }, device_type)?;
            sources.push(ModelSource::new(path, layout, count, &text));
            continue;
        }
        let make = || {
            match layout {
            Layout::Run => derive(path),
            _ => "it is no export of `profile` with jobs that share devices, and no table of pairs: mode,job_a,job_b,..".into(),
        }
        };
        let found: Vec<TogetherRow> = rows::parse(&file, &text).with_context(make)?;
        let count = found.len();
        for row in found {
            match launch(source, row, manifest.as_ref()) {
                Ok(launch) => launches.push(launch),
                Err(why) => *left_out.entry(why.into()).or_default() += 1,
            }
        }
        sources.push(ModelSource::new(path, layout, count, &text));
    }
    let of_launches = launches.iter().map(|launch| launch.device_type.as_str());
    let types: BTreeSet<&str> = of_launches.chain(pairs.device_types()).collect();
    let files = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let names = || types.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let device_type = match (device_type, types.len()) {
        (Some(name), _) if types.contains(name) => name.to_owned(),
        (None, 1) => types.first().copied().unwrap_or_default().to_owned(),
        (None, 2..) => anyhow::bail!(
            "{}: jobs shared devices of several types, and a model is of one: {}; name one with --device-type",
            files(),
            names()
        ),
        (Some(name), 1..) => {
            let message =
                format!("{}: no job shared a device of type '{name}'; rows are of {}", files(), names());
            return Err(Exit::NothingMatched.because(message));
        }
        _ => return Err(nothing(paths, &left_out)),
    };
    let before = launches.len();
    launches.retain(|launch| launch.device_type == device_type);
    let others = before - launches.len() + pairs.retain(&device_type);
    if others > 0 {
        *left_out.entry(format!("they are not of a device of type '{device_type}'")).or_default() += others;
    }
    let (alone, in_groups): (Vec<Launch>, Vec<Launch>) =
        launches.into_iter().partition(|launch| launch.row.group.is_none());
    let jobs = jobs(&alone);
    let mut slowdowns = slowdowns(&alone, &in_groups, &jobs, &mut left_out);
    let is_on_cores = alone.iter().any(|launch| launch.is_on_cores);
    let mut jobs = jobs.into_iter().map(|(_, job)| job).collect();
    pairs.add_to(&mut jobs, &mut slowdowns);
    let together = slowdowns.into_iter().map(|(sharing, own)| (sharing, together(own))).collect();
    let mut measured = MeasuredTogether { device_type, is_on_cores, sources, jobs, together, left_out };
    measured.leave_out_unknown();
    if measured.together.is_empty() {
        return Err(nothing(paths, &measured.left_out));
    }
    Ok(measured)
}

impl MeasuredTogether {
    /// Leaves out the slowdowns of groups with a job whose device's utilisation was not measured, if it was measured of most: a mode whose
    /// model knows it of some only would begin without it.
    fn leave_out_unknown(&mut self) {
        let jobs = &self.jobs;
        let is_known = |of: &Together| {
            std::iter::once(&of.job).chain(&of.co_runners).all(|job| jobs[*job].busy.is_some())
        };
        for rows in self.together.values_mut() {
            let known = rows.iter().filter(|of| is_known(of)).count();
            if 2 * known > rows.len() && known < rows.len() {
                let why = "the utilisation of a member's device was not measured, and most others have it";
                *self.left_out.entry(why.into()).or_default() += rows.len() - known;
                rows.retain(is_known);
            }
        }
        self.together.retain(|_, rows| !rows.is_empty());
    }
}

/// The table of a source.
struct Table {
    file: PathBuf,
    text: Vec<u8>,
    layout: Layout,
    /// The manifest of a run.
    manifest: Option<Manifest>,
}

fn table(path: &Path) -> anyhow::Result<Table> {
    if path.is_dir() {
        let run = RunDir::open(path)?;
        let (file, manifest) = (run.measurements_path(), Some(run.manifest()?));
        let text = bytes(&file).with_context(|| derive(path))?;
        return Ok(Table { file, text, layout: Layout::Run, manifest });
    }
    let text = bytes(path)?;
    let is_pairs = !text.is_empty() && pairs::is_table(Source { file: path, text: &text })?;
    let layout = if is_pairs { Layout::Pairs } else { Layout::Export };
    Ok(Table { file: path.to_owned(), text, layout, manifest: None })
}

/// The remedy for a run whose tables cannot be read.
fn derive(run: &Path) -> String {
    format!("make its tables with `profile derive {}`", run.display())
}

fn nothing(paths: &[PathBuf], left_out: &BTreeMap<String, usize>) -> anyhow::Error {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let reasons: Vec<&str> = left_out.keys().map(String::as_str).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
    Exit::NothingMatched.because(format!(
        "{} has no job beside others on its devices that was measured alone in the same block{why}",
        paths.join(", ")
    ))
}

/// A row as a launch that is used, or why it is not.
fn launch(source: usize, row: TogetherRow, manifest: Option<&Manifest>) -> Result<Launch, &'static str> {
    // A group with a member that failed is left out as a whole, so that the row is kept until then.
    if row.status != Status::Ok && row.group.is_none() {
        return Err("they are not ok");
    }
    if row.vary.is_some() {
        return Err(OTHER_VALUES);
    }
    let type_of = |device: &Device| match manifest {
        Some(manifest) => {
            let known = manifest.devices.iter().find(|facts| facts.device == *device);
            known.map(|facts| facts.device_type())
        }
        None => row.device_name.as_deref().map(|name| device.type_of(name)),
    };
    let on = devices(&row.device, type_of)?;
    if on.division.ranks_per_device > 1 {
        return Err("their ranks share devices");
    }
    if row.group.is_some() && matches!(row.sharing, Sharing::Sequential) {
        return Err("under sequential, members have no slowdown");
    }
    let step_ns = match row.step_ns_mean {
        Some(step_ns) => step_ns,
        None if row.group.is_some() => 0,
        None => return Err("they have no time of a step"),
    };
    let (device_type, is_on_cores) = (on.device_type, on.is_on_cores);
    Ok(Launch { source, device_type, is_on_cores, row, step_ns })
}

fn key(row: &TogetherRow) -> Key<'_> {
    (&row.workload, row.global_batch, row.plan)
}

fn block(launch: &Launch) -> Block<'_> {
    (launch.source, &launch.row.run, launch.row.part, launch.row.repeat)
}

/// What each job does alone, over all of its launches.
fn jobs(alone: &[Launch]) -> Vec<(Key<'_>, JobAlone)> {
    let mut launches: Vec<(Key<'_>, Vec<&Launch>)> = Vec::new();
    for launch in alone {
        match launches.iter_mut().find(|(of, _)| *of == key(&launch.row)) {
            Some((_, own)) => own.push(launch),
            None => launches.push((key(&launch.row), vec![launch])),
        }
    }
    launches.into_iter().filter_map(|(key, own)| Some((key, job(&own)?))).collect()
}

fn job(launches: &[&Launch]) -> Option<JobAlone> {
    let first = &launches.first()?.row;
    let mean = |value: &dyn Fn(&TogetherRow) -> Option<f64>| {
        mean(launches.iter().filter_map(|launch| value(&launch.row)))
    };
    let logs: f64 = launches.iter().map(|launch| (launch.step_ns as f64).ln()).sum();
    Some(JobAlone {
        workload: first.workload.clone(),
        global_batch: first.global_batch,
        plan: first.plan,
        family: None,
        step_ns: Some((logs / launches.len() as f64).exp().round() as u64),
        busy: mean(&|row| row.device_util_percent_mean).map(|percent| percent / 100.0),
        host: mean(&|row| Some(row.cpu_ns? as f64 / row.window_ns.filter(|window| *window > 0)? as f64)),
        traffic: mean(&|row| row.dram_util_percent).map(|percent| percent / 100.0),
        peak_memory_bytes: launches.iter().filter_map(|launch| launch.row.peak_memory_bytes).max(),
    })
}

/// The mean of values, which is the value if all are equal.
pub(super) fn mean(mut values: impl Iterator<Item = f64>) -> Option<f64> {
    let first = values.next()?;
    let (count, sum) = values.fold((1.0, 0.0), |(count, sum), value| (count + 1.0, sum + (value - first)));
    Some(first + sum / count)
}

/// The slowdowns of members of groups that share all devices, by mode, job and co-runners. Two members of one group that are the same
/// job count as one.
fn slowdowns(
    alone: &[Launch],
    in_groups: &[Launch],
    jobs: &[(Key<'_>, JobAlone)],
    left_out: &mut BTreeMap<String, usize>,
) -> BTreeMap<Sharing, Slowdowns> {
    let mut steps_alone: BTreeMap<(Block<'_>, &str, &str), Vec<f64>> = BTreeMap::new();
    for launch in alone {
        let of = (block(launch), launch.row.job.as_str(), launch.row.device.as_str());
        steps_alone.entry(of).or_default().push((launch.step_ns as f64).ln());
    }
    let mut groups: BTreeMap<(Block<'_>, &Sharing, &str), BTreeMap<u32, &Launch>> = BTreeMap::new();
    for launch in in_groups {
        let name = launch.row.group.as_deref().unwrap_or_default();
        let members = groups.entry((block(launch), &launch.row.sharing, name)).or_default();
        // The first launch of a seat is the one that counts: a job that ended early is started again.
        members.entry(launch.row.seat.unwrap_or(members.len() as u32)).or_insert(launch);
    }
    let mut found: BTreeMap<&Sharing, Slowdowns> = BTreeMap::new();
    for ((block, sharing, _), members) in &groups {
        let mut leave_out = |why: &str| *left_out.entry(why.into()).or_default() += members.len();
        let is_complete = members.keys().copied().eq(0..members.len() as u32) && members.len() > 1;
        if !is_complete || members.values().any(|of| of.row.status != Status::Ok || of.step_ns == 0) {
            leave_out("a member of their group failed, or has no time of a step");
            continue;
        }
        if members.values().any(|of| of.row.device != members[&0].row.device) {
            leave_out("the members of their group do not share all devices");
            continue;
        }
        let place = |of: &&Launch| jobs.iter().position(|(known, _)| *known == key(&of.row));
        let Some(places) = members.values().map(place).collect::<Option<Vec<usize>>>() else {
            leave_out("a member of their group was not measured alone");
            continue;
        };
        let mut of_block = Slowdowns::new();
        for (seat, of) in members.values().enumerate() {
            let Some(logs) = steps_alone.get(&(*block, of.row.job.as_str(), of.row.device.as_str())) else {
                leave_out("they were not measured alone in the same block");
                break;
            };
            let log_alone = logs.iter().sum::<f64>() / logs.len() as f64;
            let mut others = places.clone();
            let job = others.remove(seat);
            others.sort_unstable();
            of_block.entry((job, others)).or_default().push((of.step_ns as f64).ln() - log_alone);
        }
        for (of, logs) in of_block {
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            found.entry(*sharing).or_default().entry(of).or_default().push(mean);
        }
    }
    found.into_iter().map(|(sharing, own)| (sharing.clone(), own)).collect()
}

fn together(slowdowns: Slowdowns) -> Vec<Together> {
    let row = |((job, co_runners), logs): ((usize, Vec<usize>), Vec<f64>)| Together {
        job,
        co_runners,
        blocks: logs.into_iter().map(f64::exp).collect(),
    };
    slowdowns.into_iter().map(row).collect()
}
