//! A run is a directory: where it keeps what. The only place that spells a file name of a run.

use std::{
    fs,
    io::{self, ErrorKind, Read as _, Write as _},
    path::{Component, Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    FORMAT,
    checkpoint::Saved,
    decision::JobId,
    footprint::Footprints,
    group::Visit,
    manifest::{End, Manifest},
    spec::{LaunchEnd, LaunchSpec},
    unfinished,
    units::HumanBytes,
};

/// The directory of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

/// A file of a run that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{}: {cause}", file.display())]
    Io { file: PathBuf, cause: io::Error },
    #[error("{} cannot be written: {cause}", file.display())]
    Write { file: PathBuf, cause: io::Error },
    #[error("{} is no run: it has no manifest.toml", dir.display())]
    NoRun { dir: PathBuf },
    #[error("{} already holds a run; name another directory, or continue it with --resume", dir.display())]
    Exists { dir: PathBuf },
    #[error("{}: {message}", file.display())]
    Parse { file: PathBuf, message: String },
    #[error("{}: {name:?} is no name of a file of the run; the run was changed, so take another copy of it", file.display())]
    Name { file: PathBuf, name: String },
    #[error("{}: format {found} is newer than this program, which reads up to {FORMAT}; update Tandem", file.display())]
    Newer { file: PathBuf, found: u32 },
}

impl RunDir {
    /// Makes the directory of a new run. One that holds a run already is left alone.
    pub fn create(path: &Path) -> Result<RunDir, RunError> {
        let dir = RunDir(path.into());
        if dir.manifest_path().exists() {
            return Err(RunError::Exists { dir: path.into() });
        }
        for folder in ["jobs", "events", "log"] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder).map_err(|cause| RunError::Write { file: folder, cause })?;
        }
        Ok(dir)
    }

    /// Opens the directory of a run that was begun.
    pub fn open(path: &Path) -> Result<RunDir, RunError> {
        let dir = RunDir(path.into());
        if !dir.manifest_path().exists() {
            return Err(RunError::NoRun { dir: path.into() });
        }
        Ok(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The run's name, as rows carry it: the last part of its path.
    pub fn name(&self) -> String {
        self.0.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy().into_owned())
    }

    pub fn manifest_path(&self) -> PathBuf {
        self.0.join("manifest.toml")
    }

    pub fn end_path(&self) -> PathBuf {
        self.0.join("end.toml")
    }

    pub fn spec_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.json"))
    }

    pub fn launch_end_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.end.json"))
    }

    pub fn events_path(&self, launch: &str, rank: u32) -> PathBuf {
        self.0.join("events").join(format!("{launch}.{rank}.jsonl"))
    }

    pub fn stdout_path(&self, launch: &str, rank: u32) -> PathBuf {
        self.0.join("log").join(format!("{launch}.{rank}.out"))
    }

    pub fn stderr_path(&self, launch: &str, rank: u32) -> PathBuf {
        self.0.join("log").join(format!("{launch}.{rank}.err"))
    }

    /// Where the grant page of a launch can be opened; it goes when the launch has ended.
    pub fn control_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.control"))
    }

    /// Where the ranks of a launch find each other; it goes when the launch has ended.
    pub fn rendezvous_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.rendezvous"))
    }

    /// Where a launch's copy of the step hook lies; it goes when the launch has ended.
    pub fn hook_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.hook"))
    }

    /// How many ranks have event files. Those of a command are known by them alone.
    pub fn ranks(&self, spec: &LaunchSpec) -> u32 {
        match spec.program.speaks() {
            true => spec.devices.len() as u32,
            false => (0..).take_while(|rank| self.events_path(&spec.launch, *rank).is_file()).count() as u32,
        }
    }

    pub fn checkpoints_path(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// What a launch wrote on the order to make a checkpoint.
    pub fn checkpoint_path(&self, launch: &str) -> PathBuf {
        self.checkpoints_path().join(launch)
    }

    /// Which checkpoint a job of the scheduler's goes on from.
    pub fn saved_path(&self, job: JobId) -> PathBuf {
        self.checkpoints_path().join(format!("job-{:04}.json", job.0))
    }

    /// Replaces the one before.
    pub fn write_saved(&self, job: JobId, saved: &Saved) -> Result<(), RunError> {
        let folder = self.checkpoints_path();
        fs::create_dir_all(&folder).map_err(|cause| RunError::Write { file: folder, cause })?;
        write_json(&self.saved_path(job), saved)
    }

    /// Absent where the job has no checkpoint.
    pub fn saved(&self, job: JobId) -> Result<Option<Saved>, RunError> {
        let path = self.saved_path(job);
        let Some(saved) = path.exists().then(|| read_json::<Saved>(&path)).transpose()? else {
            return Ok(None);
        };
        check_name(&path, &saved.name)?;
        check_name(&path, &saved.launch)?;
        Ok(Some(saved))
    }

    /// A message that names a file of the run, which may be moved and published, with the path of `file` given relative to it.
    pub fn relative(&self, message: &str, file: &Path) -> String {
        let relative = file.strip_prefix(&self.0).unwrap_or(file);
        message.replace(&file.display().to_string(), &relative.display().to_string())
    }

    /// Whether files of the run can be written: a launch that fails where they cannot has not failed by itself.
    ///
    /// # Errors
    /// Why they cannot, as where the disk is full.
    pub fn check_space(&self) -> Result<(), RunError> {
        const BYTES: usize = 64 << 10;
        let path = self.0.join("jobs").join("space.new");
        let written = fs::write(&path, [0; BYTES]);
        let removed = fs::remove_file(&path);
        written.and(removed).map_err(|cause| RunError::Write { file: self.0.clone(), cause })
    }

    pub fn devices_path(&self) -> PathBuf {
        self.0.join("devices.csv")
    }

    pub fn host_path(&self) -> PathBuf {
        self.0.join("host.csv")
    }

    pub fn measurements_path(&self) -> PathBuf {
        self.0.join("measurements.csv")
    }

    pub fn summary_path(&self) -> PathBuf {
        self.0.join("summary.csv")
    }

    /// One row per member of a group, where the run has groups.
    pub fn interference_path(&self) -> PathBuf {
        self.0.join("interference.csv")
    }

    pub fn curves_path(&self) -> PathBuf {
        self.0.join("curves.csv")
    }

    /// Where a run of the scheduler keeps copies of what it was given, so that it can be gone on with and decided again.
    pub fn inputs_path(&self) -> PathBuf {
        self.0.join("inputs")
    }

    /// The trace of its jobs.
    pub fn arrivals_path(&self) -> PathBuf {
        self.inputs_path().join("trace.csv")
    }

    /// What switches cost.
    pub fn calibration_path(&self) -> PathBuf {
        self.inputs_path().join("machine.toml")
    }

    /// A table of step times, which is a run without its raw files.
    pub fn table(&self, number: u32) -> RunDir {
        RunDir(self.inputs_path().join(format!("table-{number}")))
    }

    /// When schedulers of the run began.
    pub fn parts_path(&self) -> PathBuf {
        self.0.join("parts.csv")
    }

    /// What happened in a run of the scheduler, and what was done about it.
    pub fn decisions_path(&self) -> PathBuf {
        self.0.join("decisions.jsonl")
    }

    pub fn predictions_path(&self) -> PathBuf {
        self.0.join("predictions.csv")
    }

    pub fn outcomes_path(&self) -> PathBuf {
        self.0.join("outcomes.csv")
    }

    fn visits_path(&self) -> PathBuf {
        self.0.join("groups")
    }

    pub fn visit_path(&self, visit: &str) -> PathBuf {
        self.visits_path().join(format!("{visit}.json"))
    }

    pub fn write_visit(&self, name: &str, visit: &Visit) -> Result<(), RunError> {
        let folder = self.visits_path();
        fs::create_dir_all(&folder).map_err(|cause| RunError::Write { file: folder, cause })?;
        write_json(&self.visit_path(name), visit)
    }

    /// Absent where the visit was not brought to its end.
    pub fn visit(&self, name: &str) -> Result<Option<Visit>, RunError> {
        let path = self.visit_path(name);
        let Some(visit) = path.exists().then(|| read_json::<Visit>(&path)).transpose()? else {
            return Ok(None);
        };
        visit.launches.iter().flatten().try_for_each(|launch| check_name(&path, launch))?;
        Ok(Some(visit))
    }

    pub fn trace_path(&self) -> PathBuf {
        self.0.join("trace.json")
    }

    /// Of a new run: of two that begin in one directory at the same time, one is refused.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), RunError> {
        let path = self.manifest_path();
        let text = to_toml(&path, manifest)?;
        begin(&path, &text).and_then(|()| unfinished::put_new(&path)).map_err(|cause| match cause.kind() {
            ErrorKind::AlreadyExists => RunError::Exists { dir: self.0.clone() },
            _ => RunError::Write { file: path, cause },
        })
    }

    pub fn manifest(&self) -> Result<Manifest, RunError> {
        read_toml(&self.manifest_path())
    }

    pub fn write_end(&self, end: &End) -> Result<(), RunError> {
        write_toml(&self.end_path(), end)
    }

    /// Absent where the run was torn off.
    pub fn end(&self) -> Result<Option<End>, RunError> {
        let path = self.end_path();
        path.exists().then(|| read_toml(&path)).transpose()
    }

    /// Written before the first launch, where the run makes estimates of memory.
    pub fn footprints_path(&self) -> PathBuf {
        self.0.join("footprints.json")
    }

    pub fn write_footprints(&self, footprints: &Footprints) -> Result<(), RunError> {
        write_json(&self.footprints_path(), footprints)
    }

    /// Absent where the run made no estimates.
    pub fn footprints(&self) -> Result<Option<Footprints>, RunError> {
        let path = self.footprints_path();
        path.exists().then(|| read_json(&path)).transpose()
    }

    pub fn write_spec(&self, spec: &LaunchSpec) -> Result<(), RunError> {
        write_json(&self.spec_path(&spec.launch), spec)
    }

    pub fn spec(&self, launch: &str) -> Result<LaunchSpec, RunError> {
        let path = self.spec_path(launch);
        let spec: LaunchSpec = read_json(&path)?;
        check_name(&path, &spec.launch)?;
        spec.seat.iter().try_for_each(|seat| check_name(&path, &seat.visit))?;
        Ok(spec)
    }

    pub fn write_launch_end(&self, launch: &str, end: &LaunchEnd) -> Result<(), RunError> {
        write_json(&self.launch_end_path(launch), end)
    }

    /// Absent where the harness was torn off while the launch ran.
    pub fn launch_end(&self, launch: &str) -> Result<Option<LaunchEnd>, RunError> {
        let path = self.launch_end_path(launch);
        path.exists().then(|| read_json(&path)).transpose()
    }

    /// Names of all launches, in the order they were started.
    pub fn launches(&self) -> Result<Vec<String>, RunError> {
        names_in(&self.0.join("jobs"))
    }

    /// Names of all visits of groups that are over, in their order.
    pub fn visits(&self) -> Result<Vec<String>, RunError> {
        let folder = self.visits_path();
        if folder.is_dir() { names_in(&folder) } else { Ok(Vec::new()) }
    }

    /// The number of the next launch. They count up from 1, and none is given twice.
    pub fn next_number(&self) -> Result<usize, RunError> {
        let (launches, visits) = (self.launches()?, self.visits()?);
        let last = [launches.last(), visits.last()].into_iter().flatten().filter_map(|name| number_of(name));
        Ok(last.max().unwrap_or(0) as usize + 1)
    }
}

/// What files of a folder are called, by number: `0007-lstm` comes before `10000-lstm`.
fn names_in(folder: &Path) -> Result<Vec<String>, RunError> {
    let io = |cause| RunError::Io { file: folder.into(), cause };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let file = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        let name = file.strip_suffix(".json").filter(|name| !name.ends_with(".end"));
        names.extend(name.map(str::to_owned));
    }
    in_order(&mut names);
    Ok(names)
}

/// Puts names of launches and visits in the order of their numbers.
pub fn in_order(names: &mut [String]) {
    names.sort_by_cached_key(|name| (number_of(name), name.clone()));
}

fn number_of(name: &str) -> Option<u64> {
    name.split('-').next()?.parse().ok()
}

/// Refuses what would lead out of the folder that it is a name in.
fn check_name(file: &Path, name: &str) -> Result<(), RunError> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(()),
        _ => Err(RunError::Name { file: file.into(), name: name.into() }),
    }
}

/// Reads what a worker was told, from the file that `WORKER_SPEC` names.
pub fn read_spec(path: &Path) -> Result<LaunchSpec, RunError> {
    read_json(path)
}

/// Replaces a file whole: a reader finds the old one or the new one, also after a kill.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), RunError> {
    let io = |cause| RunError::Write { file: path.into(), cause };
    begin(path, text).and_then(|()| unfinished::put(path)).map_err(io)
}

fn begin(path: &Path, text: &str) -> io::Result<()> {
    unfinished::begin(path)?.write_all(text.as_bytes())
}

pub(crate) fn read(path: &Path) -> Result<String, RunError> {
    read_text(path).map_err(|cause| RunError::Io { file: path.into(), cause })
}

/// Reads a file that is no table whole, as far as one can be long.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    const LONGEST_BYTES: u64 = 256 << 20;
    let mut text = String::new();
    fs::File::open(path)?.take(LONGEST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_BYTES {
        let why = format!("it is longer than {}, the longest that is read", HumanBytes(LONGEST_BYTES));
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}

/// Refuses a newer format by name before any other difference can confuse the reader.
pub(crate) fn check_format(path: &Path, found: Option<u64>) -> Result<(), RunError> {
    match found {
        Some(found) if found > u64::from(FORMAT) => {
            Err(RunError::Newer { file: path.into(), found: u32::try_from(found).unwrap_or(u32::MAX) })
        }
        Some(_) => Ok(()),
        None => Err(RunError::Parse { file: path.into(), message: "has no 'format'".into() }),
    }
}

fn write_toml(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    replace(path, &to_toml(path, value)?)
}

/// What is to stand in the file at `path`.
pub(crate) fn to_toml(path: &Path, value: &impl Serialize) -> Result<String, RunError> {
    toml::to_string(value).map_err(|e| RunError::Parse { file: path.into(), message: e.to_string() })
}

pub(crate) fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let text = read(path)?;
    let parse = |e: toml::de::Error| {
        let line = e.span().map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1);
        RunError::Parse { file: path.into(), message: format!("line {line}: {}", e.message()) }
    };
    let table: toml::Table = text.parse().map_err(parse)?;
    check_format(path, table.get("format").and_then(toml::Value::as_integer).map(|n| n as u64))?;
    toml::from_str(&text).map_err(parse)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|e| RunError::Parse { file: path.into(), message: e.to_string() })?;
    text.push('\n');
    replace(path, &text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let text = read(path)?;
    // serde_json's messages end in their line and column.
    let parse = |e: serde_json::Error| RunError::Parse { file: path.into(), message: e.to_string() };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(parse)?;
    check_format(path, value.get("format").and_then(serde_json::Value::as_u64))?;
    serde_json::from_str(&text).map_err(parse)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        catalog::Catalog,
        device::Device,
        group::{Group, Turn},
        manifest::{AlikeNodes, Cell, DeviceFacts, Machine, ObserverCost, Scheduling, Settings, Simulated},
        rows::ErrorKind,
        sharing::Sharing,
        spec::{AllReduce, Collectives, Program, RankEnd, Seat, Training},
        units::Nanos,
    };

    fn run() -> (tempfile::TempDir, RunDir) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("r")).unwrap();
        (dir, run)
    }

    fn manifest(text: &str, number: f64, seed: u64) -> Manifest {
        Manifest {
            format: FORMAT,
            started_utc: "2026-11-20T10:13:40Z".into(),
            command: vec!["profile".into(), text.into()],
            version: "0.1.0".into(),
            git_revision: Some(text.into()),
            seed,
            settings: Settings {
                repeats: 3,
                seconds: Some(number),
                steps: None,
                ci_percent: Some(number),
                budget_s: None,
                heartbeat_s: Some(number),
                threads: Some(1),
                cpus_per_job: None,
                data: Some(text.into()),
                loaders: 3,
                offload_threads: Some(2),
                collectives: Some(Collectives::Gloo),
                steps_regex: Some(text.into()),
                memory_bytes: Some(seed),
                stressors: vec![text.into()],
                catalogs: vec![text.into()],
            },
            machine: Machine {
                cpu: Some(text.into()),
                environment: [(text.to_string(), text.to_string())].into(),
                ..Machine::default()
            },
            devices: vec![DeviceFacts {
                device: Device::Cpu(vec![0, 1]),
                name: text.into(),
                memory_bytes: Some(seed),
                peak_flops: [("bf16".to_string(), number)].into(),
                chip: [(text.to_string(), seed)].into(),
                capabilities: Default::default(),
                topology: Default::default(),
            }],
            cells: vec![Cell {
                name: text.into(),
                sharing: Sharing::Alone,
                job: text.into(),
                workload: text.into(),
                command: Some(vec![text.into(), String::new()]),
                all_reduce_bytes: Some(seed),
                global_batch: Some(8),
                plan: Some("ga4-bf16".parse().unwrap()),
                devices: vec![Device::Cuda(0)],
                memory_estimate_bytes: Some(seed),
                unsupported: Some(text.into()),
            }],
            groups: vec![Group {
                name: text.into(),
                sharing: "step-gate:250ms:2/1".parse().unwrap(),
                members: vec![text.into(), text.into()],
                unsupported: Some(text.into()),
            }],
            scheduling: Some(Scheduling {
                policy: text.into(),
                tables: 1,
                switch_cost_s: None,
                checkpoint_every_s: Some(number),
                progress_every_s: Some(number),
                jobs_per_device: 2,
                retries: 3,
                simulated: Some(Simulated {
                    noise_percent: number,
                    nodes: vec![AlikeNodes { nodes: 2, devices: 8, device_type: text.into() }],
                    ..Simulated::default()
                }),
            }),
        }
    }

    proptest! {
        #[test]
        fn manifest_and_end_round_trip(text in "\\PC{0,20}", number in 0.0..1e9f64, seed in 0..i64::MAX as u64) {
            let (_dir, run) = run();
            let manifest = manifest(&text, number, seed);
            run.write_manifest(&manifest).unwrap();
            prop_assert_eq!(run.manifest().unwrap(), manifest);
            let end = End {
                format: FORMAT,
                ended_utc: text.clone(),
                exit_code: 130,
                missing: vec![text],
                observer: ObserverCost { wall_ns: seed, ..ObserverCost::default() },
            };
            prop_assert_eq!(run.end().unwrap(), None);
            run.write_end(&end).unwrap();
            prop_assert_eq!(run.end().unwrap(), Some(end));
            let footprints = Footprints { format: FORMAT, measured: vec![] };
            prop_assert_eq!(run.footprints().unwrap(), None);
            run.write_footprints(&footprints).unwrap();
            prop_assert_eq!(run.footprints().unwrap(), Some(footprints));
        }

        #[test]
        fn a_launch_round_trips(text in "\\PC{0,20}", seed in any::<u64>(), steps in any::<Option<u64>>()) {
            let (_dir, run) = run();
            let workload = Catalog::embedded().iter().next().unwrap().clone();
            let training = Training {
                steps,
                rendezvous: Some(text.clone().into()),
                ..Training::new(workload, 8, "dp2".parse().unwrap())
            };
            let all_reduce = AllReduce { bytes: seed, collectives: Some(Collectives::Nccl), rendezvous: None };
            for program in [
                Program::Command(vec![text.clone()]),
                Program::Training(Box::new(training)),
                Program::AllReduce(all_reduce),
            ] {
                let devices = vec![Device::Cpu(vec![0]), Device::Cpu(vec![1])];
                let spec = LaunchSpec {
                    block: 3,
                    steps_regex: Some(text.clone()),
                    sharing: Sharing::TIME_SLICE,
                    seat: Some(Seat { group: text.clone(), visit: "0003".into(), number: 1 }),
                    threads_named: true,
                    memory_bytes: steps,
                    seed,
                    ..LaunchSpec::new("0001-a", &text, program, devices)
                };
                run.write_spec(&spec).unwrap();
                prop_assert_eq!(run.spec("0001-a").unwrap(), spec);
            }
            prop_assert_eq!(run.launch_end("0001-a").unwrap(), None);
            let end = LaunchEnd {
                format: FORMAT,
                mono_ns: Nanos(seed),
                enough_mono_ns: steps.map(Nanos),
                err: Some(ErrorKind::Hung),
                err_detail: Some(text.clone()),
                ranks: vec![RankEnd { signal: Some(9), ..RankEnd::default() }],
            };
            run.write_launch_end("0001-a", &end).unwrap();
            prop_assert_eq!(run.launch_end("0001-a").unwrap(), Some(end));
            prop_assert_eq!(run.launches().unwrap(), ["0001-a"]);
            prop_assert_eq!(run.visit("0003").unwrap(), None);
            let visit = Visit {
                format: FORMAT,
                group: "a+a".into(),
                sharing: Sharing::Sequential,
                block: 3,
                part: 1,
                barrier_mono_ns: Some(Nanos(seed)),
                end_mono_ns: None,
                launches: vec![vec!["0001-a".into(), "0003-a".into()], vec!["0002-a".into()]],
                turns: vec![Turn { seat: 1, start_mono_ns: Nanos(seed), end_mono_ns: Nanos(seed) }],
                not_shared: Some(text),
            };
            run.write_visit("0003", &visit).unwrap();
            prop_assert_eq!(run.visit("0003").unwrap(), Some(visit));
            prop_assert_eq!(run.visits().unwrap(), ["0003"]);
            prop_assert_eq!(run.saved(JobId(7)).unwrap(), None);
            let (name, launch) = ("0001-a-2".to_owned(), "0001-a".to_owned());
            let saved = Saved { format: FORMAT, name, launch, launch_steps: seed, steps: seed };
            run.write_saved(JobId(7), &saved).unwrap();
            prop_assert_eq!(run.saved(JobId(7)).unwrap(), Some(saved));
        }
    }

    #[test]
    fn a_run_is_created_once_and_a_newer_one_is_refused_by_name() {
        let (dir, run) = run();
        assert!(RunDir::open(run.path()).unwrap_err().to_string().ends_with("it has no manifest.toml"));
        run.write_manifest(&manifest("x", 1.0, 0)).unwrap();
        let again = RunDir::create(&dir.path().join("r")).unwrap_err().to_string();
        assert!(again.contains("already holds a run"), "{again}");
        let text = fs::read_to_string(run.manifest_path()).unwrap();
        for (from, to, message) in [
            ("format = 1", "format = 2\nunknown = 3", "format 2 is newer than this program"),
            ("format = 1", "colour = 1", "has no 'format'"),
            ("seed = 0", "seed = \"x\"", "line 6: invalid type"),
        ] {
            fs::write(run.manifest_path(), text.replace(from, to)).unwrap();
            let error = run.manifest().unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("manifest.toml"), "{error}");
        }
    }

    #[test]
    fn names_that_lead_out_of_a_run_are_refused_by_the_file_that_has_them() {
        let (_dir, run) = run();
        let program = Program::Command(vec!["true".into()]);
        for name in ["../0001-a", "/etc/0001-a", "a/b", "..", ".", "", "a/"] {
            let mut spec = LaunchSpec::new(name, "a", program.clone(), Vec::new());
            write_json(&run.spec_path("0001-a"), &spec).unwrap();
            let error = run.spec("0001-a").unwrap_err().to_string();
            assert!(error.contains("0001-a.json") && error.contains("no name of a file"), "{error}");
            spec.launch = "0001-a".into();
            spec.seat = Some(Seat { group: "a+b".into(), visit: name.into(), number: 0 });
            write_json(&run.spec_path("0001-a"), &spec).unwrap();
            assert!(matches!(run.spec("0001-a"), Err(RunError::Name { .. })), "{name}");
        }
        run.write_manifest(&manifest("x", 1.0, 0)).unwrap();
        assert!(matches!(run.write_manifest(&manifest("x", 1.0, 0)), Err(RunError::Exists { .. })));
    }
}
