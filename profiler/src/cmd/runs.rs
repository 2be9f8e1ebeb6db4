//! Begins and resumes runs of the commands that measure jobs, and shows what they measured.

use std::path::Path;

use anyhow::Context as _;
use cli::{
    agree::{self, Consent},
    table::TableOptions,
};
use jobs::{folder, manifest, run};
use record::{
    manifest::Manifest,
    rows::{self, OperatorTime, Summary, Usability},
    run_dir::RunDir,
};
use rig::{Exit, interrupt::Interrupt, output};
use schema::{catalog::Catalog, footprint::Footprints, units::Nanos};

use super::options::{ResumeOptions, RunFormat};
use crate::{
    derive::Derived,
    fastest, measure, operators_table, run_tables,
    warnings::{self, Detail},
};

/// Begins a run of a command in its directory, and measures it. The command itself began at that time.
pub(super) fn begin(
    (command, began): (&str, Nanos),
    out: Option<&Path>,
    manifest: &Manifest,
    footprints: &Footprints,
    options: &ResumeOptions,
) -> anyhow::Result<Exit> {
    let path = out.map_or_else(|| manifest::directory(command, manifest), Path::to_path_buf);
    // From here on, a signal ends the run in an orderly way.
    let _interrupt = Interrupt::listen().context("cannot install the signal handlers")?;
    let run = run::create_resumable(&path)?;
    run.write_manifest(manifest)?;
    if !footprints.measured.is_empty() {
        run.write_footprints(footprints)?;
    }
    // The programs of a new run are those of the command line.
    let consent = Consent::typed(agree::programs_of(manifest));
    measure((command, began), &run, (manifest, &consent), options)
}

/// Continues a run that `command` began.
pub(super) fn resume(
    command: &str,
    path: &Path,
    options: &ResumeOptions,
    began: Nanos,
) -> anyhow::Result<Exit> {
    let run = RunDir::open(path)?;
    let mut manifest = run.manifest()?;
    measure::can_go_on(&run, &manifest, command)?;
    let consent = options.yes.to_start(agree::programs_of(&manifest))?;
    folder::compare_source_tree(&run, &manifest);
    if let Some(budget) = options.budget {
        manifest.settings.budget_s = Some(budget.as_secs_f64());
    }
    measure((command, began), &run, (&manifest, &consent), options)
}

fn measure(
    (command, began): (&str, Nanos),
    run: &RunDir,
    (manifest, consent): (&Manifest, &Consent),
    options: &ResumeOptions,
) -> anyhow::Result<Exit> {
    let catalog = Catalog::open(&manifest.settings.catalogs)?;
    let outcome = measure::measure(run, (manifest, consent), &catalog, began)?;
    show(run, &outcome.derived, &options.format)?;
    if !outcome.missing.launches.is_empty() {
        output::note("not measured:");
        for launch in &outcome.missing.launches {
            output::note(format_args!("  {launch}"));
        }
        output::note(format_args!("go on with: profile {command} --resume {}", run.path().display()));
    }
    let is_quotable = usability(run, &outcome.derived)?.is_none_or(|usability| usability.may_be_quoted());
    let is_refused = options.strict && !is_quotable;
    Ok(if is_refused && outcome.exit == Exit::Ok { Exit::SomeFailed } else { outcome.exit })
}

fn usability(run: &RunDir, derived: &Derived) -> anyhow::Result<Option<Usability>> {
    let missing = run.end()?.map_or(0, |end| end.missing.len());
    Ok(Usability::of_run(&derived.summaries, &derived.interference, missing))
}

fn show_alone(summaries: &[Summary], options: &TableOptions) -> anyhow::Result<()> {
    let ranked = fastest::ranked(summaries);
    options.print(&run_tables::of_summaries(&ranked, options))?;
    fastest::lines(&ranked).into_iter().try_for_each(output::print)
}

/// Prints the verdict of a run, its tables and the path of its directory.
pub(super) fn show(run: &RunDir, derived: &Derived, format: &RunFormat) -> anyhow::Result<Exit> {
    let RunFormat { json, table, verbose } = format;
    if let Some(usability) = usability(run, derived)? {
        let verdict = format!("verdict: {usability}");
        if *json { output::note(verdict) } else { output::print(verdict)? }
    }
    match (*json, derived.is_of_groups()) {
        (true, true) => output::print(rows::to_json(&derived.interference))?,
        (true, false) => output::print(rows::to_json(&derived.summaries))?,
        (false, true) => table.print(&run_tables::of_interference(&derived.interference))?,
        (false, false) => show_alone(&derived.summaries, table)?,
    }
    if !json && run.operators_path().is_file() {
        let operators: Vec<OperatorTime> = rows::read(&run.operators_path())?;
        table.layout().print(&operators_table::of_operators(&operators))?;
        operators_table::idle_lines(run, &operators).into_iter().try_for_each(output::print)?;
    }
    let mut tables = vec![run.measurements_path(), run.summary_path()];
    if derived.is_of_groups() {
        tables.push(run.interference_path());
    }
    let detail = if *verbose { Detail::EachFinding } else { Detail::EachKind };
    warnings::lines(&derived.findings, &tables, detail).iter().for_each(output::note);
    output::news(format_args!("run: {}", run.path().display()));
    Ok(if derived.has_failed() { Exit::SomeFailed } else { Exit::Ok })
}
