//! The kinds of entries in the folder of a run.

use std::{
    fs::{self, FileType},
    io::ErrorKind,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use schema::files::RunError;

/// The folder of launches.
const JOBS: &str = "jobs";
/// The folder of checkpoints, which have folders of their own.
const CHECKPOINTS: &str = "checkpoints";
/// The folder with copies of what a run was begun with. Tables among them are runs, in folders of their own.
const INPUTS: &str = "inputs";
/// The folders of a run.
const FOLDERS: [&str; 7] = [JOBS, "events", "log", "groups", "operators", CHECKPOINTS, INPUTS];
/// The ending of a link in [`JOBS`] to the grant page of a launch, which is there while the launch lives. No reader opens it.
const GRANT: &str = ".control";

/// Checks that all entries of the folder of a run that a reader may open are files and folders. A run may come from another person: a
/// link may lead to any file of the reader's, and opening a named pipe blocks for ever.
///
/// # Errors
/// An entry is of another kind, or a folder cannot be read.
pub(super) fn check(run: &Path) -> Result<(), RunError> {
    for folder in folders_in(run, false)? {
        let Some(name) = FOLDERS.into_iter().find(|name| folder.ends_with(name)) else { continue };
        let below = folders_in(&folder, name == JOBS)?;
        match name {
            INPUTS => below.iter().try_for_each(|table| folders_in(table, false).map(drop))?,
            CHECKPOINTS => check_below(below)?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks folders and all folders below them. A scheduler that writes the run may remove or rename a checkpoint meanwhile.
fn check_below(mut folders: Vec<PathBuf>) -> Result<(), RunError> {
    while let Some(folder) = folders.pop() {
        match folders_in(&folder, false) {
            Ok(below) => folders.extend(below),
            Err(RunError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The folders in a folder, whose entries are all files and folders, besides links to grant pages where they may be.
fn folders_in(folder: &Path, has_grants: bool) -> Result<Vec<PathBuf>, RunError> {
    let failed = |cause| RunError::Io { file: folder.into(), cause };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let is_grant =
            || has_grants && kind.is_symlink() && entry.file_name().to_string_lossy().ends_with(GRANT);
        if kind.is_dir() {
            folders.push(entry.path());
        } else if let Some(kind) = other_kind(kind)
            && !is_grant()
        {
            return Err(RunError::Kind { path: entry.path(), kind });
        }
    }
    Ok(folders)
}

/// What an entry is if it is neither a file nor a folder.
fn other_kind(kind: FileType) -> Option<&'static str> {
    match kind {
        _ if kind.is_file() || kind.is_dir() => None,
        _ if kind.is_symlink() => Some("a symbolic link"),
        _ if kind.is_fifo() => Some("a named pipe"),
        _ if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}
