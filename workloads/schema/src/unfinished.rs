//! A file that is renamed when it is complete. Until then its name has the suffix `.new`.
//!
//! Its content is synced before the rename, and its folder after it, so that a power cut leaves the whole old file or the whole new
//! one.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

/// The file that was begun for a path. It is removed if it was not renamed, as after an error.
pub struct Unfinished {
    path: PathBuf,
    has_moved: bool,
}

/// Begins the file for `path`. A leftover of a killed program is replaced and never written to, because in
/// a received directory it may be a link to one of the user's own files.
pub fn begin(path: &Path) -> io::Result<(File, Unfinished)> {
    let beside = beside(path);
    let file = match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => File::create_new(beside)?,
    };
    Ok((file, Unfinished { path: path.into(), has_moved: false }))
}

impl Unfinished {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the complete file, which replaces an older one.
    pub fn put(self) -> io::Result<()> {
        self.move_by(|from, to| fs::rename(from, to))
    }

    /// Renames the complete file if no file has its name.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if a file has its name.
    pub fn put_new(self) -> io::Result<()> {
        self.move_by(|from, to| match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Some file systems cannot rename without replacing.
            Err(Errno::INVAL) if !to.exists() => fs::rename(from, to),
            Err(Errno::INVAL) => Err(ErrorKind::AlreadyExists.into()),
            renamed => Ok(renamed?),
        })
    }

    fn move_by(mut self, rename: impl FnOnce(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
        let beside = beside(&self.path);
        File::open(&beside)?.sync_data()?;
        rename(&beside, &self.path)?;
        self.has_moved = true;
        // The parent of a bare name is the working directory.
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(parent.unwrap_or(Path::new(".")))
    }

    /// Removes the file.
    pub fn discard(mut self) -> io::Result<()> {
        self.has_moved = true;
        fs::remove_file(beside(&self.path))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.has_moved {
            let _ = fs::remove_file(beside(&self.path));
        }
    }
}

/// Syncs a folder, so that the names in it are on disk. Some file systems sync no folder, and some folders may only be written to.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) => match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
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
        let (mut file, unfinished) = begin(&path).unwrap();
        file.write_all(b"table").unwrap();
        unfinished.put().unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_to_string(&path).unwrap(), "table");
        let (_, unfinished) = begin(&path).unwrap();
        assert_eq!(unfinished.put_new().unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(!beside(&path).exists());
    }

    #[test]
    fn a_file_that_does_not_come_to_its_end_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.csv");
        fs::write(&path, "older").unwrap();
        drop(begin(&path).unwrap());
        begin(&path).unwrap().1.discard().unwrap();
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["table.csv"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "older");
    }
}
