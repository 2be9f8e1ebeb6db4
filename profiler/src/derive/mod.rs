//! From raw files to tables. All that `profile` prints or compares comes through here, so that a
//! run derived again, by a later version too, says the same of the same raw files.

mod devices;
mod gates;
mod interference;
mod launch;
mod steps;
mod summary;
mod together;
mod trace;

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use schema::{
    manifest::{Cell, Manifest},
    rows::{self, Curve, DeviceSample, ErrorKind, HostSample, Interference, Measurement, Status, Summary},
    run_dir::RunDir,
    spec::LaunchEnd,
};

use crate::{
    warnings::Finding,
    window::{Window, growth},
};

pub use interference::obeys_no_grant;
pub use steps::{JobStep, LaunchSteps, job_steps};
pub use summary::{rows_of, rows_of_group};

/// The tables of a run, as far as its launches have ended.
pub struct Derived {
    run: RunDir,
    manifest: Manifest,
    pub measurements: Vec<Measurement>,
    pub summaries: Vec<Summary>,
    /// Of a run of groups.
    pub interference: Vec<Interference>,
    pub curves: Vec<Curve>,
    /// What makes rows doubtful, with the numbers behind it.
    pub findings: Vec<Finding>,
    /// The findings of single launches, without those of all launches together.
    launch_findings: Vec<Finding>,
    /// Visits of groups that have rows.
    visits: BTreeSet<String>,
}

impl Derived {
    /// Derives all tables of a run from its raw files.
    ///
    /// # Errors
    /// A run of the scheduler, in whose launches jobs change company and are measured by nobody; files that cannot be read.
    pub fn of(run: &RunDir) -> anyhow::Result<Derived> {
        let manifest = run.manifest()?;
        if manifest.scheduling.is_some() {
            bail!(
                "{} is a run of the scheduler; `sched fidelity` says what there is of it",
                run.path().display()
            );
        }
        let mut measurements = unsupported_rows(run, &manifest);
        measurements.extend(interference::unsupported_rows(run, &manifest));
        let mut derived = Derived {
            measurements,
            run: run.clone(),
            manifest,
            summaries: Vec::new(),
            interference: Vec::new(),
            curves: Vec::new(),
            findings: Vec::new(),
            launch_findings: Vec::new(),
            visits: BTreeSet::new(),
        };
        let samples = Samples::read(run)?;
        for launch in run.launches()? {
            derived.measure(&launch, &samples)?;
        }
        derived.summarise();
        Ok(derived)
    }

    /// Adds a launch that has ended since, or all of the visit of a group that it belongs to, and replaces the tables on file.
    pub fn add(&mut self, launch: &str) -> anyhow::Result<()> {
        let samples = Samples::read(&self.run)?;
        self.measure(launch, &samples)?;
        self.summarise();
        self.write_tables()
    }

    fn measure(&mut self, launch: &str, samples: &Samples) -> anyhow::Result<()> {
        if let Some(seat) = self.run.spec(launch)?.seat {
            return self.measure_visit(seat.visit, samples);
        }
        // A launch without an end was torn off with the harness, and one that the user interrupted
        // was not measured: their cells are done again, and what they left stays as evidence.
        let Some(end) = self.run.launch_end(launch)?.filter(is_measurement) else { return Ok(()) };
        let row = launch::measurement(&self.run, &self.manifest, samples, launch, &end)
            .with_context(|| format!("launch {launch}"))?;
        self.launch_findings.extend(row.findings);
        let refused =
            interference::refused_by(&self.run, &self.manifest, &row.measurement, &self.measurements)?;
        self.measurements.push(row.measurement);
        self.measurements.extend(refused);
        Ok(())
    }

    /// A visit without a file is as a launch without an end.
    fn measure_visit(&mut self, name: String, samples: &Samples) -> anyhow::Result<()> {
        let Some(visit) = self.run.visit(&name)? else { return Ok(()) };
        if self.visits.contains(&name) {
            return Ok(());
        }
        let rows = together::measurements(&self.run, &self.manifest, samples, &visit)
            .with_context(|| format!("visit {name}"))?;
        self.visits.insert(name);
        for row in rows {
            self.launch_findings.extend(row.findings);
            self.measurements.push(row.measurement);
        }
        Ok(())
    }

    fn summarise(&mut self) {
        let (summaries, between) = summary::of_all(&self.manifest, &self.measurements);
        let (interference, curves, together) = interference::of_all(&self.manifest, &self.measurements);
        (self.summaries, self.interference, self.curves) = (summaries, interference, curves);
        self.findings = self.launch_findings.iter().cloned().chain(between).chain(together).collect();
    }

    fn write_tables(&self) -> anyhow::Result<()> {
        rows::write(&self.run.measurements_path(), &self.measurements)?;
        rows::write(&self.run.summary_path(), &self.summaries)?;
        if !self.manifest.groups.is_empty() {
            rows::write(&self.run.interference_path(), &self.interference)?;
        }
        if !self.manifest.settings.stressors.is_empty() {
            rows::write(&self.run.curves_path(), &self.curves)?;
        }
        Ok(())
    }

    /// Replaces all derived files of the run.
    pub fn write(&self) -> anyhow::Result<()> {
        self.write_tables()?;
        trace::write(&self.run).with_context(|| format!("{}", self.run.trace_path().display()))
    }
}

/// The steps behind a row of what was started: of its launch, or of all launches of its seat. What of them cannot be read is
/// left out, as the row says why.
pub fn steps_of(run: &RunDir, row: &Measurement) -> anyhow::Result<Vec<LaunchSteps>> {
    let launch = row.launch.clone();
    let spec = run.spec(&launch)?;
    if let Some(seat) = &spec.seat {
        let Some(visit) = run.visit(&seat.visit)? else { return Ok(Vec::new()) };
        return together::steps(run, &visit, seat.number as usize);
    }
    let Some(end) = run.launch_end(&launch)? else { return Ok(Vec::new()) };
    let steps = job_steps(&launch::read_ranks(run, &spec, &end).unwrap_or_default());
    let used = row.warmup_steps.map(|first| (first as usize..(first + row.steps_used) as usize).collect());
    Ok(vec![LaunchSteps { launch, steps, used }])
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

    /// By how much a counter of all ranks of a launch grew; `None` where one of them was not seen.
    fn grown(
        &self,
        launch: &str,
        ranks: u32,
        value: fn(&HostSample) -> Option<u64>,
        window: Window,
    ) -> Option<u64> {
        let of_rank = |rank| {
            let readings = self.host.iter().filter(|row| row.launch == launch && row.rank == rank);
            growth(readings.filter_map(|row| Some((row.mono_ns, value(row)?))), window)
        };
        (0..ranks).map(of_rank).sum()
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

/// A measured number in whole units. The largest is `i64::MAX`, which every format that is written here
/// can hold: the interval of two repeats that differ a hundredfold has ends beyond it.
pub(crate) fn whole(value: f64) -> u64 {
    (value.round() as u64).min(i64::MAX as u64)
}

/// Keeps so many decimals: more would be digits that nothing measured.
pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}
