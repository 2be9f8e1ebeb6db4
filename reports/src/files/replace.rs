//! A folder is written beside its place and exchanged with the older report there, so that a reader always finds a whole one. A program
//! that is killed leaves the folder that it was writing, and the next report removes it.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rig::output;
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
    io::Errno,
};
use tempfile::TempDir;

use super::contents::{contents, foreign_entry};

/// How the name of a folder that is being written begins.
const PREFIX: &str = ".tandem-report-";
/// The report in it.
const REPORT: &str = "report";

/// A report that is being written. Its folder is locked, and is removed unless this program is killed.
pub(super) struct Unfinished {
    folder: TempDir,
    /// Held until the end of the program. Absent if the file system has no locks.
    _lock: Option<File>,
}

impl Unfinished {
    /// Begins a report that is to lie in `parent`, and removes what killed programs left there.
    pub(super) fn begin(parent: &Path) -> io::Result<Unfinished> {
        remove_abandoned(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            match lock(folder.path()) {
                Ok(lock) => return Ok(Unfinished { folder, _lock: Some(lock) }),
                // Another report takes the new folder for an abandoned one.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotFound) => {}
                Err(_) => return Ok(Unfinished { folder, _lock: None }),
            }
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join(REPORT)
    }

    /// Moves the complete report to its place, and then removes the older one. One that cannot be removed is named in a warning.
    ///
    /// # Errors
    /// The report cannot be moved.
    pub(super) fn put(self, place: &Path) -> io::Result<()> {
        exchange(&self.path(), place)?;
        let older = self.path();
        if let Err(error) = self.folder.close() {
            output::note(format_args!(
                "warning: the older report, now {}, cannot be removed: {error}",
                older.display()
            ));
        }
        Ok(())
    }
}

/// Puts `new` in the place of an older report, which is then at the path of `new`.
fn exchange(new: &Path, place: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, place, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT) => fs::rename(new, place),
        // Some file systems exchange nothing, or no folder that they show from another layer.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::XDEV) if place.exists() => {
            move_into(new, place)
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::rename(new, place),
        Err(error) => Err(error.into()),
    }
}

/// Moves a report into the folder of an older one, file by file and the page last, and then removes what only the older one had.
fn move_into(new: &Path, place: &Path) -> io::Result<()> {
    let (older, mut files) = (contents(place)?, contents(new)?);
    files.sort_by_key(|file| file.parent() == Some(Path::new("")));
    for file in &files {
        let to = place.join(file);
        fs::create_dir_all(to.parent().unwrap_or(place))?;
        fs::rename(new.join(file), to)?;
    }
    older.iter().filter(|file| !files.contains(file)).try_for_each(|file| fs::remove_file(place.join(file)))
}

/// Removes unfinished reports that have the name and the form of ours, and that no program is writing any more.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_named
            && is_ours(&path)
            && let Ok(_lock) = lock(&path)
        {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether a path is a folder, and no link to one, with at most a report in it.
fn is_ours(path: &Path) -> bool {
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let Ok(entries) = fs::read_dir(path) else { return false };
    is_folder(path)
        && entries.into_iter().all(|entry| {
            entry.is_ok_and(|entry| {
                entry.file_name() == REPORT
                    && is_folder(&entry.path())
                    && foreign_entry(&entry.path()).is_none()
            })
        })
}

/// Locks a folder for this program.
///
/// # Errors
/// [`ErrorKind::WouldBlock`] if another program has locked it, and [`ErrorKind::NotFound`] if it has removed it.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let (locked, named) = (file.metadata()?, fs::symlink_metadata(folder)?);
    if (locked.dev(), locked.ino()) == (named.dev(), named.ino()) {
        Ok(file)
    } else {
        Err(ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn read(folder: &Path) -> Vec<(String, String)> {
        let text =
            |file: PathBuf| (file.display().to_string(), fs::read_to_string(folder.join(&file)).unwrap());
        let mut files: Vec<_> = contents(folder).unwrap().into_iter().map(text).collect();
        files.sort();
        files
    }

    fn texts(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    }

    const OLDER: [(&str, &str); 3] =
        [("figures/a.csv", "1"), ("figures/b.csv", "1"), ("index.html", "older")];
    const NEW: [(&str, &str); 3] = [("figures/b.csv", "2"), ("index.html", "new"), ("manifests/0.toml", "2")];

    #[test]
    fn the_older_report_is_whole_when_the_new_one_is_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join("new"), dir.path().join("place"));
        write(&new, &NEW);
        exchange(&new, &place).unwrap();
        assert_eq!(read(&place), texts(&NEW));
        write(&new, &OLDER);
        exchange(&new, &place).unwrap();
        assert_eq!((read(&place), read(&new)), (texts(&OLDER), texts(&NEW)));
    }

    #[test]
    fn a_report_moves_into_the_folder_of_an_older_one_where_folders_are_not_exchanged() {
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join("new"), dir.path().join("place"));
        write(&new, &NEW);
        write(&place, &OLDER);
        move_into(&new, &place).unwrap();
        assert_eq!(read(&place), texts(&NEW));
    }

    #[test]
    fn what_a_killed_report_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        write(&path(".tandem-report-killed/report"), &NEW);
        fs::create_dir(path(".tandem-report-empty")).unwrap();
        write(&path(".tandem-report-notes"), &[("notes.txt", "mine")]);
        write(&path(".tandem-report-more/report"), &[("index.html", "new"), ("best.pt", "mine")]);
        write(&path("report"), &NEW);
        write(&path("victim/report"), &NEW);
        std::os::unix::fs::symlink(path("victim"), path(".tandem-report-link")).unwrap();
        let live = Unfinished::begin(dir.path()).unwrap();
        write(&live.path(), &NEW);
        let next = Unfinished::begin(dir.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut expected = vec![live.folder.path().to_owned(), next.folder.path().to_owned()];
        let kept = [".tandem-report-notes", ".tandem-report-more", ".tandem-report-link", "report", "victim"];
        expected.extend(kept.map(path));
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!((read(&live.path()), read(&path("victim/report"))), (texts(&NEW), texts(&NEW)));
    }
}
