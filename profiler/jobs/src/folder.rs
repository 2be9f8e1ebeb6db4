//! The folder in which a run was begun. A resumed run takes its programs, its data and its catalogs from there, because another folder
//! may have others under the same names.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use record::{
    folder::{Folder, SourceTree},
    manifest::{Cell, Manifest, Settings},
    run_dir::RunDir,
};
use rig::output;

use crate::{git, surroundings};

/// The current folder, for a run with these settings and cells that begins at `started_utc`. `None` if the run takes nothing from it.
pub(crate) fn of_run(started_utc: &str, settings: &Settings, cells: &[Cell]) -> Option<Folder> {
    let commands = || cells.iter().filter_map(|cell| cell.command.as_deref());
    let is_relative = |path: &PathBuf| path.is_relative();
    let takes_files = settings.data.iter().chain(&settings.catalogs).any(is_relative);
    if !takes_files && commands().next().is_none() {
        return None;
    }
    match surroundings::folder_of_words(settings.surroundings.as_ref()) {
        Some(folder) => Folder::current(started_utc, commands(), folder),
        // The files that words name are made anew for each launch.
        None => Folder::current(started_utc, std::iter::empty(), Path::new("")),
    }
}

/// The source tree of the programs of these cells. `None` if git finds no source tree, and for cells without programs.
pub(crate) fn source_tree(settings: &Settings, cells: &[Cell]) -> Option<SourceTree> {
    let has_programs = cells.iter().any(|cell| cell.command.is_some());
    let folder = surroundings::folder_of_words(settings.surroundings.as_ref()).filter(|_| has_programs)?;
    git::source_tree(folder)
}

/// Checks that a run goes on in the folder in which it was begun, with the programs of then. Otherwise two programs, or two sets of
/// data, would be in one row.
///
/// # Errors
/// The folder or a program in it is another one.
pub fn is_that_of_the_beginning(run: &RunDir, manifest: &Manifest) -> anyhow::Result<()> {
    let Some(then) = &manifest.folder else { return Ok(()) };
    let path = run.path();
    let Some(now) = of_run(&manifest.started_utc, &manifest.settings, &manifest.cells) else {
        bail!(
            "{}: the current folder has no path any more; go to the folder in which the run was begun",
            path.display()
        );
    };
    ensure!(
        now.blake3 == then.blake3,
        "{} was begun in another folder, from which it takes {}; go to that folder, and continue the run from there",
        path.display(),
        taken(manifest)
    );
    if let Some(program) = then.changed_program(&now) {
        bail!(
            "{}: the program {:?} has changed since the run was begun; put back what it was, or begin a new run",
            path.display(),
            Path::new(program)
        );
    }
    Ok(())
}

/// Prints a warning if the source tree of the programs has changed since the run was begun, or if this cannot be told. Git may start
/// filters that the tree configures, so that the user must have agreed to start the programs of the run.
pub fn compare_source_tree(run: &RunDir, manifest: &Manifest) {
    let Some(then) = manifest.folder.as_ref().and_then(|folder| folder.source_tree.as_ref()) else { return };
    let verdict = match source_tree(&manifest.settings, &manifest.cells) {
        Some(now) if now.revision != then.revision || now.dirty != then.dirty => "has changed",
        Some(now) if now.dirty => "may have changed: it had and has changes that are not committed",
        Some(_) => return,
        None => "may have changed: git does not tell its revision",
    };
    let path = run.path().display();
    output::note(format_args!(
        "warning: {path}: since the run was begun, the source tree of its programs {verdict}"
    ));
}

/// The programs, data and catalogs that a run takes from its folder, for people.
fn taken(manifest: &Manifest) -> String {
    let Settings { data, catalogs, .. } = &manifest.settings;
    let programs = manifest.cells.iter().any(|cell| cell.command.is_some());
    let words = [
        programs.then_some("its programs"),
        data.as_ref().is_some_and(|path| path.is_relative()).then_some("its data"),
        catalogs.iter().any(|path| path.is_relative()).then_some("its catalogs"),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
