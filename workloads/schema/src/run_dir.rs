//! A run is a directory: where it keeps what. The only place that spells a file name of a run.

mod names;
mod text;

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

pub use self::names::in_order;
pub(crate) use self::text::{check_format, read, read_text, read_toml, replace, to_toml};
use self::{
    names::{check_name, names_in, number_of},
    text::{begin, read_json, write_json, write_toml},
};
use crate::{
    FORMAT,
    checkpoint::Saved,
    decision::JobId,
    footprint::Footprints,
    group::Visit,
    manifest::{End, Manifest},
    spec::{LaunchEnd, LaunchSpec},
    unfinished,
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

    /// What the step hook tells of a launch beside its events; it goes when the launch has ended.
    pub fn notes_path(&self, launch: &str) -> PathBuf {
        self.0.join("events").join(format!("{launch}.notes"))
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

/// Reads what a worker was told, from the file that `WORKER_SPEC` names.
pub fn read_spec(path: &Path) -> Result<LaunchSpec, RunError> {
    read_json(path)
}

#[cfg(test)]
mod tests;
