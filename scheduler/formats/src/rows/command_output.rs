//! JSON output of commands of `sched` that is no table of a run.

use schema::units::Nanos;
use serde::{Deserialize, Serialize};

/// `sched replay`: whether all decisions were made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    pub policy: String,
    /// Turns of the run.
    pub turns: u64,
    /// The first turn that was decided otherwise, in words. Absent if every turn was decided as recorded.
    pub first_difference: Option<String>,
}

/// `sched explain`: a job after a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    pub job: String,
    pub policy: String,
    pub turn: u64,
    /// Time from the start of the run.
    pub at_ns: Nanos,
    /// What the job does, in words.
    pub state: String,
    /// What the policy says of the job; empty if it says nothing.
    pub explanation: String,
    /// What happened to the job up to this turn, in order.
    pub changes: Vec<JobChange>,
}

/// An event, an action or a refusal of a turn that is of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobChange {
    pub turn: u64,
    /// Time from the start of the run.
    pub at_ns: Nanos,
    /// In words.
    pub what: String,
}

/// `sched trace`: the trace that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenTrace {
    pub trace: String,
    pub jobs: u64,
    /// Rows of the imported files that are left out, by their reason.
    pub left_out: Vec<String>,
}
