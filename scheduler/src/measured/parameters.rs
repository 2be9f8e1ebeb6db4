//! Workloads without rows, by published parameters of formulas.

use std::path::Path;

use anyhow::Context as _;
use jobs::workload_lookup;
use model::{Parts, forward_s, published};
use rig::output;
use schema::{
    catalog::Catalog,
    fitted::{FittedWorkload, Layout, ModelSource},
    import::{
        Source,
        times::{self, RubickParameters},
    },
};

use super::{bytes, facts};

/// The models of the workloads of a file of published parameters that have no rows. What the parameters leave open is noted.
///
/// # Errors
/// The file cannot be read or is invalid, a workload is in no catalog, or nothing tells how long its forward pass takes.
pub fn parameters(
    path: &Path,
    fitted: &[FittedWorkload],
    catalog: &Catalog,
    parts: &Parts,
) -> anyhow::Result<(ModelSource, Vec<FittedWorkload>)> {
    let bytes = bytes(path)?;
    let all = times::rubick_parameters(Source { file: path, text: &bytes })?;
    let has_rows = |workload: &str| fitted.iter().any(|known| known.workload == workload);
    let mut found = Vec::new();
    for (workload, parameters) in all.iter().filter(|(workload, _)| !has_rows(workload)) {
        found.push(one(path, (workload, parameters), fitted, catalog, parts)?);
    }
    Ok((ModelSource::new(path, Layout::RubickParameters, found.len(), &bytes), found))
}

fn one(
    path: &Path,
    (workload, parameters): (&str, &RubickParameters),
    fitted: &[FittedWorkload],
    catalog: &Catalog,
    parts: &Parts,
) -> anyhow::Result<FittedWorkload> {
    let facts = facts(Some(workload_lookup::workload(catalog, workload)?));
    let unknown = || {
        let path = path.display();
        format!(
            "{path}: how long a forward pass of {workload} takes is not published; add the table of a transformer to --csv"
        )
    };
    let (forward_s, like) = forward_s(facts, fitted).with_context(unknown)?;
    output::note(format_args!(
        "fit: {workload} has no row: its parameters are those of {}; a forward pass takes as long for each parameter and position as \
         that of {}, and bandwidths are assumed",
        path.display(),
        like.workload
    ));
    Ok(published(workload, facts, parameters, forward_s, parts))
}
