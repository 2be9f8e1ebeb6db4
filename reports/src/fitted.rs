//! A fitted model of step times, which is a file of its own and belongs to no run.

use std::path::Path;

use formats::fitted::{FitErrors, FittedWorkload, ModelFile};

/// What `sched fit --out` writes.
pub struct FittedModel {
    /// The name of the file.
    pub name: String,
    pub file: ModelFile,
}

impl FittedModel {
    /// # Errors
    /// The file cannot be read, or is no model.
    pub fn read(path: &Path) -> anyhow::Result<FittedModel> {
        let file = ModelFile::read(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(FittedModel { name, file })
    }
}

/// The errors of predictions of rows that were left out of the fit: a part at once, which the choice of the formula has not seen, and
/// where the file has none, one configuration after another with the formula that is asked first.
pub fn errors(workload: &FittedWorkload) -> &[FitErrors] {
    match workload.fits.first() {
        Some(fit) if workload.held_out.is_empty() => &fit.leave_one_out,
        _ => &workload.held_out,
    }
}

/// The errors over all plans of a workload. `None` if the file has errors of some plans alone, or none.
pub fn over_all(workload: &FittedWorkload) -> Option<&FitErrors> {
    errors(workload).iter().find(|errors| errors.plans == "all")
}
