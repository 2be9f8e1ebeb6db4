//! `outcomes.csv`: how jobs ended, one row per job of a trace. `predictions.csv`: what had been predicted of them.

use serde::{Deserialize, Serialize};

use super::labels::{ErrorKind, Status};
use crate::{decision::JobId, plan::Plan, trace::Class};

/// How a job ended, and what it did with its time. Instants are from the start of the run.
///
/// From its arrival to its end a job is always one of queued, switching, running or paused, so that the four add up to `jct_ns`. Of a
/// job that has not ended they add up to the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub job: JobId,
    pub name: String,
    /// The workload of the catalog, or the name of a command.
    pub workload: String,
    pub global_batch: Option<u32>,
    /// As asked for.
    pub plan: Option<Plan>,
    pub devices: u32,
    pub user: String,
    pub vc: String,
    pub class: Class,
    pub submit_ns: u64,
    /// Of the first time it was given devices; absent where it never was.
    pub start_ns: Option<u64>,
    /// Absent where it had not ended when the run did, and where it was never admitted.
    pub end_ns: Option<u64>,
    /// Job completion time: from arrival to end. Absent where it did not end well.
    pub jct_ns: Option<u64>,
    pub queued_ns: Option<u64>,
    pub switching_ns: Option<u64>,
    pub running_ns: Option<u64>,
    /// The part of it in which another job had one of its devices, too.
    pub packed_ns: Option<u64>,
    pub paused_ns: Option<u64>,
    /// Running time times devices, summed over stretches.
    pub device_time_ns: Option<u64>,
    pub starts: u32,
    pub pauses: u32,
    /// How often it failed and was given another chance.
    pub retries: u32,
    /// That count, and those it was to do.
    pub steps: u64,
    pub steps_asked: Option<u64>,
    /// Steps done that a failure or a stop without a checkpoint has lost.
    pub steps_lost: u64,
    pub predicted_jct_ns: Option<u64>,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}

/// What was predicted of a job before the run: how a simulation of the same trace had it end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub job: JobId,
    pub name: String,
    pub start_ns: Option<u64>,
    pub end_ns: Option<u64>,
    pub jct_ns: Option<u64>,
    pub queued_ns: Option<u64>,
    pub switching_ns: Option<u64>,
    pub running_ns: Option<u64>,
    pub packed_ns: Option<u64>,
    pub paused_ns: Option<u64>,
    pub device_time_ns: Option<u64>,
    pub starts: u32,
    pub pauses: u32,
    pub steps: u64,
    pub status: Status,
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}

impl From<&Outcome> for Prediction {
    fn from(outcome: &Outcome) -> Prediction {
        Prediction {
            job: outcome.job,
            name: outcome.name.clone(),
            start_ns: outcome.start_ns,
            end_ns: outcome.end_ns,
            jct_ns: outcome.jct_ns,
            queued_ns: outcome.queued_ns,
            switching_ns: outcome.switching_ns,
            running_ns: outcome.running_ns,
            packed_ns: outcome.packed_ns,
            paused_ns: outcome.paused_ns,
            device_time_ns: outcome.device_time_ns,
            starts: outcome.starts,
            pauses: outcome.pauses,
            steps: outcome.steps,
            status: outcome.status,
            err: outcome.err,
            err_detail: outcome.err_detail.clone(),
        }
    }
}
