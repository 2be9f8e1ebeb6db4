//! Traces: which jobs arrive when. A CSV file, one line a job.

use serde::{Deserialize, Serialize};

use crate::{job::Job, rows::words};

/// A job that arrives, as a line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRow {
    /// Unique in its trace.
    pub name: String,
    /// From the start of the trace. Lines are in order of it.
    pub submit_s: f64,
    /// Absent for a command. A workload that no catalog has can be simulated where `step_ns` is there, and not run.
    pub job: Option<Job>,
    /// A program and its arguments, split as a shell would.
    pub command: Option<String>,
    /// Absent for a command that runs until it ends.
    pub steps: Option<u64>,
    /// Devices it asks for; absent means those of its plan.
    pub devices: Option<u32>,
    /// Whether it may be given other devices and another plan than it asks for.
    #[serde(default)]
    pub elastic: bool,
    #[serde(default)]
    pub class: Class,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub vc: String,
    /// Time of a step alone on what it asks for, where the trace has it from elsewhere.
    pub step_ns: Option<u64>,
}

words! {
    /// What a job was promised.
    #[derive(Default)]
    Class {
        /// What it asks for, once it is started.
        #[default]
        Guaranteed = "guaranteed",
        /// What is left.
        BestEffort = "best-effort",
    }
}
