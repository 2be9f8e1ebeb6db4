//! The folder and the environment of a user's program in one launch.

use std::{ffi::OsString, fs, io, path::PathBuf};

use anyhow::Context as _;
use record::run_dir::RunDir;
use schema::{device::Device, spec::LaunchSpec};

use super::words::{self, Values};

/// The surroundings of a launch, with their words filled in.
pub(super) struct FilledSurroundings {
    /// `None` if no words are filled in.
    values: Option<Values>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) environment: Vec<(String, OsString)>,
}

impl FilledSurroundings {
    pub(super) fn for_launch(run: &RunDir, spec: &LaunchSpec) -> io::Result<FilledSurroundings> {
        let Some(surroundings) = &spec.surroundings else {
            return Ok(FilledSurroundings { values: None, cwd: None, environment: Vec::new() });
        };
        let values = Values::for_launch(run, spec)?;
        let variable = |(name, value): (&String, &String)| (name.clone(), values.fill(value));
        Ok(FilledSurroundings {
            cwd: surroundings.cwd.as_ref().map(|cwd| values.fill(cwd).into()),
            environment: surroundings.environment.iter().map(variable).collect(),
            values: Some(values),
        })
    }

    /// A word of the program's command.
    pub(super) fn word(&self, typed: &str) -> OsString {
        self.values.as_ref().map_or_else(|| typed.into(), |values| values.fill(typed))
    }

    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        self.environment.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    }

    /// A message without the paths that words stand for, which are private.
    pub(super) fn hide_paths(&self, message: String) -> String {
        self.values.as_ref().map_or(message.clone(), |values| values.hide(&message))
    }
}

/// Makes the folder for the output of a launch if a word names the folder, and the folder for the checkpoints of its job if the
/// program defines checkpoints. Checks that the folder of its program is there.
pub(super) fn make_folders(run: &RunDir, spec: &LaunchSpec) -> anyhow::Result<()> {
    if words::names_output(spec) {
        let output = run.output_path(&spec.launch);
        let parent = output.parent().context("it is in the run")?;
        fs::create_dir_all(parent).and_then(|()| fs::create_dir(&output)).context("outputs")?;
    }
    if let Some(checkpoint) = &spec.checkpoint {
        fs::create_dir_all(run.checkpoint_path(&checkpoint.folder)).context("checkpoints")?;
    }
    let typed = spec.surroundings.as_ref().and_then(|surroundings| surroundings.cwd.as_ref());
    let filled = FilledSurroundings::for_launch(run, spec)?.cwd;
    if let (Some(typed), Some(filled)) = (typed, filled) {
        anyhow::ensure!(filled.is_dir(), "there is no folder {typed} for the program to run in");
    }
    Ok(())
}

/// The option, or the harness, that sets a variable of a user's program, so that the user cannot; `None` if the user can.
pub fn who_sets(
    variable: &str,
    device: &Device,
    (has_threads, has_pattern): (bool, bool),
) -> Option<&'static str> {
    match variable {
        _ if variable.starts_with("TANDEM_") => Some("the harness"),
        _ if variable.starts_with("CUDA_MPS_") => Some("--sharing"),
        "CUDA_VISIBLE_DEVICES" if matches!(device, Device::Cuda(_)) => Some("--device"),
        "OMP_NUM_THREADS" | "MKL_NUM_THREADS" if has_threads => Some("--threads"),
        "PYTHONUNBUFFERED" if has_pattern => Some("--steps-regex"),
        _ => None,
    }
}
