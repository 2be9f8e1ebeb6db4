//! The states that jobs are in after the last turn of a journal.

use std::collections::HashMap;

use super::{Activity, Phase, Stay, StayEnd};
use crate::decision::JobId;

/// The state of a job that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    /// It has no devices, and was not ended. A job that was not admitted stays here.
    Waiting,
    /// Its last launch failed. The engine may start it again.
    Failed,
    /// It is between two of the other states, on its devices.
    Switching,
    Running,
    Paused,
    Finished,
    EndedByPolicy,
}

impl JobState {
    pub const ALL: [JobState; 7] = [
        JobState::Waiting,
        JobState::Failed,
        JobState::Switching,
        JobState::Running,
        JobState::Paused,
        JobState::Finished,
        JobState::EndedByPolicy,
    ];

    pub fn name(self) -> &'static str {
        match self {
            JobState::Waiting => "waiting",
            JobState::Failed => "failed",
            JobState::Switching => "switching",
            JobState::Running => "running",
            JobState::Paused => "paused",
            JobState::Finished => "finished",
            JobState::EndedByPolicy => "ended-by-policy",
        }
    }
}

impl Activity {
    /// The state of each job that has arrived.
    pub fn states(&self) -> HashMap<JobId, JobState> {
        let last: HashMap<JobId, &Stay> = self.stays.iter().map(|stay| (stay.job, stay)).collect();
        let waits: HashMap<JobId, bool> =
            self.waits.iter().map(|wait| (wait.job, wait.until_ns.is_none())).collect();
        waits.into_iter().map(|(job, waits)| (job, state(last.get(&job).copied(), waits))).collect()
    }
}

/// The state of a job by its last stay, and by whether it has waited since.
fn state(last: Option<&Stay>, waits: bool) -> JobState {
    match last.map(|stay| (&stay.end, stay.phase)) {
        Some((StayEnd::Finished, _)) => JobState::Finished,
        Some((StayEnd::Open, Phase::Running)) => JobState::Running,
        Some((StayEnd::Open, Phase::Paused)) => JobState::Paused,
        Some((StayEnd::Open, _)) => JobState::Switching,
        Some((StayEnd::Failed(..), _)) if waits => JobState::Failed,
        _ if waits => JobState::Waiting,
        _ => JobState::EndedByPolicy,
    }
}
