//! Makes tables from raw files. All that `profile` prints or compares comes from here, so that the same raw files always give
//! the same numbers, also when they are derived again by a later version.

mod devices;
mod gates;
mod interference;
mod launch;
mod memory;
pub(crate) mod mfu;
pub(crate) mod missing;
pub(crate) mod operators;
mod phases;
mod samples;
mod summary;
mod together;
mod trace;

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use record::{
    launch_end::LaunchEnd,
    manifest::{Cell, Manifest},
    rows::{self, Appender, Curve, ErrorKind, Interference, Measurement, Status, Summary},
    run_dir::{self, RunDir},
    steps::JobStep,
};
use schema::units::Nanos;

use self::samples::Samples;
use crate::warnings::Finding;

pub use interference::obeys_no_grant;
pub use summary::{is_of, is_of_group};

/// During a run, the tables over all launches are made again when the number of rows has grown by one in this many. Their cost
/// per launch therefore does not grow with the run.
const SUMMARISED_ONE_IN: usize = 8;

/// The tables of a run, as far as its launches have ended.
pub struct Derived {
    run: RunDir,
    manifest: Manifest,
    samples: Samples,
    /// The file of the table of measurements, once a row is appended.
    on_file: Option<Appender<Measurement>>,
    pub measurements: Vec<Measurement>,
    /// The number of rows that are in the tables over all launches.
    summarised: usize,
    pub summaries: Vec<Summary>,
    /// The rows of a run with groups.
    pub interference: Vec<Interference>,
    pub curves: Vec<Curve>,
    /// The warnings of rows, with the numbers behind them.
    pub findings: Vec<Finding>,
    /// The warnings of single launches, without those of all launches together.
    launch_findings: Vec<Finding>,
    /// The visits of groups that have rows.
    visits: BTreeSet<String>,
}

/// The steps of one launch, and which of them a row of `measurements.csv` is made from.
pub struct LaunchSteps {
    pub launch: String,
    pub steps: Vec<JobStep>,
    /// Their positions in `steps`; `None` if the row has no numbers of steps.
    pub used: Option<BTreeSet<usize>>,
}

impl Derived {
    /// Derives all tables of a run from its raw files.
    ///
    /// # Errors
    /// The run is one of the scheduler, whose launches are not measurements because co-runners change during a launch, or a
    /// file cannot be read.
    pub fn of(run: &RunDir) -> anyhow::Result<Derived> {
        let manifest = run.manifest()?;
        if manifest.scheduling.is_some() {
            bail!("{} is a run of the scheduler; use `sched fidelity` for it", run.path().display());
        }
        let mut measurements = unsupported_rows(run, &manifest);
        measurements.extend(interference::unsupported_rows(run, &manifest));
        let mut derived = Derived {
            measurements,
            run: run.clone(),
            manifest,
            samples: Samples::of(run),
            on_file: None,
            summarised: 0,
            summaries: Vec::new(),
            interference: Vec::new(),
            curves: Vec::new(),
            findings: Vec::new(),
            launch_findings: Vec::new(),
            visits: BTreeSet::new(),
        };
        derived.samples.read_on()?;
        // A visit whose sharing mode could not be set up may have no launch.
        let visits = run.visits()?;
        let mut names = [run.launches()?, visits.clone()].concat();
        run_dir::in_order(&mut names);
        for name in &names {
            if visits.contains(name) { derived.measure_visit(name)? } else { derived.measure(name)? }
        }
        derived.summarise();
        Ok(derived)
    }

    /// Appends the row of a launch that has ended to the table of measurements on file. The other tables are written from time
    /// to time, and finally by [`Derived::write`].
    ///
    /// No other launch may be on the rig, because readings from before its end are dropped.
    pub fn add_launch(&mut self, launch: &str) -> anyhow::Result<()> {
        let known = self.measurements.len();
        self.samples.read_on()?;
        self.measure(launch)?;
        let ended = self.run.launch_end(launch)?.map(|end| end.mono_ns);
        self.put_on_file(known, ended)
    }

    /// Appends the rows of a visit of a group that is over, as [`Derived::add_launch`] does for a launch.
    pub fn add_visit(&mut self, name: &str) -> anyhow::Result<()> {
        let known = self.measurements.len();
        self.samples.read_on()?;
        self.measure_visit(name)?;
        let ended = self.run.visit(name)?.and_then(|visit| visit.end_mono_ns);
        self.put_on_file(known, ended)
    }

    /// Appends the rows from number `known` on, which are those of what has just ended at `ended`.
    fn put_on_file(&mut self, known: usize, ended: Option<Nanos>) -> anyhow::Result<()> {
        self.samples.forget_before(ended.unwrap_or_default());
        match &mut self.on_file {
            Some(table) => table.push(&self.measurements[known..])?,
            None => {
                rows::write(&self.run.measurements_path(), &self.measurements)?;
                self.on_file = Some(Appender::open(&self.run.measurements_path())?);
            }
        }
        if self.measurements.len() > self.summarised + self.summarised / SUMMARISED_ONE_IN {
            self.summarise();
            self.write_summaries()?;
        }
        Ok(())
    }

    /// The number of the next part of the run. Launches of different parts are never compared.
    pub fn next_part(&self) -> u32 {
        let launched = self.measurements.iter().filter(|row| !row.launch.is_empty());
        launched.map(|row| row.part + 1).max().unwrap_or(0)
    }

    /// Whether the run has a failure for which no later launch has made up.
    pub fn has_failed(&self) -> bool {
        let rows = missing::without_replaced(&self.manifest, &self.measurements);
        rows.iter().any(|row| row.status != Status::Ok)
    }

    /// Whether the run has groups, even if none of them has a row.
    pub fn is_of_groups(&self) -> bool {
        !self.manifest.groups.is_empty()
    }

    fn measure(&mut self, launch: &str) -> anyhow::Result<()> {
        let spec = self.run.spec(launch)?;
        if let Some(seat) = spec.seat {
            return self.measure_visit(&seat.visit);
        }
        if spec.operators.is_some() {
            return Ok(());
        }
        // A launch without an end was cut off together with the harness, and one that the user interrupted was not measured.
        // Their cells are measured again, and their files stay as evidence.
        let Some(end) = self.run.launch_end(launch)?.filter(is_measurement) else { return Ok(()) };
        let row = launch::measurement(&self.run, &self.manifest, &self.samples, launch, &end)
            .with_context(|| format!("launch {launch}"))?;
        self.launch_findings.extend(row.findings);
        let refused =
            interference::refused_by(&self.run, &self.manifest, &row.measurement, &self.measurements)?;
        self.measurements.push(row.measurement);
        self.measurements.extend(refused);
        Ok(())
    }

    /// Adds the rows of a visit. A visit without a file is treated like a launch without an end.
    fn measure_visit(&mut self, name: &str) -> anyhow::Result<()> {
        let Some(visit) = self.run.visit(name)? else { return Ok(()) };
        if self.visits.contains(name) {
            return Ok(());
        }
        let rows = together::measurements(&self.run, &self.manifest, &self.samples, &visit)
            .with_context(|| format!("visit {name}"))?;
        self.visits.insert(name.to_owned());
        for row in rows {
            self.launch_findings.extend(row.findings);
            self.measurements.push(row.measurement);
        }
        Ok(())
    }

    fn summarise(&mut self) {
        self.summarised = self.measurements.len();
        let (summaries, between) = summary::of_all(&self.manifest, &self.measurements);
        let (interference, curves, together) = interference::of_all(&self.manifest, &self.measurements);
        (self.summaries, self.interference, self.curves) = (summaries, interference, curves);
        self.findings = self.launch_findings.iter().cloned().chain(between).chain(together).collect();
    }

    fn write_summaries(&self) -> anyhow::Result<()> {
        rows::write(&self.run.summary_path(), &self.summaries)?;
        if self.is_of_groups() {
            rows::write(&self.run.interference_path(), &self.interference)?;
        }
        if !self.manifest.settings.stressors.is_empty() {
            rows::write(&self.run.curves_path(), &self.curves)?;
        }
        Ok(())
    }

    /// Replaces all derived files of the run.
    pub fn write(&self) -> anyhow::Result<()> {
        rows::write(&self.run.measurements_path(), &self.measurements)?;
        self.write_summaries()?;
        if self.run.operators_folder().is_dir() {
            rows::write(&self.run.operators_path(), &operators::recorded_operators(&self.run)?)?;
        }
        trace::write(&self.run).with_context(|| format!("{}", self.run.trace_path().display()))
    }
}

/// The rows that `profile compare` uses, made from the measurements of a run.
pub fn compared(manifest: &Manifest, measurements: &[Measurement]) -> (Vec<Summary>, Vec<Interference>) {
    let (summaries, _) = summary::of_all(manifest, measurements);
    let (interference, ..) = interference::of_all(manifest, measurements);
    (summaries, interference)
}

/// The steps behind the row of a launch, or of all launches of a seat. Steps that cannot be read are left out; the row has the
/// reason.
pub fn steps_of(run: &RunDir, row: &Measurement) -> anyhow::Result<Vec<LaunchSteps>> {
    let launch = row.launch.clone();
    let spec = run.spec(&launch)?;
    if let Some(seat) = &spec.seat {
        let Some(visit) = run.visit(&seat.visit)? else { return Ok(Vec::new()) };
        return together::steps(run, &visit, seat.number as usize);
    }
    let Some(end) = run.launch_end(&launch)? else { return Ok(Vec::new()) };
    let steps = launch::read_events(run, &spec, &end).unwrap_or_default().steps;
    let used = row.warmup_steps.map(|first| (first as usize..(first + row.steps_used) as usize).collect());
    Ok(vec![LaunchSteps { launch, steps, used }])
}

/// Whether a launch with this end counts as a measurement. Failed launches do.
pub fn is_measurement(end: &LaunchEnd) -> bool {
    end.err != Some(ErrorKind::Interrupted)
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

/// A measured number in whole units, at most [`Nanos::LONGEST`]: the interval of two repeats that differ a hundredfold can be
/// wider, and ends where no time can be longer.
pub(crate) fn whole(value: f64) -> u64 {
    (value.round() as u64).min(Nanos::LONGEST.0)
}

/// Rounds to this number of decimals, because further digits would not be measured ones.
pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}
