//! A file that continuous integration reads. One that an earlier comparison wrote is removed before the runs are read, so that a
//! comparison that fails leaves none. Any other file is left alone.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::Path,
};

use anyhow::bail;
use rig::Exit;
use schema::unfinished;

/// The mark of a file is in this number of its first bytes.
const BEGIN: u64 = 200;

/// Checks that a file is absent or begins with the mark of this command.
///
/// # Errors
/// Something else is there.
pub(super) fn check(path: &Path, mark: &str) -> anyhow::Result<()> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    if !metadata.is_file() || !begins_with(path, mark).unwrap_or(false) {
        bail!(
            "{} exists and was not written by `report compare`; remove it, or name another file",
            path.display()
        );
    }
    Ok(())
}

fn begins_with(path: &Path, mark: &str) -> io::Result<bool> {
    let mut begin = Vec::new();
    File::open(path)?.take(BEGIN).read_to_end(&mut begin)?;
    Ok(String::from_utf8_lossy(&begin).contains(mark))
}

/// Removes the file of an earlier comparison, which was checked.
///
/// # Errors
/// The file cannot be removed.
pub(super) fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Exit::InputOutput.because(format!("{} cannot be removed: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Whether two paths name one file, which may not exist yet.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| {
        let absolute = std::path::absolute(path).ok()?;
        let folder = absolute.parent()?;
        Some(fs::canonicalize(folder).unwrap_or(folder.into()).join(absolute.file_name()?))
    };
    one == other || resolved(one).is_some_and(|one| resolved(other) == Some(one))
}

/// Writes the file whole.
///
/// # Errors
/// The file cannot be written, or a file of this name has come since the earlier one was removed.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let (mut file, unfinished) = unfinished::begin(path)?;
        file.write_all(text.as_bytes())?;
        unfinished.put_new()
    };
    write()
        .map_err(|error| Exit::InputOutput.because(format!("{} cannot be written: {error}", path.display())))
}
