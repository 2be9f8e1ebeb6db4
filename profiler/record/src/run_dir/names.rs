//! Names of launches and visits, which are names of files of a run.

use std::{fs, path::Path};

use schema::files::RunError;

/// Names of the files of a folder by number: `0007-lstm` comes before `10000-lstm`.
pub(super) fn names_in(folder: &Path) -> Result<Vec<String>, RunError> {
    let io = |cause| RunError::Io { file: folder.into(), cause };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let file = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        let name = file.strip_suffix(".json").filter(|name| !name.ends_with(".end"));
        names.extend(name.map(str::to_owned));
    }
    in_order(&mut names);
    Ok(names)
}

/// Sorts names of launches and visits by number.
pub fn in_order(names: &mut [String]) {
    names.sort_by_cached_key(|name| (number_of(name), name.clone()));
}

/// The number that a name begins with, before a hyphen.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.split('-').next()?;
    // A sign would be parsed, too.
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
}
