//! Writes a report as a folder: the page, a picture of each figure as SVG and PNG, the CSV behind it, and the manifests of the runs.

mod contents;
mod replace;

use std::{fs, io, path::Path};

use anyhow::{Context as _, bail};
use record::rows::to_csv;
use rig::Exit;

use self::{
    contents::{FIGURES, INDEX, MANIFESTS, foreign_entry},
    replace::Unfinished,
};
use crate::{
    page::{Links, page},
    report::{Placed, Report},
    table::Table,
};

/// What the page of every report contains.
const GENERATOR: &str = "<meta name=\"generator\" content=\"tandem report ";

/// Writes the folder, and replaces an older report there. An interrupted report leaves the older one. `done` is called after each
/// figure.
///
/// # Errors
/// The folder holds something else than a report, or cannot be written.
pub fn write(report: &Report, folder: &Path, mut done: impl FnMut()) -> anyhow::Result<()> {
    if folder.exists() {
        check_is_report(folder)?;
    }
    // A link stays, and the report at its end is replaced.
    let place = fs::canonicalize(folder).unwrap_or_else(|_| folder.into());
    let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|error| cannot_write(parent, &error))?;
    let written = Unfinished::begin(parent).map_err(|error| cannot_write(parent, &error))?;
    let unfinished = written.path();
    put(&unfinished.join(INDEX), page(report, Links::Files).as_bytes())?;
    for (number, run) in report.runs.iter().enumerate() {
        let manifest = run.dir.manifest_path();
        let text = fs::read(&manifest).with_context(|| manifest.display().to_string())?;
        put(&unfinished.join(MANIFESTS).join(format!("{number}.toml")), &text)?;
    }
    for placed in &report.figures {
        write_figure(placed, &unfinished.join(FIGURES))?;
        done();
    }
    written.put(&place).map_err(|error| cannot_write(folder, &error))
}

fn write_figure(placed: &Placed, folder: &Path) -> anyhow::Result<()> {
    let chart = &placed.figure.chart;
    let file = |ending: &str| folder.join(format!("{}.{ending}", placed.id));
    put(&file("csv"), &csv_of(&chart.table()))?;
    if chart.has_picture() {
        put(&file("svg"), chart.svg_file(&placed.figure.title).as_bytes())?;
        put(&file("png"), &chart.png())?;
    }
    Ok(())
}

/// The text of a table as CSV.
pub fn csv_of(table: &Table) -> Vec<u8> {
    let rows = table.rows.iter().map(|row| row.iter().map(crate::table::Cell::in_csv).collect());
    to_csv(table.columns.iter().map(|column| column.name.as_str()), rows)
}

/// Checks that a folder is empty, or holds a report, whose page names its program, and nothing else.
fn check_is_report(folder: &Path) -> anyhow::Result<()> {
    let is_empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if !is_empty && !fs::read_to_string(folder.join(INDEX)).is_ok_and(|page| page.contains(GENERATOR)) {
        bail!("{} exists and is no report; remove it, or name another folder with --out", folder.display());
    }
    if let Some(entry) = foreign_entry(folder) {
        bail!(
            "{} holds {}, which is not of a report; move it away, or name another folder with --out",
            folder.display(),
            entry.display()
        );
    }
    Ok(())
}

fn put(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, content))
        .map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &io::Error) -> anyhow::Error {
    Exit::InputOutput.because(format!("{} cannot be written: {error}", file.display()))
}
