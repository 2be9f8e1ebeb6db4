//! A run of `profile` from its manifest to its last file.

use anyhow::{Context as _, bail};
use cli::agree::{self, Consent};
use jobs::{
    folder, machine,
    run::{self, Observed},
    software, surroundings,
};
use record::{manifest::Manifest, rows::ErrorKind, run_dir::RunDir};
use rig::{Exit, Rig, interrupt::Interrupt, output, programs, sampler::SamplerCost};
use schema::{catalog::Catalog, units::Nanos};

use crate::{
    blocks::{Blocks, Ledger, Lost, Missing},
    cores::HostCores,
    derive::Derived,
};

/// What came of a run.
pub struct Outcome {
    pub derived: Derived,
    pub missing: Missing,
    pub exit: Exit,
}

/// Checks whether a run can be resumed here and now.
///
/// # Errors
/// The clock has started anew since the run began, so that old and new readings would be on one time line; the run is not one
/// of `profile` and this command; the software has changed, as of [`software::is_measured_by_the_same`]; or the folder is another one,
/// as of [`folder::is_that_of_the_beginning`].
pub fn can_go_on(run: &RunDir, manifest: &Manifest, command: &str) -> anyhow::Result<()> {
    let path = run.path().display();
    if manifest.subcommand() != Some(command) {
        bail!("{path} is not a run of `profile {command}`, which resumes only its own runs");
    }
    if let Some(doubt) = machine::doubt_about_boot(run, manifest.machine.boot_id.as_deref()) {
        bail!("{doubt}; begin a new run");
    }
    software::is_measured_by_the_same(run, manifest)?;
    folder::is_that_of_the_beginning(run, manifest)?;
    run::check_input(manifest.settings.input.as_deref())?;
    surroundings::check_cwd(manifest.settings.surroundings.as_ref())?;
    run::check_data(manifest.settings.data.as_deref())
}

/// Measures what the manifest contains and the run does not have yet. The budget counts from `began`.
///
/// # Errors
/// Before the first launch: the user does not agree to start a program of the run, the machine lacks something, or a file cannot be read. Later: a file cannot be written. The last
/// file of the run is then still written, if possible.
pub fn measure(
    run: &RunDir,
    (manifest, consent): (&Manifest, &Consent),
    catalog: &Catalog,
    began: Nanos,
) -> anyhow::Result<Outcome> {
    agree::programs_of(manifest).try_for_each(|program| consent.check(&program))?;
    let observed = Observed::from_now();
    let _lock = run::lock(run)?;
    let interrupt = Interrupt::listen().context("cannot install the signal handlers")?;
    let sampler = run::start_sampler(run, manifest)?;
    let mut rig = Rig::new(programs::all()?)?;
    let derived = Derived::of(run)?;
    let host_cores = HostCores::of(manifest)?;
    host_cores.keep_off(manifest);
    let mut blocks = Blocks {
        run,
        manifest,
        cells: &manifest.cells,
        groups: &manifest.groups,
        catalog,
        rig: &mut rig,
        sampler: &sampler,
        interrupt: &interrupt,
        host_cores,
        part: derived.next_part(),
        derived,
        ledger: Ledger::default(),
        lost: Lost::default(),
        next_number: run.next_number()?,
        began,
    };
    let measured = blocks.measure().and_then(|missing| match manifest.settings.operators {
        Some(count) => blocks.record_operators(count, missing),
        None => Ok(missing),
    });
    let left = blocks.missing_launches();
    drop(rig);
    let cost = sampler.cost();
    let stopped = sampler.stop();
    let cost = stopped.as_ref().copied().unwrap_or(cost);
    match measured.and_then(|missing| Ok(stopped.map(|_| missing)?)).and_then(|missing| outcome(run, missing))
    {
        Ok(outcome) => {
            run.sync_appended()?;
            run::write_end(run, outcome.exit, outcome.missing.launches.clone(), observed, cost)?;
            Ok(outcome)
        }
        Err(error) => {
            write_failed_end(run, &error, left, observed, cost);
            Err(error)
        }
    }
}

/// Writes the tables and the last file of a run that ended with an error, if possible.
pub(crate) fn write_failed_end(
    run: &RunDir,
    error: &anyhow::Error,
    left: Vec<String>,
    observed: Observed,
    cost: SamplerCost,
) {
    // The cause may be gone by now. If it is not, `error` already describes it.
    let tables = Derived::of(run).and_then(|derived| derived.write());
    let end = run::write_end(run, Exit::of(error), left, observed, cost);
    if let Err(further) = tables.and(end) {
        output::note(format_args!("warning: {further:#}"));
    }
}

/// The result of a run with these missing launches.
fn outcome(run: &RunDir, missing: Missing) -> anyhow::Result<Outcome> {
    let derived = Derived::of(run)?;
    derived.write()?;
    let rows = &derived.measurements;
    let exit = match (missing.interrupted, derived.has_failed()) {
        (true, _) => Exit::Interrupted,
        (false, true) if rows.iter().any(|row| row.err == Some(ErrorKind::Stuck)) => Exit::Stuck,
        (false, true) => Exit::SomeFailed,
        // Missing launches and intervals that were not reached count as failures.
        (false, false) if !missing.launches.is_empty() => Exit::SomeFailed,
        (false, false) => Exit::Ok,
    };
    Ok(Outcome { derived, missing, exit })
}
