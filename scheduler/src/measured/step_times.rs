//! Step times of tables of any origin.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, ensure};
use formats::{
    fitted::Layout,
    import::{
        Source,
        step_times::{self, StepTime},
    },
};
use record::rows::Warnings;

use super::{Found, Inputs, Row, facts};

/// The rows of a table. What it leaves open of a model is that of the workload of the catalog, if there is one of this name.
///
/// # Errors
/// The table cannot be read, or the type of the devices of a line is not known.
pub(super) fn read(path: &Path, bytes: Vec<u8>, inputs: &Inputs<'_>) -> anyhow::Result<Found> {
    ensure!(
        inputs.workload.is_none(),
        "{}: its lines name their workloads and batches; leave --workload out",
        path.display()
    );
    let times = step_times::read(Source { file: path, text: &bytes })?;
    let row = |StepTime { workload, facts: of_table, device_type, device_memory_bytes, row }: StepTime| {
        let device_type = device_type.as_deref().or(inputs.device_type).with_context(|| {
            format!(
                "{}: the type of the devices of '{workload}' is not known; add the column device_type, or name it with --device-type",
                path.display()
            )
        })?;
        Ok(Row {
            facts: of_table,
            defined: facts(inputs.catalog.entry(&workload)),
            workload,
            device_type: device_type.to_owned(),
            is_on_cores: false,
            memory_bytes: device_memory_bytes,
            warnings: Warnings::default(),
            launches: vec![row.step_ns],
            device_s: None,
            row,
        })
    };
    let rows = times.into_iter().map(row).collect::<anyhow::Result<_>>()?;
    Ok(Found {
        path: path.into(),
        layout: Layout::StepTimes,
        bytes,
        rows,
        unfit: Vec::new(),
        launched: None,
        left_out: BTreeMap::new(),
    })
}
