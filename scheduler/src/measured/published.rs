//! Tables of step times on the command line: published ones, and exports.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context as _;
use formats::{
    fitted::{FittedRow, Layout, UnfitRow},
    import::{
        Source,
        times::{self, PublishedTimes, UnknownPlans},
    },
};
use jobs::workload_lookup;
use record::{facts::Facts, rows::Warnings};

use super::{Found, Inputs, Row, bytes, export, facts, step_times};

/// The rows of a table of any layout.
///
/// # Errors
/// The table cannot be read, has no known layout, or is of an unknown workload.
pub(super) fn table(path: &Path, inputs: &Inputs<'_>) -> anyhow::Result<Found> {
    let bytes = bytes(path)?;
    let source = Source { file: path, text: &bytes };
    let layout = times::layout(source)?;
    if layout == Layout::Export {
        return Ok(export::read(path, bytes)?);
    }
    if layout == Layout::StepTimes {
        return step_times::read(path, bytes, inputs);
    }
    let about = times::subject(layout, path);
    let asked = inputs.workload;
    let (workload, facts, PublishedTimes { rows, unfit: unfit_rows, left_out, unknown }) = if layout
        == Layout::Pollux
    {
        // Its formulas use no fact of the model, so that the catalog need not have it.
        let stem = || path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let of_file = || about.map(|about| about.workload.to_owned()).or_else(stem);
        let workload = asked.map(|job| job.workload.clone()).or_else(of_file).unwrap_or_default();
        (workload, Facts::default(), times::pollux(source)?)
    } else {
        let name = asked.map(|job| job.workload.as_str()).or(about.map(|about| about.workload));
        let name = name.with_context(|| {
            format!("{}: what it is a table of is not known; name it with --workload NAME@bN", path.display())
        })?;
        let entry = workload_lookup::entry(inputs.catalog, name)?;
        let of_table = about.filter(|about| about.workload == name).and_then(|about| about.global_batch);
        let batch = asked.and_then(|job| job.global_batch).or(of_table).with_context(|| {
            format!(
                "{}: the batch of its rows is not known, and times of another batch would be wrong; name it with --workload {name}@bN",
                path.display()
            )
        })?;
        (name.to_owned(), facts(Some(entry)), times::rubick(source, batch)?)
    };
    let device_type = inputs.device_type.or(times::device_type(layout)).unwrap_or_default().to_owned();
    let is_of_authors = times::device_type(layout) == Some(device_type.as_str());
    let memory_bytes = times::device_memory_bytes(layout).filter(|_| is_of_authors);
    let row = |row: FittedRow| Row {
        workload: workload.clone(),
        facts,
        defined: Facts::default(),
        device_type: device_type.clone(),
        is_on_cores: false,
        memory_bytes,
        warnings: Warnings::default(),
        launches: vec![row.step_ns],
        device_s: None,
        row,
    };
    let rows = rows.into_iter().map(row).collect();
    let unfit = |row| {
        let row = UnfitRow { workload: workload.clone(), memory_bytes, ..row };
        (device_type.clone(), row)
    };
    let unfit = unfit_rows.into_iter().map(unfit).collect();
    let mut left_out: BTreeMap<String, usize> =
        left_out.into_iter().map(|(why, rows)| (why.to_owned(), rows)).collect();
    if let Some(UnknownPlans { lines, first_line, first_plan }) = unknown {
        let why = format!(
            "their exec_plan is not known; the first is '{first_plan}' in line {first_line} of {}",
            path.display()
        );
        left_out.insert(why, lines);
    }
    Ok(Found { path: path.into(), layout, bytes, rows, unfit, launched: None, left_out })
}
