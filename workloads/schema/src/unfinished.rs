//! A file that moves to its place when it is complete. Until then it lies there with the suffix `.new`.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

/// Begins the file for `path`. A leftover of a killed program is replaced and never written to, because in
/// a received directory it may be a link to one of the user's own files.
pub(crate) fn begin(path: &Path) -> io::Result<File> {
    let beside = beside(path);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => File::create_new(beside),
    }
}

/// Removes the file that was begun for `path`.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(beside(path))
}

/// Moves a complete file to its place, and replaces what is there.
pub(crate) fn put(path: &Path) -> io::Result<()> {
    fs::rename(beside(path), path)
}

/// Moves a complete file to its place, which must be free.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] if the place is taken.
pub(crate) fn put_new(path: &Path) -> io::Result<()> {
    let beside = beside(path);
    match renameat_with(CWD, &beside, CWD, path, RenameFlags::NOREPLACE) {
        // Some file systems cannot rename without replacing.
        Err(Errno::INVAL) if !path.exists() => fs::rename(beside, path),
        Err(Errno::INVAL) => Err(ErrorKind::AlreadyExists.into()),
        renamed => Ok(renamed?),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("table.csv"), dir.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        for link in [path.clone(), beside(&path)] {
            symlink(&victim, link).unwrap();
        }
        begin(&path).unwrap().write_all(b"table").unwrap();
        put(&path).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "table");
        begin(&path).unwrap();
        assert_eq!(put_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        put_new(&dir.path().join("other")).unwrap_err();
    }
}
