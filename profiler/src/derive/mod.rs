//! From raw files to tables. All that `profile` prints or compares comes through here, so that a
//! run derived again, by a later version too, says the same of the same raw files.

mod devices;
mod gates;
mod launch;
mod steps;
mod summary;
mod trace;

use anyhow::Context as _;
use schema::{
    manifest::{Cell, Manifest},
    rows::{self, DeviceSample, ErrorKind, HostSample, Measurement, Status, Summary},
    run_dir::RunDir,
    spec::LaunchEnd,
};

use crate::warnings::Finding;

pub use steps::{JobStep, job_steps};
pub use summary::rows_of;

/// The tables of a run, as far as its launches have ended.
pub struct Derived {
    run: RunDir,
    manifest: Manifest,
    pub measurements: Vec<Measurement>,
    pub summaries: Vec<Summary>,
    /// What makes rows doubtful, with the numbers behind it.
    pub findings: Vec<Finding>,
    /// The findings of single launches, without those of all launches together.
    launch_findings: Vec<Finding>,
}

impl Derived {
    /// Derives all tables of a run from its raw files.
    pub fn of(run: &RunDir) -> anyhow::Result<Derived> {
        let manifest = run.manifest()?;
        let mut derived = Derived {
            measurements: unsupported_rows(run, &manifest),
            run: run.clone(),
            manifest,
            summaries: Vec::new(),
            findings: Vec::new(),
            launch_findings: Vec::new(),
        };
        let samples = Samples::read(run)?;
        for launch in run.launches()? {
            derived.measure(&launch, &samples)?;
        }
        derived.summarise();
        Ok(derived)
    }

    /// Adds a launch that has ended since, and replaces the tables on file.
    pub fn add(&mut self, launch: &str) -> anyhow::Result<()> {
        let samples = Samples::read(&self.run)?;
        self.measure(launch, &samples)?;
        self.summarise();
        self.write_tables()
    }

    fn measure(&mut self, launch: &str, samples: &Samples) -> anyhow::Result<()> {
        // A launch without an end was torn off with the harness, and one that the user interrupted
        // was not measured: their cells are done again, and what they left stays as evidence.
        let Some(end) = self.run.launch_end(launch)?.filter(is_measurement) else { return Ok(()) };
        let row = launch::measurement(&self.run, &self.manifest, samples, launch, &end)
            .with_context(|| format!("launch {launch}"))?;
        self.launch_findings.extend(row.findings);
        self.measurements.push(row.measurement);
        Ok(())
    }

    fn summarise(&mut self) {
        let (summaries, between) = summary::of_all(&self.manifest, &self.measurements);
        self.summaries = summaries;
        self.findings = self.launch_findings.iter().cloned().chain(between).collect();
    }

    fn write_tables(&self) -> anyhow::Result<()> {
        rows::write(&self.run.measurements_path(), &self.measurements)?;
        rows::write(&self.run.summary_path(), &self.summaries)?;
        Ok(())
    }

    /// Replaces all derived files of the run.
    pub fn write(&self) -> anyhow::Result<()> {
        self.write_tables()?;
        trace::write(&self.run).with_context(|| format!("{}", self.run.trace_path().display()))
    }
}

/// Whether a launch that ended so stands for a measurement, failed ones included.
pub fn is_measurement(end: &LaunchEnd) -> bool {
    end.err != Some(ErrorKind::Interrupted)
}

/// All readings of a run.
struct Samples {
    devices: Vec<DeviceSample>,
    host: Vec<HostSample>,
}

impl Samples {
    fn read(run: &RunDir) -> anyhow::Result<Samples> {
        Ok(Samples {
            devices: rows::read_appended(&run.devices_path())?,
            host: rows::read_appended(&run.host_path())?,
        })
    }
}

fn unsupported_rows(run: &RunDir, manifest: &Manifest) -> Vec<Measurement> {
    let refused = |cell: &Cell| {
        cell.unsupported.as_ref().map(|reason| Measurement {
            status: Status::Unsupported,
            err: Some(ErrorKind::Unsupported),
            err_detail: Some(reason.clone()),
            ..launch::blank(run, cell)
        })
    };
    manifest.cells.iter().filter_map(refused).collect()
}

/// Keeps so many decimals: more would be digits that nothing measured.
fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}
