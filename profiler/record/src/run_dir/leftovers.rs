//! Files of a run that a killed program has not finished.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use schema::files::RunError;

use super::{RunDir, names::number_of};

/// Whether a run writes a whole file of this name.
type IsOurs = fn(&RunDir, &str) -> bool;

impl RunDir {
    /// Removes the files that killed programs were writing. They have a name of a file of a run and the suffix `.new`; any other file
    /// is the user's. Only the program that holds the lock of the run may do this.
    ///
    /// # Errors
    /// A folder cannot be read, or a file cannot be removed.
    pub fn remove_unfinished(&self) -> Result<(), RunError> {
        let io = |file: &Path| {
            let file = file.to_path_buf();
            move |cause: io::Error| RunError::Write { file, cause }
        };
        for (folder, is_ours) in self.folders_of_whole_files() {
            // A link may lead out of the run.
            if !folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                continue;
            }
            for entry in fs::read_dir(&folder).map_err(io(&folder))? {
                let path = entry.map_err(io(&folder))?.path();
                let name = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .and_then(|name| name.strip_suffix(".new"));
                let is_file = || path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
                if name.is_some_and(|name| is_ours(self, name)) && is_file() {
                    fs::remove_file(&path).map_err(io(&path))?;
                }
            }
        }
        Ok(())
    }

    /// The launches that have begun and have no end, because their harness was killed. Only the program that holds the lock of the run
    /// can tell them from launches that live, before it starts one.
    ///
    /// # Errors
    /// The folder of the launches cannot be read.
    pub fn killed_launches(&self) -> Result<Vec<String>, RunError> {
        // A published run has no launches, and a link may lead out of the run.
        if !self.0.join("jobs").symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(Vec::new());
        }
        let mut launches = self.launches()?;
        launches.retain(|launch| is_launch(launch) && !self.launch_end_path(launch).exists());
        Ok(launches)
    }

    /// The folders with files that are written whole, and which names those files have.
    fn folders_of_whole_files(&self) -> [(PathBuf, IsOurs); 5] {
        [
            (self.0.clone(), RunDir::is_whole_file),
            (self.0.join("jobs"), |run, name| name == "space" || is_numbered(run, name)),
            (self.visits_path(), is_numbered),
            (self.operators_folder(), is_numbered),
            (self.checkpoints_path(), is_numbered),
        ]
    }

    fn is_whole_file(&self, name: &str) -> bool {
        let tables = [
            self.measurements_path(),
            self.summary_path(),
            self.interference_path(),
            self.curves_path(),
            self.predictions_path(),
            self.draws_path(),
            self.speed_path(),
            self.outcomes_path(),
            self.operators_path(),
        ];
        let others = [self.manifest_path(), self.end_path(), self.footprints_path(), self.trace_path()];
        tables.iter().chain(&others).any(|path| *path == self.0.join(name))
    }
}

/// Whether a file of a launch, a visit or a job has this name.
fn is_numbered(_: &RunDir, name: &str) -> bool {
    let name = name.strip_suffix(".json").map(|name| name.strip_prefix("job-").unwrap_or(name));
    name.is_some_and(|name| number_of(name).is_some())
}

/// Whether a launch has this name: a number of at least four digits, a hyphen and the name of a workload.
fn is_launch(name: &str) -> bool {
    let (number, workload) = name.split_once('-').unwrap_or_default();
    number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit()) && !workload.is_empty()
}
