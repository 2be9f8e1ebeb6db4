//! A file that continuous integration reads. One that this command wrote before is replaced, and any other file is left alone.

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

/// Writes the file whole, and replaces an older one of this command.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let (mut file, unfinished) = unfinished::begin(path)?;
        file.write_all(text.as_bytes())?;
        match path.symlink_metadata() {
            Ok(_) => unfinished.put(),
            Err(_) => unfinished.put_new(),
        }
    };
    write()
        .map_err(|error| Exit::InputOutput.because(format!("{} cannot be written: {error}", path.display())))
}
