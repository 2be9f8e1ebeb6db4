//! JSON output of commands that write files.

use serde::{Deserialize, Serialize};

/// `profile export`: what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    pub table: String,
    /// The data dictionary.
    pub columns: String,
    pub runs: u64,
    pub rows: u64,
    /// The rows of failed launches and of jobs that could not run; absent with `--steps`.
    pub failed: Option<u64>,
    pub unsupported: Option<u64>,
    /// Why runs were left out, a sentence each.
    pub left_out: Vec<String>,
}

/// `report RUN..`: what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenReport {
    pub page: String,
    /// The names of the files in `figures/`, without their endings.
    pub figures: Vec<String>,
    /// What could not be read, a sentence each.
    pub problems: Vec<String>,
}
