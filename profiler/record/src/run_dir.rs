//! The layout of a run's directory. No other module spells a file name of a run.

mod kinds;
mod leftovers;
mod names;

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rustix::fs::OFlags;
use schema::{
    files::{
        RunError, begin, check_name, read_json, read_json_of, read_toml, to_toml, write_json, write_toml,
    },
    footprint::{FOOTPRINTS_FORMAT, Footprints},
    spec::{LaunchSpec, OPERATORS},
    unfinished::{self, Unfinished},
};

pub use self::names::in_order;
use self::names::{names_in, number_of};
use crate::{
    group::Visit,
    launch_end::LaunchEnd,
    manifest::{End, Manifest},
};

/// The folders that a run makes first.
const FIRST_FOLDERS: [&str; 3] = ["jobs", "events", "log"];

/// The directory of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Makes the directory of a new run, which must be new or empty. Of several programs that begin a run in one directory at
    /// once, the first to make the folder `jobs` has it, and the others fail before they write a file.
    ///
    /// # Errors
    /// The directory has an entry, which is left as it is, or a folder cannot be made.
    pub fn create(path: &Path) -> Result<RunDir, RunError> {
        let dir = RunDir(path.into());
        if dir.manifest_path().exists() {
            return Err(RunError::Exists { dir: path.into() });
        }
        let failed = |file: &Path| {
            let file = file.to_path_buf();
            move |cause| RunError::Write { file, cause }
        };
        fs::create_dir_all(path).map_err(failed(path))?;
        let entries = fs::read_dir(path).map_err(failed(path))?.map(|entry| Ok(entry?.file_name().into()));
        let entries: Vec<PathBuf> = entries.collect::<io::Result<_>>().map_err(failed(path))?;
        if let Some(entry) = entries.iter().find(|entry| !dir.is_of_a_beginning(entry)) {
            return Err(RunError::NotEmpty { dir: path.into(), entry: entry.clone() });
        }
        if !entries.is_empty() {
            return Err(RunError::Begun { dir: path.into() });
        }
        for folder in FIRST_FOLDERS {
            fs::create_dir(path.join(folder)).map_err(|cause| match cause.kind() {
                ErrorKind::AlreadyExists => RunError::Begun { dir: path.into() },
                _ => RunError::Write { file: path.join(folder), cause },
            })?;
        }
        Ok(dir)
    }

    /// Whether a run writes an entry of its directory before its manifest.
    fn is_of_a_beginning(&self, entry: &Path) -> bool {
        let files =
            [self.manifest_path(), self.predictions_path(), self.draws_path(), self.footprints_path()];
        let has_name =
            |file: &PathBuf| [file.clone(), file.with_added_extension("new")].contains(&self.0.join(entry));
        entry == Path::new("inputs")
            || FIRST_FOLDERS.iter().any(|folder| entry == Path::new(folder))
            || files.iter().any(has_name)
    }

    /// Opens the directory of an existing run, which may itself be a link.
    ///
    /// # Errors
    /// It is no run, or it holds a link, a pipe or a device.
    pub fn open(path: &Path) -> Result<RunDir, RunError> {
        let dir = RunDir(path.into());
        if dir.manifest_path().symlink_metadata().is_err() {
            return Err(RunError::NoRun { dir: path.into() });
        }
        kinds::check(path)?;
        Ok(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The run's name in rows, which is the last part of its path.
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

    /// The trace of operators that a rank of a launch writes; it is gone when the whole trace is in [`RunDir::operators_trace_path`].
    pub fn recording_path(&self, launch: &str, rank: u32) -> PathBuf {
        self.0.join("events").join(format!("{launch}.{rank}{OPERATORS}"))
    }

    /// The trace of the operators of a rank, for Perfetto.
    pub fn operators_trace_path(&self, launch: &str, rank: u32) -> PathBuf {
        self.operators_folder().join(format!("{launch}.{rank}.json"))
    }

    /// The folder of the traces of operators. Absent without a recording.
    pub fn operators_folder(&self) -> PathBuf {
        self.0.join("operators")
    }

    pub fn operators_path(&self) -> PathBuf {
        self.0.join("operators.csv")
    }

    pub fn stdout_path(&self, launch: &str, rank: u32) -> PathBuf {
        self.0.join("log").join(format!("{launch}.{rank}.out"))
    }

    pub fn stderr_path(&self, launch: &str, rank: u32) -> PathBuf {
        self.0.join("log").join(format!("{launch}.{rank}.err"))
    }

    /// The output of a user's command before or after the program of a launch.
    pub fn beside_path(&self, launch: &str, command: &str, stream: &str) -> PathBuf {
        self.0.join("log").join(format!("{launch}.{command}.{stream}"))
    }

    /// Link to the grant page of a launch; removed at the end of the launch.
    pub fn control_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.control"))
    }

    /// Where the ranks of a launch find each other; removed at the end of the launch.
    pub fn rendezvous_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.rendezvous"))
    }

    /// A launch's copy of the step hook; removed at the end of the launch.
    pub fn hook_path(&self, launch: &str) -> PathBuf {
        self.0.join("jobs").join(format!("{launch}.hook"))
    }

    /// Notes of the step hook besides its events; removed at the end of the launch.
    pub fn notes_path(&self, launch: &str) -> PathBuf {
        self.0.join("events").join(format!("{launch}.notes"))
    }

    /// The folder that `{launch}` names, for what a user's program writes. It stays in the run, and no reader of a run opens it.
    pub fn output_path(&self, launch: &str) -> PathBuf {
        self.0.join("outputs").join(launch)
    }

    /// The number of ranks with event files. For a command the files are the only evidence of its ranks.
    pub fn ranks(&self, spec: &LaunchSpec) -> u32 {
        match spec.program.speaks() {
            true => spec.devices.len() as u32,
            false => (0..).take_while(|rank| self.events_path(&spec.launch, *rank).is_file()).count() as u32,
        }
    }

    pub fn checkpoints_path(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// The checkpoint that a launch wrote on order.
    pub fn checkpoint_path(&self, launch: &str) -> PathBuf {
        self.checkpoints_path().join(launch)
    }

    /// The record of the checkpoint that a job of the scheduler continues from. `job` is its position in the trace.
    pub fn saved_path(&self, job: u32) -> PathBuf {
        self.checkpoints_path().join(format!("job-{job:04}.json"))
    }

    /// A message with the path of `file` made relative to the run, which may be moved and published.
    pub fn relative(&self, message: &str, file: &Path) -> String {
        let relative = file.strip_prefix(&self.0).unwrap_or(file);
        message.replace(&file.display().to_string(), &relative.display().to_string())
    }

    /// Checks that files of the run can be written. If not, a failed launch has not failed by itself.
    ///
    /// # Errors
    /// The reason why no file can be written, as a full disk.
    pub fn check_space(&self) -> Result<(), RunError> {
        const BYTES: usize = 64 << 10;
        // The file has one name, and launches that fail at once check at once. The lock of the run keeps other processes out.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.0.join("jobs").join("space");
        let write = || {
            let (mut file, unfinished) = unfinished::begin(&path)?;
            let written = file.write_all(&[0; BYTES]);
            written.and(unfinished.discard())
        };
        write().map_err(|cause| RunError::Write { file: self.0.clone(), cause })
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

    /// One row per member of a group, if the run has groups.
    pub fn interference_path(&self) -> PathBuf {
        self.0.join("interference.csv")
    }

    pub fn curves_path(&self) -> PathBuf {
        self.0.join("curves.csv")
    }

    /// Copies of a scheduler's inputs, so that the run can be resumed and its decisions repeated.
    pub fn inputs_path(&self) -> PathBuf {
        self.0.join("inputs")
    }

    /// The trace of the run's jobs.
    pub fn arrivals_path(&self) -> PathBuf {
        self.inputs_path().join("trace.csv")
    }

    /// The trace or the outcomes of an earlier run, from which the policy may learn.
    pub fn history_path(&self) -> PathBuf {
        self.inputs_path().join("history.csv")
    }

    /// The costs of switches.
    pub fn calibration_path(&self) -> PathBuf {
        self.inputs_path().join("machine.toml")
    }

    /// A table of step times, stored as a run without raw files.
    pub fn table(&self, number: u32) -> RunDir {
        RunDir(self.inputs_path().join(format!("table-{number}")))
    }

    /// A file of further workloads.
    pub fn catalog_path(&self, number: u32) -> PathBuf {
        self.inputs_path().join(format!("catalog-{number}.toml"))
    }

    /// A fitted model.
    pub fn fitted_path(&self, number: u32) -> PathBuf {
        self.inputs_path().join(format!("model-{number}.json"))
    }

    /// When the schedulers of the run began.
    pub fn parts_path(&self) -> PathBuf {
        self.0.join("parts.csv")
    }

    /// The steps that were skipped. Absent if the run was not fast-forwarded, and before its first jump.
    pub fn skips_path(&self) -> PathBuf {
        self.0.join("skips.csv")
    }

    /// The journal of a run of the scheduler.
    pub fn decisions_path(&self) -> PathBuf {
        self.0.join("decisions.jsonl")
    }

    pub fn predictions_path(&self) -> PathBuf {
        self.0.join("predictions.csv")
    }

    pub fn draws_path(&self) -> PathBuf {
        self.0.join("draws.csv")
    }

    pub fn speed_path(&self) -> PathBuf {
        self.0.join("speed.csv")
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

    /// Absent if the visit was not completed.
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

    /// Writes the manifest of a new run. If two runs begin in one directory at once, one of them is
    /// refused.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), RunError> {
        let path = self.manifest_path();
        let text = to_toml(&path, manifest)?;
        begin(&path, &text).and_then(Unfinished::put_new).map_err(|cause| match cause.kind() {
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

    /// Absent if the run was killed.
    pub fn end(&self) -> Result<Option<End>, RunError> {
        let path = self.end_path();
        path.exists().then(|| read_toml(&path)).transpose()
    }

    /// Written before the first launch, if the run estimates memory.
    pub fn footprints_path(&self) -> PathBuf {
        self.0.join("footprints.json")
    }

    pub fn write_footprints(&self, footprints: &Footprints) -> Result<(), RunError> {
        write_json(&self.footprints_path(), footprints)
    }

    /// Absent if the run made no estimates, or made them in an earlier format, whose footprints were of other things.
    pub fn footprints(&self) -> Result<Option<Footprints>, RunError> {
        let path = self.footprints_path();
        if path.exists() { read_json_of(&path, FOOTPRINTS_FORMAT) } else { Ok(None) }
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

    /// The events of the launch are on disk before its end is, so that a power cut leaves no end without them.
    pub fn write_launch_end(&self, launch: &str, end: &LaunchEnd) -> Result<(), RunError> {
        let events = (0..).map(|rank| self.events_path(launch, rank)).take_while(|path| path.exists());
        events.into_iter().try_for_each(|path| sync(&path))?;
        write_json(&self.launch_end_path(launch), end)
    }

    /// Syncs the tables and the journal that a run has appended to, which costs too much for each row.
    ///
    /// # Errors
    /// A file cannot be written to the disk.
    pub fn sync_appended(&self) -> Result<(), RunError> {
        let files = [
            self.devices_path(),
            self.host_path(),
            self.measurements_path(),
            self.parts_path(),
            self.skips_path(),
            self.decisions_path(),
        ];
        files.iter().filter(|path| path.exists()).try_for_each(|path| sync(path))
    }

    /// Absent if the harness was killed during the launch.
    pub fn launch_end(&self, launch: &str) -> Result<Option<LaunchEnd>, RunError> {
        let path = self.launch_end_path(launch);
        path.exists().then(|| read_json(&path)).transpose()
    }

    /// Names of all launches in order of their start.
    pub fn launches(&self) -> Result<Vec<String>, RunError> {
        names_in(&self.0.join("jobs"))
    }

    /// Names of all completed visits of groups, in order.
    pub fn visits(&self) -> Result<Vec<String>, RunError> {
        let folder = self.visits_path();
        if folder.is_dir() { names_in(&folder) } else { Ok(Vec::new()) }
    }

    /// The number of the next launch. Numbers count from 1, and each is used once.
    pub fn next_number(&self) -> Result<usize, RunError> {
        let (launches, visits) = (self.launches()?, self.visits()?);
        let last = [launches.last(), visits.last()].into_iter().flatten().filter_map(|name| number_of(name));
        Ok(last.max().unwrap_or(0) as usize + 1)
    }
}

/// Writes the content of a file of this program or of a worker to the disk. Links are not followed, and a pipe is not waited for.
fn sync(path: &Path) -> Result<(), RunError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::File::options().read(true).custom_flags(flags.bits() as i32).open(path);
    file.and_then(|file| file.sync_data()).map_err(|cause| RunError::Write { file: path.into(), cause })
}

#[cfg(test)]
mod tests;
