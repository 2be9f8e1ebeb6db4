//! Finds the runs that a path stands for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// Folders of a run, and tables beside one, lie at most this deep below a folder of runs.
const DEPTH: u32 = 5;

/// The run itself, or all runs below a directory that is no run, in order of their paths. Copies of tables in the inputs of a run are
/// no runs of their own.
pub fn runs_in(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if path.join("manifest.toml").is_file() {
        return Ok(vec![path.into()]);
    }
    let mut found = Vec::new();
    search(path, DEPTH, &mut found)
        .with_context(|| format!("{} is no run, and no folder of runs", path.display()))?;
    Ok(found)
}

fn search(folder: &Path, depth: u32, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut below: Vec<PathBuf> =
        fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    below.sort();
    for path in below {
        // A link may lead back up.
        if path.is_symlink() || !path.is_dir() {
            continue;
        }
        if path.join("manifest.toml").is_file() {
            found.push(path);
        } else if depth > 0 {
            // A folder that cannot be read has no run to show.
            let _ = search(&path, depth - 1, found);
        }
    }
    Ok(())
}
