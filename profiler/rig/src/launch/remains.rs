//! Entries of a run that only the processes of a launch need. The harness removes them at the end of the launch, so they stay if the
//! harness is killed.

use std::{
    fs::{self, FileType},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use record::run_dir::RunDir;
use schema::files::RunError;

use super::hook;

/// Removes the entries of launches whose harness was killed. An entry that the harness did not make, and one of another kind, stays; links
/// are not followed. Only the program that holds the lock of the run may do this, before it starts a launch.
///
/// # Errors
/// A folder cannot be read, or an entry cannot be removed.
pub fn remove_remains(run: &RunDir) -> Result<(), RunError> {
    for launch in run.killed_launches()? {
        type Remove = fn(&Path) -> io::Result<()>;
        let entries: [(PathBuf, Remove); 4] = [
            (run.control_path(&launch), |path| remove_if(path, FileType::is_symlink)),
            (run.rendezvous_path(&launch), |path| remove_if(path, FileType::is_file)),
            (run.notes_path(&launch), |path| remove_if(path, FileType::is_file)),
            (run.hook_path(&launch), hook::remove),
        ];
        for (path, remove) in entries {
            remove(&path).map_err(|cause| RunError::Write { file: path, cause })?;
        }
    }
    Ok(())
}

/// Removes an entry of this kind. An entry of another kind stays.
pub(super) fn remove_if(path: &Path, is_kind: fn(&FileType) -> bool) -> io::Result<()> {
    let is_ours = path.symlink_metadata().is_ok_and(|metadata| is_kind(&metadata.file_type()));
    if !is_ours {
        return Ok(());
    }
    match fs::remove_file(path) {
        // The leash of the launch removes its link, too.
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
