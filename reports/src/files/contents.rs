//! The files of a report, by their form. Another file in its folder is the user's.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub(super) const INDEX: &str = "index.html";
pub(super) const FIGURES: &str = "figures";
pub(super) const MANIFESTS: &str = "manifests";

/// The files of a report, relative to its folder.
pub(super) fn contents(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = entries(folder)?;
    Ok(entries
        .into_iter()
        .filter(|(path, is_file)| *is_file && is_of_form(path, true))
        .map(|(path, _)| path)
        .collect())
}

/// An entry of a folder that is not of a report; `None` as well if the folder cannot be read.
pub(super) fn foreign_entry(folder: &Path) -> Option<PathBuf> {
    let entries = entries(folder).ok()?;
    entries.into_iter().find(|(path, is_file)| !is_of_form(path, *is_file)).map(|(path, _)| path)
}

/// The entries of a folder and of those folders in it that a report has, each with whether it is a file. Links are not followed.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let mut all = Vec::new();
    for below in ["", FIGURES, MANIFESTS] {
        let path = folder.join(below);
        if !below.is_empty() && !path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            continue;
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if !(below.is_empty() && kind.is_dir() && is_folder(&entry.file_name())) {
                all.push((Path::new(below).join(entry.file_name()), kind.is_file()));
            }
        }
    }
    Ok(all)
}

fn is_folder(name: &std::ffi::OsStr) -> bool {
    name == FIGURES || name == MANIFESTS
}

fn is_of_form(path: &Path, is_file: bool) -> bool {
    let endings: &[&str] = match path.parent().and_then(Path::to_str) {
        Some("") => return is_file && path == Path::new(INDEX),
        Some(FIGURES) => &["csv", "svg", "png"],
        Some(MANIFESTS) => &["toml"],
        _ => return false,
    };
    is_file
        && path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
}
