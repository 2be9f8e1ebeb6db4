//! The kinds of entries in the folder of a run.

use std::{
    fs::{self, FileType},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use super::RunError;

/// The folders of a run.
const FOLDERS: [&str; 6] = ["jobs", "events", "log", "groups", "checkpoints", INPUTS];
/// The folder with copies of what a run was begun with. Tables among them are runs, in folders of their own.
const INPUTS: &str = "inputs";
/// The ending of a link to the grant page of a launch, which is there while the launch lives. No reader opens it.
const GRANT: &str = ".control";

/// Checks that all entries of the folder of a run that a reader may open are files and folders. A run may come from another person: a
/// link may lead to any file of the reader's, and opening a named pipe blocks for ever.
///
/// # Errors
/// An entry is of another kind, or a folder cannot be read.
pub(super) fn check(run: &Path) -> Result<(), RunError> {
    for folder in folders_in(run)?.iter().filter(|folder| FOLDERS.iter().any(|name| folder.ends_with(name))) {
        let below = folders_in(folder)?;
        if folder.ends_with(INPUTS) {
            below.iter().try_for_each(|table| folders_in(table).map(drop))?;
        }
    }
    Ok(())
}

/// The folders in a folder, whose entries are all files and folders.
fn folders_in(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let failed = |cause| RunError::Io { file: folder.into(), cause };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            folders.push(entry.path());
        } else if let Some(kind) = other_kind(kind)
            && !entry.file_name().to_string_lossy().ends_with(GRANT)
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
