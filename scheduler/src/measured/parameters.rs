//! Workloads without rows, by published parameters of formulas.

use std::path::Path;

use anyhow::Context as _;
use formats::{
    fitted::{FittedWorkload, Layout, ModelSource},
    import::{Source, times},
};
use jobs::workload_lookup;
use model::{Parts, forward_s, published};
use rig::output;
use schema::catalog::Catalog;

use super::{bytes, facts};

/// The models of the workloads of a file of published parameters that have no rows. `like` names the fitted workload whose forward pass
/// takes as long for each parameter and position. What the parameters leave open is noted.
///
/// # Errors
/// The file cannot be read or is invalid, a workload is in no catalog, or `like` has no rows or no known number of positions.
pub fn parameters(
    (path, like): (&Path, &str),
    fitted: &[FittedWorkload],
    catalog: &Catalog,
    parts: &Parts,
) -> anyhow::Result<(ModelSource, Vec<FittedWorkload>)> {
    let bytes = bytes(path)?;
    let all = times::rubick_parameters(Source { file: path, text: &bytes })?;
    let has_rows = |workload: &str| fitted.iter().any(|known| known.workload == workload);
    let of_like = fitted.iter().find(|known| known.workload == like);
    let names = || fitted.iter().map(|known| &*known.workload).collect::<Vec<_>>().join(", ");
    let of_like =
        of_like.with_context(|| format!("--forward-like {like}: it has no rows; rows are of {}", names()))?;
    let mut found = Vec::new();
    for (workload, parameters) in all.iter().filter(|(workload, _)| !has_rows(workload)) {
        let facts = facts(Some(workload_lookup::entry(catalog, workload)?));
        let unknown = || {
            format!(
                "--forward-like {like}: the positions of its samples, or of those of {workload}, are not known"
            )
        };
        let forward_s = forward_s(facts, of_like).with_context(unknown)?;
        output::note(format_args!(
            "fit: {workload} has no row: its parameters are those of {}; a forward pass takes as long for each parameter and position \
             as that of {like}, and bandwidths are assumed",
            path.display(),
        ));
        found.push(published(workload, facts, parameters, forward_s, parts));
    }
    Ok((ModelSource::new(path, Layout::RubickParameters, found.len(), &bytes), found))
}
