//! Step times of tables of `profile export`, which have a row for each launch.

use std::{collections::BTreeMap, path::Path};

use formats::fitted::{FittedRow, Layout};
use record::{
    facts::Facts,
    rows::{self, ExportRow, ProgramKind, RowError, Status},
};
use schema::device::Device;

use super::{Devices, Found, Row, devices};

/// The rows of jobs alone of a table, one for each job, devices and threads of a run, as in `summary.csv`.
///
/// # Errors
/// The table cannot be read.
pub(super) fn read(path: &Path, bytes: Vec<u8>) -> Result<Found, RowError> {
    let launches: Vec<ExportRow> = rows::parse(path, &bytes)?;
    let mut left_out = BTreeMap::new();
    let mut jobs: Vec<(&ExportRow, Row)> = Vec::new();
    for launch in launches.iter().filter(|row| row.group.is_none()) {
        let is_job = |other: &ExportRow| {
            (&other.run, &other.job, &other.device, other.threads)
                == (&launch.run, &launch.job, &launch.device, launch.threads)
        };
        match (row(launch), jobs.iter_mut().find(|(first, _)| is_job(first))) {
            (Ok(row), Some((_, of))) => {
                of.launches.extend(row.launches);
                row.warnings.iter().for_each(|warning| of.warnings.add(warning));
                of.row.peak_memory_bytes = of.row.peak_memory_bytes.max(row.row.peak_memory_bytes);
            }
            (Ok(row), None) => jobs.push((launch, row)),
            (Err(why), _) => *left_out.entry(why.to_owned()).or_default() += 1,
        }
    }
    let finished = |(_, mut row): (&ExportRow, Row)| {
        let logs: f64 = row.launches.iter().map(|ns| (*ns as f64).ln()).sum();
        row.row.step_ns = (logs / row.launches.len() as f64).exp().round() as u64;
        row
    };
    let rows = jobs.into_iter().map(finished).collect();
    Ok(Found {
        path: path.into(),
        layout: Layout::Export,
        bytes,
        rows,
        unfit: Vec::new(),
        launched: None,
        left_out,
    })
}

/// A launch as a row.
fn row(launch: &ExportRow) -> Result<Row, &'static str> {
    if launch.status != Status::Ok {
        return Err("they are not ok");
    }
    let is_training = launch.program == Some(ProgramKind::Training);
    let (plan, global_batch) = launch
        .plan
        .zip(launch.global_batch)
        .filter(|_| is_training)
        .ok_or("they are of programs, which have no plan and no batch")?;
    let step_ns = launch.step_ns_mean.ok_or("they have no time of a step")?;
    let type_of = |device: &Device| launch.device_name.as_deref().map(|name| device.type_of(name));
    let Devices { division, device_type, is_on_cores } = devices(&launch.device, type_of)?;
    let ExportRow { layers, sequence, hidden, .. } = *launch;
    Ok(Row {
        workload: launch.workload.clone(),
        facts: Facts {
            parameters: launch.parameters.or(launch.parameters_expected),
            layers,
            sequence,
            hidden,
            state_per_parameter: launch.optimizer_state_per_parameter,
        },
        defined: Facts::default(),
        device_type,
        is_on_cores,
        memory_bytes: None,
        warnings: launch.warnings.clone(),
        row: FittedRow {
            source: 0,
            global_batch,
            plan,
            placement: vec![division.devices],
            cpus: u16::try_from(launch.threads).ok(),
            ranks_per_device: division.ranks_per_device,
            step_ns,
            forward_ns: None,
            synchronised_ns: None,
            updated_ns: None,
            peak_memory_bytes: launch.peak_memory_bytes,
            doubtful: false,
            left_out: None,
        },
        launches: vec![step_ns],
        device_s: None,
    })
}
