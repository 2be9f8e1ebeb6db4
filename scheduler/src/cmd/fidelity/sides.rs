//! The two sides of a comparison, from the files of runs.

use std::path::Path;

use cli::agree::Consent;
use engine::replay;
use formats::rows::{Draw, Fidelity, Outcome, Prediction};
use outcomes::{draws::totals_of_draws, totals::busy_ns};
use record::{
    rows::{self, RowError},
    run_dir::RunDir,
};
use rig::output;

use crate::{
    cmd::recorded,
    online::{self, RunInputs},
    policy,
};

/// Reads the outcomes of a run, or a file of outcomes.
///
/// # Errors
/// Fails if the path is neither a run that has ended nor a file of outcomes.
pub(super) fn outcomes(path: &Path) -> anyhow::Result<Vec<Outcome>> {
    let file = match path.is_dir() {
        true => RunDir::open(path)?.outcomes_path(),
        false => path.to_path_buf(),
    };
    match path.is_dir() {
        true if file.is_file() => Ok(with_shares(&RunDir::open(path)?, rows::read(&file)?)),
        false if file.is_file() => Ok(rows::read(&file)?),
        true => anyhow::bail!("{} has no outcomes; go on with it by `sched run --resume`", path.display()),
        false => anyhow::bail!("{}: there is no such run and no such file", path.display()),
    }
}

/// Whether a path is a run of `sched sim` whose prediction has intervals.
pub(super) fn is_simulated(path: &Path) -> anyhow::Result<bool> {
    if !path.is_dir() {
        return Ok(false);
    }
    let run = RunDir::open(path)?;
    Ok(run.predictions_path().is_file() && online::scheduling(&run.manifest()?)?.simulated.is_some())
}

/// Adds the totals over the draws that a run was predicted by, if there are any.
pub(super) fn with_drawn_totals(mut found: Fidelity, path: &Path) -> anyhow::Result<Fidelity> {
    if let Some(intervals) = &mut found.intervals {
        let draws: Vec<Draw> = match RunDir::open(path)?.draws_path() {
            file if file.is_file() => rows::read(&file)?,
            _ => Vec::new(),
        };
        intervals.drawn = totals_of_draws(&draws);
    }
    Ok(found)
}

/// Adds the parts of jobs in the busy time of devices where an older version did not record them. They follow from the journal.
fn with_shares(run: &RunDir, mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let again = || match run.decisions_path().is_file() {
        true => {
            let (inputs, turns) = recorded(run.path())?;
            Ok(as_prediction(&replay::outcomes(&mut inputs.engine(), &turns)?))
        }
        false => Ok(Vec::new()),
    };
    let shares = shares(&run.outcomes_path(), &as_prediction(&outcomes), again);
    outcomes.iter_mut().zip(shares).for_each(|(row, share)| row.busy_share_ns = share);
    outcomes
}

/// The parts of jobs in the busy time of devices. If some are not known, those of `again` are taken, provided that it has the same
/// times. A note has the reason for which the rows cannot be made again.
fn shares(
    file: &Path,
    rows: &[Prediction],
    again: impl FnOnce() -> anyhow::Result<Vec<Prediction>>,
) -> Vec<Option<u64>> {
    let of = |rows: &[Prediction]| rows.iter().map(|row| row.busy_share_ns).collect::<Vec<_>>();
    if rows.iter().all(|row| busy_ns(row.busy_share_ns, row.device_time_ns, row.packed_ns).is_some()) {
        return of(rows);
    }
    let again = again().unwrap_or_else(|error| {
        output::note(format_args!("the utilisation by {} is not known: {error:#}", file.display()));
        Vec::new()
    });
    let times = |row: &Prediction| (row.job, row.end_ns, row.packed_ns, row.device_time_ns);
    of(if rows.iter().map(times).eq(again.iter().map(times)) { &again } else { rows })
}

/// The number of devices of a run. A file of outcomes alone does not name them.
pub(super) fn devices(path: &Path) -> anyhow::Result<Option<u32>> {
    match path.is_dir() {
        true => Ok(Some(online::cluster(&RunDir::open(path)?.manifest()?).devices())),
        false => Ok(None),
    }
}

/// Reads the predictions of a run. Where an older version did not record the parts of jobs in the busy time of devices, the
/// simulation is repeated for them, unless its policy is a program.
///
/// # Errors
/// Fails if the path is no run, or a run without predictions.
pub(super) fn predictions(path: &Path) -> anyhow::Result<Vec<Prediction>> {
    if !path.is_dir() {
        anyhow::bail!("{} alone has no predictions; name a run, or a second file", path.display());
    }
    let run = RunDir::open(path)?;
    let file = run.predictions_path();
    let mut predictions: Vec<Prediction> = match rows::read(&file) {
        Err(RowError::Io { .. }) if !file.is_file() => {
            anyhow::bail!("{} has no predictions; name a second run to compare it with", path.display())
        }
        other => other?,
    };
    let again = || {
        let inputs = RunInputs::read(&run)?;
        let is_program = policy::program(&online::scheduling(&inputs.manifest)?.policy).is_some();
        let predicted = if is_program { None } else { online::predict(&inputs, None, &Consent::none())? };
        Ok(predicted.map(|predicted| predicted.predictions).unwrap_or_default())
    };
    let shares = shares(&file, &predictions, again);
    predictions.iter_mut().zip(shares).for_each(|(row, share)| row.busy_share_ns = share);
    Ok(predictions)
}

pub(super) fn as_prediction(outcomes: &[Outcome]) -> Vec<Prediction> {
    outcomes.iter().map(Prediction::from).collect()
}
