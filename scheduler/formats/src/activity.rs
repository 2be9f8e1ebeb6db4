//! What jobs did on the devices of a run of `sched`, from its journal. Times follow the account of the engine to the nanosecond.

mod counts;
mod fold;
mod states;
#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

use record::rows::ErrorKind;
use schema::plan::Plan;

use self::fold::Fold;
pub use self::{counts::steps_of, states::JobState};
use crate::decision::{self, DeviceId, JobId};

/// The stays of jobs on devices, and the rest of a journal up to its last complete turn. The run may still go on.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// In order of their ends.
    pub stays: Vec<Stay>,
    pub losses: Vec<Loss>,
    /// In order of their begins.
    pub waits: Vec<Wait>,
    pub turns: u64,
    /// The time of the last turn.
    pub until_ns: u64,
    /// Why the journal could not be read further.
    pub problem: Option<String>,
}

/// A job in one phase on its devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Stay {
    pub job: JobId,
    /// The number of earlier launches of the job.
    pub launch: u32,
    /// The devices in the order of ranks.
    pub devices: Arc<[DeviceId]>,
    pub plan: Option<Plan>,
    /// The plan of the launch before, if that was another one.
    pub plan_before: Option<Plan>,
    pub phase: Phase,
    pub from_ns: u64,
    pub until_ns: u64,
    pub end: StayEnd,
}

/// What a job does on its devices. The phases are those of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Running,
    Pausing,
    Paused,
    Resuming,
    Stopping,
    /// It leaves its devices, and does not run again.
    Ending,
}

/// What follows a stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StayEnd {
    /// Another phase of the same launch.
    NextPhase,
    Finished,
    Stopped,
    EndedByPolicy,
    Failed(ErrorKind, String),
    /// The journal ends before the stay does.
    Open,
}

/// A device on which nothing can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub device: DeviceId,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// A job that has arrived and has no devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub job: JobId,
    pub from_ns: u64,
    /// Absent if no later turn starts or ends the job. It may wait still, or have ended when its last launch failed.
    pub until_ns: Option<u64>,
}

impl Activity {
    /// Reads a journal. What precedes a line that cannot be read is kept.
    pub fn read(path: &Path) -> Activity {
        let mut fold = Fold::default();
        let read = decision::read_each(path, |turn| fold.add(turn));
        Activity { problem: read.err().map(|error| error.to_string()), ..fold.done() }
    }
}
