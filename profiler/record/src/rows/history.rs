//! What `report history --json` prints: the times of jobs alone over several runs.

use schema::words;
use serde::{Deserialize, Serialize};

use super::labels::Warnings;

/// The runs in the order of their starts, and what they measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub runs: Vec<HistoryRun>,
    /// One for each job on a device of a machine.
    pub cells: Vec<CellHistory>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryRun {
    pub name: String,
    pub started_utc: String,
    /// The revision of the source tree of the user's programs, if the run recorded one, and else that of Tandem.
    pub revision: Option<String>,
    /// Whether files of that source tree differed from the revision. Absent for a revision of Tandem: its build does
    /// not record local changes.
    pub dirty: Option<bool>,
    /// The machine and its devices. Runs are compared only if they agree in it.
    pub machine: String,
}

/// The times of one job on one device of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellHistory {
    pub job: String,
    pub device: String,
    pub machine: String,
    /// One for each run that was to measure it, in the order of `runs`.
    pub points: Vec<HistoryPoint>,
    pub verdict: HistoryVerdict,
    /// In the order of runs. Empty if the cell cannot be told.
    pub levels: Vec<HistoryLevel>,
    /// One between each level and the next.
    pub changes: Vec<LevelChange>,
    /// Standard deviation of runs around their level, in percent. Absent if the cell cannot be told.
    pub between_runs_percent: Option<f64>,
    /// The smallest ratio of the second half of the runs to the first that is shown with a probability of 80 %.
    pub detectable_ratio: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The position of the run in `runs`.
    pub run: u32,
    /// As `step_ns_median` of `summary.csv`; for a program without steps, its duration. Absent if the job failed or was not run.
    pub ns: Option<u64>,
    pub ns_ci_lo: Option<u64>,
    pub ns_ci_hi: Option<u64>,
    pub repeats: u32,
    pub warnings: Warnings,
}

/// Runs that follow each other and have one level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryLevel {
    /// The first and the last run with a time, as positions in `runs`.
    pub run: u32,
    pub run_last: u32,
    /// The number of runs with a time.
    pub count: u32,
    /// The number of these runs that have warnings.
    pub count_with_warnings: u32,
    /// The geometric mean of the times.
    pub ns: f64,
}

/// A change from one level of several runs to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelChange {
    /// The first run on the new level and the last one on the old level, as positions in `runs`.
    pub run: u32,
    pub run_before: u32,
    /// The new level over the old one, with its 95 % interval over runs.
    pub ratio: f64,
    pub ratio_ci_lo: f64,
    pub ratio_ci_hi: f64,
    /// Corrected for the number of runs at which a change could have been found, and for the number of cells.
    pub p_corrected: f64,
    /// What else differs between the two runs, such as the revision or the driver.
    pub differences: Vec<String>,
}

words! {
    /// What runs show of a cell.
    HistoryVerdict {
        /// At least one change of level is shown.
        Changed = "changed",
        /// The test shows no change. Changes below `detectable_ratio`, and some above it, may be there.
        NoneShown = "none-shown",
        /// There are too few runs with a number.
        CannotTell = "cannot-tell",
    }
}
