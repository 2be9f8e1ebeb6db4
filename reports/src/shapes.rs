//! The table of a fitted duration model, which is a file of its own and belongs to no run.

use std::path::Path;

use anyhow::{Context as _, ensure};
use formats::rows::DurationShape;
use record::rows::{self};

/// What `sched fit --duration --out` writes.
pub struct ShapeTable {
    /// The name of the file.
    pub name: String,
    pub rows: Vec<DurationShape>,
}

impl ShapeTable {
    /// # Errors
    /// The file is no such table, or has no rows.
    pub fn read(path: &Path) -> anyhow::Result<ShapeTable> {
        let said =
            || format!("{} is no run, and no folder of runs, and no table of durations", path.display());
        let rows: Vec<DurationShape> = rows::read(path).with_context(said)?;
        ensure!(!rows.is_empty(), "{}: it has no rows", said());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(ShapeTable { name, rows })
    }
}
