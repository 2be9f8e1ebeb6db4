//! A run with one job that the doctor trains in order to measure something else.

use std::{fs::File, path::Path};

use jobs::{
    cells::{self, Grid},
    launch,
    manifest::{self, RunRequest},
    pool, run,
};
use record::{
    manifest::{Manifest, Settings},
    run_dir::RunDir,
};
use rig::{Exit, LaunchRequest, programs};
use schema::{catalog::Catalog, device::Device, job::Job};

use super::WORKER;

/// A run that has begun, and the request of its only launch.
pub(super) struct Trial {
    pub(super) run: RunDir,
    pub(super) manifest: Manifest,
    pub(super) request: LaunchRequest,
    /// The lock of the run directory.
    _lock: File,
}

/// Begins a run of `job`, or of a default job that can train here, in `out` or a new directory.
///
/// # Errors
/// The job cannot run here.
pub(super) fn begin(job: Option<&Job>, device: Option<&Device>, out: Option<&Path>) -> anyhow::Result<Trial> {
    let catalog = Catalog::embedded();
    let job = match job {
        Some(job) => job.clone(),
        None if programs::find(WORKER).is_ok() => "gpt2-mini".parse()?,
        None => "synthetic-spin".parse()?,
    };
    let pool = pool::resolve(device.cloned().as_slice(), None)?;
    let cells = cells::alone(&catalog, &[job], &Grid::default(), &pool, None)?;
    if let Some(reason) = &cells[0].unsupported {
        return Err(Exit::Usage.because(format!("{} cannot run here: {reason}", cells[0].name)));
    }
    let manifest = manifest::make(
        &catalog,
        RunRequest { cells, groups: Vec::new(), settings: Settings::default(), seed: 1, tags: Vec::new() },
    )?;
    let run =
        RunDir::create(&out.map_or_else(|| manifest::directory("doctor", &manifest), Path::to_path_buf))?;
    run.write_manifest(&manifest)?;
    let lock = run::lock(&run)?;
    let request = launch::request(&run, &manifest, &catalog, &manifest.cells[0], (1, 0), None)?;
    Ok(Trial { run, manifest, request, _lock: lock })
}
