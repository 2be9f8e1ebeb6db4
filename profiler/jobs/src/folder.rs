//! The folder in which a run was begun. A resumed run takes its programs, its data and its catalogs from there, because another folder
//! may have others under the same names.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{bail, ensure};
use record::{
    folder::{Folder, SourceTree},
    manifest::{Cell, Manifest, Settings},
    run_dir::RunDir,
};
use rig::output;

use crate::{
    git,
    surroundings::{self, own_folder},
};

/// The current folder, for a run with these settings and cells that begins at `started_utc`. `None` if the run takes nothing from it.
pub(crate) fn of_run<'a>(started_utc: &str, settings: &'a Settings, cells: &'a [Cell]) -> Option<Folder> {
    let is_relative = |path: &PathBuf| path.is_relative();
    let takes_files = settings.data.iter().chain(&settings.catalogs).any(is_relative);
    if !takes_files && cells.iter().all(|cell| cell.command.is_none()) {
        return None;
    }
    // The files in a folder that is known only when a launch begins are made anew for each launch.
    let command =
        |cell: &'a Cell| Some((cell.command.as_deref()?, surroundings::folder_of_cell(settings, cell)?));
    Folder::current(started_utc, cells.iter().filter_map(command))
}

/// The folder as it is, with the source trees of the programs of these cells.
pub(crate) fn with_source_trees(folder: Folder, settings: &Settings, cells: &[Cell]) -> Folder {
    let tree = |own: &str| Some((own.to_owned(), git::source_tree(Path::new(own))?));
    let own: BTreeSet<&str> = programs(cells).filter_map(|cell| own_folder(settings, cell)).collect();
    Folder {
        source_tree: source_tree(settings, cells),
        source_trees: own.into_iter().filter_map(tree).collect(),
        ..folder
    }
}

fn programs(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    cells.iter().filter(|cell| cell.command.is_some())
}

/// The source tree of the programs that have no folder of their own. `None` if git finds no source tree, and for cells without such
/// programs.
fn source_tree(settings: &Settings, cells: &[Cell]) -> Option<SourceTree> {
    programs(cells).find(|cell| own_folder(settings, cell).is_none())?;
    git::source_tree(surroundings::folder_of_words(settings.surroundings.as_ref())?)
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
    let own = programs(&manifest.cells).filter_map(|cell| own_folder(&manifest.settings, cell));
    if let Some(gone) = own.into_iter().find(|own| !Path::new(own).is_dir()) {
        bail!("{}: the folder '{gone}' of its programs is not there any more; put it back", path.display());
    }
    if let Some(program) = then.changed_program(&now) {
        bail!(
            "{}: the program {:?} has changed since the run was begun; put back what it was, or begin a new run",
            path.display(),
            Path::new(program)
        );
    }
    Ok(())
}

/// Prints a warning if a source tree of the programs has changed since the run was begun, or if this cannot be told. Git may start
/// filters that the tree configures, so that the user must have agreed to start the programs of the run.
pub fn compare_source_tree(run: &RunDir, manifest: &Manifest) {
    let Some(then) = &manifest.folder else { return };
    let warn = |what: String, then: &SourceTree, now: Option<SourceTree>| {
        let verdict = match now {
            Some(now) if now.revision != then.revision || now.dirty != then.dirty => "has changed",
            Some(now) if now.dirty => "may have changed: it had and has changes that are not committed",
            Some(_) => return,
            None => "may have changed: git does not tell its revision",
        };
        let path = run.path().display();
        output::note(format_args!(
            "warning: {path}: since the run was begun, the source tree of {what} {verdict}"
        ));
    };
    if let Some(tree) = &then.source_tree {
        warn("its programs".into(), tree, source_tree(&manifest.settings, &manifest.cells));
    }
    for (folder, tree) in &then.source_trees {
        warn(format!("its programs in '{folder}'"), tree, git::source_tree(Path::new(folder)));
    }
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
