//! `--grid`: jobs from a table.

use std::path::Path;

use jobs::workload_lookup;
use record::rows::JobTable;
use rig::Exit;
use schema::{catalog::Catalog, job::Job};

/// Reads the table, which names at least one job.
///
/// # Errors
/// The table cannot be read, or names no job.
pub(super) fn read(path: &Path) -> anyhow::Result<JobTable> {
    let table = JobTable::read(path)?;
    match table.rows.is_empty() {
        true => Err(Exit::NothingMatched.because(format!("{} names no jobs", path.display()))),
        false => Ok(table),
    }
}

/// Checks the jobs of the table against the catalog.
///
/// # Errors
/// The catalog lacks a workload, or a plan takes another number of devices than the table says.
pub(super) fn check(table: &JobTable, catalog: &Catalog) -> anyhow::Result<()> {
    for row in &table.rows {
        let Job { workload, plan, .. } = &row.job;
        let entries = workload_lookup::entries(catalog, workload)
            .map_err(|error| table.refuse(row, "job", format!("{error}")))?;
        for entry in entries {
            let ranks = plan.unwrap_or(entry.plan()).ranks();
            if let Some(devices) = row.devices.filter(|devices| *devices != ranks) {
                let job = &row.job;
                let message =
                    format!("is {devices}, and the plan of {job} takes {ranks}; correct one of them");
                return Err(table.refuse(row, "devices", message).into());
            }
        }
    }
    Ok(())
}
