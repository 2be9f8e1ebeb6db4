//! `decisions.jsonl`: what happened in a run of the scheduler, and what was done about it, one line a turn of the engine.

mod chain;
mod file;
mod words;

use serde::{Deserialize, Serialize};

pub use self::{
    chain::Chain,
    file::{TurnWriter, read},
};
use crate::{plan::Plan, rows::ErrorKind, units::Nanos};

/// One turn: an event, and what the policy made of it. Raw, and enough to decide everything again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// From 0, without a gap.
    pub turn: u64,
    /// From the start of the run.
    pub at_ns: Nanos,
    pub happened: Happened,
    /// In the order in which they were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// Asked for by the policy and not done, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    pub wake_at_ns: Option<Nanos>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Of all that happened and was done before this turn's actions: a [`Chain`]. Two runs with the same hash have shown their policies
    /// the same.
    pub view_hash: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub action: Action,
    pub why: String,
}

/// The place of a job in its trace, which is ordered by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u32);

/// The place of a device in its cluster, counted through all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

/// What a policy may ask for, and the engine passes on after it has checked it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// From its last checkpoint, or anew. On a device that another job keeps, the two are packed.
    Start {
        job: JobId,
        /// In the order of ranks.
        devices: Vec<DeviceId>,
        /// Cores of the host for each rank; absent where the policy chose no number.
        cpus: Option<u16>,
        /// Absent for commands, which bring their own.
        plan: Option<Plan>,
    },
    /// Holds the job at the end of a step and takes its tensors off the device.
    Pause {
        job: JobId,
    },
    Resume {
        job: JobId,
    },
    /// Ends the launch at the end of a step; without a checkpoint the steps since the last one are lost.
    Stop {
        job: JobId,
        checkpoint: bool,
    },
}

impl Action {
    pub fn job(&self) -> JobId {
        match *self {
            Action::Start { job, .. }
            | Action::Pause { job }
            | Action::Resume { job }
            | Action::Stop { job, .. } => job,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Happened {
    /// A job leaves its devices for good: it has done all its steps, or its command ended in peace.
    Finished {
        job: JobId,
        steps: u64,
    },
    /// Its launch is gone. `steps` are those that its last checkpoint holds.
    Failed {
        job: JobId,
        steps: u64,
        kind: ErrorKind,
        detail: String,
    },
    /// Nothing runs on it any more; launches that had it fail first.
    DeviceLost {
        device: DeviceId,
    },
    DeviceBack {
        device: DeviceId,
    },
    /// A switch is complete. `steps` as in [`Happened::Progress`].
    Settled {
        job: JobId,
        now: Settled,
        steps: u64,
    },
    Arrived {
        job: JobId,
    },
    /// Steps that count, those that are done again once. Told once a while, as the run's settings say.
    Progress {
        job: JobId,
        steps: u64,
    },
    /// Nothing, until the time that was named.
    Deadline,
}

/// What a job does after a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    Running,
    Paused,
    /// Its devices are free, and it can be started anywhere.
    Stopped,
}

impl Happened {
    /// The order of events of one instant: what frees devices, then what asks for them. Ties go by job, then by device.
    pub fn rank(&self) -> (u8, u32) {
        match *self {
            Happened::Finished { job, .. } => (0, job.0),
            Happened::Failed { job, .. } => (1, job.0),
            Happened::DeviceLost { device } => (2, device.0),
            Happened::DeviceBack { device } => (3, device.0),
            Happened::Settled { job, .. } => (4, job.0),
            Happened::Arrived { job } => (5, job.0),
            Happened::Progress { job, .. } => (6, job.0),
            Happened::Deadline => (7, 0),
        }
    }
}
