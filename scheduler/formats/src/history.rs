//! The history of a run: the jobs of an earlier run, from which a policy may learn before the run begins.

use std::path::Path;

use record::{
    lines,
    rows::{self, Records, RowError},
};
use schema::{plan::Plan, units::Nanos};
use serde::{Deserialize, Serialize};

use crate::{rows::Outcome, trace::Trace};

/// A job of an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastJob {
    pub name: String,
    pub user: String,
    pub vc: String,
    /// The recurring job of which it was an instance.
    pub recurring_job: Option<String>,
    /// The workload of the catalog, or the name of a command.
    pub workload: String,
    pub global_batch: Option<u32>,
    /// What it asked for.
    pub plan: Option<Plan>,
    pub devices: u32,
    /// Date and time of its arrival in UTC (RFC 3339).
    pub submit_utc: Option<String>,
    /// The time for which it ran: the length in a trace, or the running time in an outcome.
    pub duration_ns: Nanos,
}

/// A file of an earlier run.
#[derive(Clone, Debug, PartialEq)]
pub enum EarlierRun {
    /// A trace, such as a published one. Its lengths are the durations.
    Trace(Trace),
    /// `outcomes.csv` of a run of `sched`.
    Outcomes(Vec<Outcome>),
}

impl EarlierRun {
    /// Reads a trace or outcomes. The header tells which of them it is.
    ///
    /// # Errors
    /// Fails if the file is neither, and at the first line that is invalid, with its column and a remedy.
    pub fn read(path: &Path) -> Result<EarlierRun, RowError> {
        let text = lines::read(path)?;
        let records = Records::new(path, &text)?;
        let has = |column: &str| records.header().iter().any(|name| name == column);
        if has("submit_s") {
            return Ok(EarlierRun::Trace(Trace::parse(path, &text)?));
        }
        if has("submit_ns") {
            return Ok(EarlierRun::Outcomes(rows::read(path)?));
        }
        let message = "this is neither a trace, which has a column 'submit_s', nor outcomes.csv of a run, which has \
                       'submit_ns'; name one of the two";
        Err(RowError::Row { file: path.into(), line: 1, message: message.into() })
    }
}
