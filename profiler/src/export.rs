//! The tables of `profile export`: measurements of runs, with the features to predict them from.
//!
//! A run is derived again from its raw files, so that runs of older versions have the numbers of this one. Unknown values are
//! empty. Rows that failed or could not run are kept as labels.

mod alone;
mod calibrated;
mod group;
mod machine;
mod model;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use record::{
    calibration::Calibration,
    manifest::{Cell, Manifest},
    rows::{ExportRow, Interference, Measurement, ProgramKind, Split, Summary, tested},
    run_dir::RunDir,
};
use schema::{catalog::Catalog, footprint::MeasuredFootprint, spec::LaunchSpec};

use crate::{derive::Derived, export::group::Members};

pub use calibrated::is_of;

/// A run, with all data that its rows are joined from.
pub struct Source {
    run: RunDir,
    manifest: Manifest,
    measurements: Vec<Measurement>,
    summaries: Vec<Summary>,
    interference: Vec<Interference>,
    /// The specification of each launch that has a row.
    specs: BTreeMap<String, LaunchSpec>,
    footprints: Vec<MeasuredFootprint>,
}

impl Source {
    /// # Errors
    /// The run has no raw files, as a published record, or is one of the scheduler, or a file of it cannot be read.
    pub fn read(run: RunDir) -> anyhow::Result<Source> {
        let path = run.path().display();
        run.launches().with_context(|| {
            format!("{path} has no raw files, as a published record; export the run behind it")
        })?;
        let derived = Derived::of(&run).with_context(|| path.to_string())?;
        let told = |row: &Measurement| anyhow::Ok((row.launch.clone(), run.spec(&row.launch)?));
        let launched = derived.measurements.iter().filter(|row| !row.launch.is_empty());
        Ok(Source {
            manifest: run.manifest()?,
            specs: launched.map(told).collect::<anyhow::Result<_>>()?,
            footprints: run.footprints()?.map(|footprints| footprints.measured).unwrap_or_default(),
            measurements: derived.measurements,
            summaries: derived.summaries,
            interference: derived.interference,
            run,
        })
    }

    /// The name of the run in its rows.
    pub fn name(&self) -> String {
        self.run.name()
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// One row for each row of `measurements.csv`, in its order. Definitions that no launch of the run contains are taken from
    /// `catalog`, and the performance of the machine's parts from its calibration.
    ///
    /// # Errors
    /// A row is of a cell or a group that the manifest does not name.
    pub fn rows(
        &self,
        catalog: &Catalog,
        calibration: Option<&Calibration>,
    ) -> anyhow::Result<Vec<ExportRow>> {
        self.measurements.iter().map(|measurement| self.row(measurement, catalog, calibration)).collect()
    }

    fn row(
        &self,
        measurement: &Measurement,
        catalog: &Catalog,
        calibration: Option<&Calibration>,
    ) -> anyhow::Result<ExportRow> {
        let subject = self.subject(measurement)?;
        let mut row = ExportRow::of(measurement);
        row.program = Some(program(subject.cell()));
        model::fill(&mut row, self, &subject, catalog);
        group::fill(&mut row, self, &subject);
        machine::fill(&mut row, &self.manifest, subject.cell());
        if let Some(calibration) = calibration {
            calibrated::fill(&mut row, calibration, &subject.members);
        }
        row.half_width_percent = self.summary_of(measurement).and_then(|summary| summary.half_width_percent);
        Ok(row)
    }

    fn subject<'a>(&'a self, measurement: &'a Measurement) -> anyhow::Result<Subject<'a>> {
        let spec = self.specs.get(&measurement.launch);
        let members = Members::of(&self.manifest, measurement, spec).with_context(|| {
            let name = if spec.is_some() { &measurement.launch } else { &measurement.job };
            format!("{}: {name}", self.run.path().display())
        })?;
        Ok(Subject { measurement, spec, members })
    }

    fn summary_of(&self, row: &Measurement) -> Option<&Summary> {
        let key = |summary: &&Summary| {
            (&summary.job, &summary.device, &summary.sharing) == (&row.job, &row.device, &row.sharing)
                && (&summary.group, summary.seat) == (&row.group, row.seat)
        };
        self.summaries.iter().find(key)
    }
}

/// Divides the rows of a whole table into training and test rows.
pub fn split(rows: &mut [ExportRow]) {
    let tested = tested(rows.iter().map(|row| row.split_key));
    for row in rows {
        row.split = side(row.split_key, &tested);
    }
}

/// The split keys of the rows to test on, in the whole table that is made of these runs.
///
/// # Errors
/// A row of a cell or a group that the manifest does not name.
pub fn tested_keys(sources: &[Source]) -> anyhow::Result<BTreeSet<u32>> {
    let rows = sources.iter().flat_map(|source| source.measurements.iter().map(move |row| (source, row)));
    let key = |(source, row): (&Source, &Measurement)| Ok(source.subject(row)?.members.split_key());
    Ok(tested(rows.map(key).collect::<anyhow::Result<Vec<u32>>>()?))
}

/// The side of the split on which the rows of a key are.
fn side(key: u32, tested: &BTreeSet<u32>) -> Split {
    if tested.contains(&key) { Split::Test } else { Split::Train }
}

/// What a row is of.
struct Subject<'a> {
    measurement: &'a Measurement,
    /// `None` for a cell that was never started.
    spec: Option<&'a LaunchSpec>,
    members: Members<'a>,
}

impl<'a> Subject<'a> {
    fn cell(&self) -> &'a Cell {
        self.members.own()
    }
}

fn program(cell: &Cell) -> ProgramKind {
    match (&cell.command, cell.all_reduce_bytes) {
        (Some(_), _) => ProgramKind::Command,
        (None, Some(_)) => ProgramKind::AllReduce,
        (None, None) => ProgramKind::Training,
    }
}

#[cfg(test)]
mod tests;
