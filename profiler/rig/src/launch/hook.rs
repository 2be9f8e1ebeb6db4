//! The step hook for Python programs (`workloads/python`), which is part of this executable.
//!
//! Each launch has a copy of its own: Python writes its bytecode beside the files, with their full path in it, and that must
//! not stay in a run. The environment of the hook is documented in `workloads/python/README.md`.

use std::{env, ffi::OsString, fs, io, path::Path};

/// The variable with Python's module path, which the hook is put at the beginning of.
const PYTHONPATH: &str = "PYTHONPATH";

/// The files of the hook by name, with their contents.
macro_rules! hook_files {
    ($($name:literal,)+) => {
        &[$(($name, include_str!(concat!("../../../../workloads/python/hook/", $name)))),+]
    };
}

const FILES: &[(&str, &str)] = hook_files![
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
];

/// Creates `folder` and writes the hook into it.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)?;
    }
    Ok(())
}

/// The environment that makes Python load the hook in `folder`, an absolute path.
///
/// # Errors
/// The path cannot be part of `PYTHONPATH`.
pub(super) fn environment(folder: &Path) -> io::Result<(&'static str, OsString)> {
    let mut path = folder.as_os_str().to_owned();
    if path.as_encoded_bytes().contains(&b':') {
        let message =
            format!("{}: Python ends a path at a colon; name another directory with --out", folder.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    if let Some(rest) = env::var_os(PYTHONPATH).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    Ok((PYTHONPATH, path))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

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
        assert_eq!(files_of(&copy), files_of(&source));
        for file in files_of(&source) {
            assert_eq!(
                fs::read(copy.join(&file)).unwrap(),
                fs::read(source.join(&file)).unwrap(),
                "{file:?}"
            );
        }
    }
}
