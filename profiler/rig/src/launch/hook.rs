//! The step hook for Python programs (`workloads/python`), which is part of this executable.
//!
//! Each launch has a copy of its own: Python writes its bytecode beside the files, with their full path in it, and that must
//! not stay in a run. The environment of the hook is documented in `workloads/python/README.md`.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    fs::{self, FileType},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use super::{preload, remains::remove_if};

/// The variable with Python's module path, which the hook is put at the beginning of.
pub(super) const PYTHONPATH: &str = "PYTHONPATH";

/// The files of the hook by name, with their contents.
macro_rules! hook_files {
    ($($name:literal,)+) => {
        &[
            (preload::LIBRARY, preload::CODE),
            $(($name, include_bytes!(concat!("../../../../workloads/python/hook/", $name)))),+
        ]
    };
}

const FILES: &[(&str, &[u8])] = hook_files![
    "sitecustomize.py",
    "tandem_hook/__init__.py",
    "tandem_hook/awaited.py",
    "tandem_hook/boundaries.py",
    "tandem_hook/calls.py",
    "tandem_hook/clocks.py",
    "tandem_hook/ending.py",
    "tandem_hook/event_file.py",
    "tandem_hook/grant.py",
    "tandem_hook/graphs.py",
    "tandem_hook/hook.py",
    "tandem_hook/installed.py",
    "tandem_hook/job.py",
    "tandem_hook/notes.py",
    "tandem_hook/operators.py",
    "tandem_hook/phases.py",
    "tandem_hook/trained.py",
];

/// Creates `folder` and writes the hook into it.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    for (name, contents) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, contents)?;
    }
    Ok(())
}

/// Removes the files that [`write`] has written into `folder`, Python's bytecode of them, and then the folders if they are empty. All other
/// entries stay, and links are not followed.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    if !is_folder(folder) {
        return Ok(());
    }
    let files: Vec<PathBuf> = FILES.iter().map(|(name, _)| folder.join(name)).collect();
    let folders: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    // Folders are in the order of their paths, in which the folders in a folder come after it.
    for folder in folders.into_iter().rev().filter(|folder| is_folder(folder)) {
        let files: Vec<&PathBuf> = files.iter().filter(|file| file.parent() == Some(folder)).collect();
        let cache = folder.join("__pycache__");
        if is_folder(&cache) {
            for entry in fs::read_dir(&cache)? {
                let bytecode = entry?.path();
                if files.iter().any(|file| is_bytecode(&bytecode, file)) {
                    remove_if(&bytecode, FileType::is_file)?;
                }
            }
            remove_empty(&cache)?;
        }
        files.iter().try_for_each(|file| remove_if(file, FileType::is_file))?;
        remove_empty(folder)?;
    }
    Ok(())
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

/// Whether Python gives this name to the bytecode of a source: `job.cpython-311.pyc` for `job.py`, and a number at the end until the
/// file is written.
fn is_bytecode(path: &Path, source: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.split_once('.'));
    name.is_some_and(|(stem, rest)| source.file_stem() == Some(OsStr::new(stem)) && rest.contains(".pyc"))
}

fn remove_empty(folder: &Path) -> io::Result<()> {
    match fs::remove_dir(folder) {
        Err(error) if !matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotFound) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// The variable that makes Python load the hook in `folder`, an absolute path, before modules of `chosen` or, without it, of the module
/// path of this process.
///
/// # Errors
/// The path cannot be part of `PYTHONPATH`.
pub(super) fn environment(folder: &Path, chosen: Option<OsString>) -> io::Result<(&'static str, OsString)> {
    let mut path = folder.as_os_str().to_owned();
    if path.as_encoded_bytes().contains(&b':') {
        let message =
            format!("{}: Python ends a path at a colon; name another directory with --out", folder.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    if let Some(rest) = chosen.or_else(|| env::var_os(PYTHONPATH)).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    Ok((PYTHONPATH, path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Files of a folder and of those in it, by their paths below it.
    fn files_of(folder: &Path) -> Vec<PathBuf> {
        let mut folders = vec![folder.to_path_buf()];
        let mut files = Vec::new();
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                // Python may write bytecode at the same time.
                if path.ends_with("__pycache__") {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push(path.strip_prefix(folder).unwrap().to_path_buf());
                }
            }
        }
        files.sort();
        files
    }

    #[test]
    fn all_files_of_the_hook_are_written_and_no_other() {
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads/python/hook");
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("hook");
        write(&copy).unwrap();
        let mut expected = files_of(&source);
        expected.push(preload::LIBRARY.into());
        expected.sort();
        assert_eq!(files_of(&copy), expected);
        for file in files_of(&source) {
            assert_eq!(
                fs::read(copy.join(&file)).unwrap(),
                fs::read(source.join(&file)).unwrap(),
                "{file:?}"
            );
        }
    }
    #[test]
    fn a_copy_is_removed_with_its_bytecode_and_all_other_entries_stay() {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("0001-a.hook");
        let put = |name: &str| {
            let path = copy.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        let bytecode = [
            "__pycache__/sitecustomize.cpython-311.pyc",
            "tandem_hook/__pycache__/__init__.cpython-311.opt-1.pyc",
            "tandem_hook/__pycache__/job.cpython-311.pyc.140234",
        ];
        write(&copy).unwrap();
        bytecode.into_iter().for_each(put);
        remove(&copy).unwrap();
        assert!(!copy.exists());
        remove(&copy).unwrap();

        // A link to a folder, and links in place of files and folders.
        let outside = dir.path().join("outside");
        write(&outside).unwrap();
        let whole = files_of(&outside);
        symlink(&outside, &copy).unwrap();
        remove(&copy).unwrap();
        assert!(copy.is_symlink());
        fs::remove_file(&copy).unwrap();
        write(&copy).unwrap();
        fs::remove_dir_all(copy.join("tandem_hook")).unwrap();
        symlink(outside.join("tandem_hook"), copy.join("tandem_hook")).unwrap();
        fs::remove_file(copy.join("sitecustomize.py")).unwrap();
        symlink(outside.join("sitecustomize.py"), copy.join("sitecustomize.py")).unwrap();
        remove(&copy).unwrap();
        assert_eq!(fs::read_dir(&copy).unwrap().count(), 2);
        assert_eq!(files_of(&outside), whole);
        fs::remove_dir_all(&copy).unwrap();

        write(&copy).unwrap();
        let users = ["mine.py", "tandem_hook/job.py.bak", "tandem_hook/__pycache__/mine.cpython-311.pyc"];
        users.into_iter().chain(bytecode).for_each(put);
        remove(&copy).unwrap();
        assert_eq!(files_of(&copy), [Path::new(users[0]), Path::new(users[1])]);
        let cache = fs::read_dir(copy.join("tandem_hook/__pycache__")).unwrap();
        let names: Vec<OsString> = cache.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["mine.cpython-311.pyc"]);
    }
}
