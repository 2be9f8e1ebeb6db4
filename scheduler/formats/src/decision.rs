//! `decisions.jsonl`: the events of a run of the scheduler and the decisions on them, one line per turn of
//! the engine.

mod chain;
mod file;
mod one_or_several;
mod share;
mod words;

use std::collections::BTreeMap;

use record::rows::ErrorKind;
use schema::{plan::Plan, units::Nanos};
use serde::{Deserialize, Serialize};

pub use self::{
    chain::Chain,
    file::{TurnWriter, read, read_each},
    share::Share,
};

/// One turn: the events of an instant, and the decision of the policy on them. Turns are raw data, from which
/// every decision can be made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Counts from 0, without a gap.
    pub turn: u64,
    /// Time from the start of the run.
    pub at_ns: Nanos,
    /// The version of the fitted model that the policy believed: 0 at first, and one more after each refit. Absent if it believed
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_version: Option<u64>,
    /// The events in the order in which they took effect, at least one. In journals of earlier versions, a turn
    /// has one event in a field `happened`.
    #[serde(alias = "happened", deserialize_with = "one_or_several::read")]
    pub events: Vec<ClusterEvent>,
    /// Actions in the order in which they were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// Actions that the policy asked for and the engine refused, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    pub wake_at_ns: Option<Nanos>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the policy says of single jobs in this turn, if it says it for the journal. Earlier versions had no such field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub explain: BTreeMap<JobId, String>,
    /// The [`Chain`] over all events and actions before the actions of this turn. Two runs with the same
    /// hash have shown their policies the same.
    pub view_hash: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    pub action: Action,
    pub why: String,
}

/// The position of a job in its trace, which is ordered by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u32);

/// The position of a device in its cluster, counted over all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

/// An action that a policy may ask for. The engine checks it before it passes it on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Starts a job from its last checkpoint or from scratch. Jobs on the same device are packed.
    Start {
        job: JobId,
        /// Devices in the order of ranks.
        devices: Vec<DeviceId>,
        /// Cores of the host for each rank; absent if the policy left the number open.
        cpus: Option<u16>,
        /// Absent for commands, which define their own.
        plan: Option<Plan>,
    },
    /// Holds the job at the end of a step and moves its tensors off the device.
    Pause {
        job: JobId,
    },
    Resume {
        job: JobId,
    },
    /// Ends the launch at the end of a step. Without a checkpoint, the steps since the last one are lost.
    Stop {
        job: JobId,
        checkpoint: bool,
    },
    /// Ends the job for good. It is no failure, and the job is not started again.
    End {
        job: JobId,
    },
    /// Lets the job run for this share of the time until its launch ends.
    Throttle {
        job: JobId,
        share: Share,
    },
}

impl Action {
    pub fn job(&self) -> JobId {
        match *self {
            Action::Start { job, .. }
            | Action::Pause { job }
            | Action::Resume { job }
            | Action::Stop { job, .. }
            | Action::End { job }
            | Action::Throttle { job, .. } => job,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClusterEvent {
    /// A job leaves its devices for good, after all its steps or because its command exited with success.
    Finished {
        job: JobId,
        steps: u64,
    },
    /// The launch of a job is gone. `steps` are those of its last checkpoint.
    Failed {
        job: JobId,
        steps: u64,
        kind: ErrorKind,
        detail: String,
    },
    /// Nothing runs on the device any more. Launches on it fail first.
    DeviceLost {
        device: DeviceId,
    },
    DeviceBack {
        device: DeviceId,
    },
    /// A switch is complete. `steps` are as in [`ClusterEvent::Progress`].
    Settled {
        job: JobId,
        now: Settled,
        steps: u64,
    },
    Arrived {
        job: JobId,
    },
    /// Effective steps, where repeated steps count once. Reported at the interval in the settings of the
    /// run.
    Progress {
        job: JobId,
        steps: u64,
        /// The mean training loss of the steps of its launch since the report before. Absent if none of them
        /// had a finite one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
    },
    /// The deadline that the policy set has passed without another event. It is the only event of its turn.
    Deadline,
}

/// State of a job after a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    Running,
    Paused,
    /// The devices of the job are free, and it can start on any.
    Stopped,
}

impl ClusterEvent {
    /// Returns the job of the event.
    pub fn job(&self) -> Option<JobId> {
        match *self {
            ClusterEvent::Finished { job, .. }
            | ClusterEvent::Failed { job, .. }
            | ClusterEvent::Settled { job, .. }
            | ClusterEvent::Arrived { job }
            | ClusterEvent::Progress { job, .. } => Some(job),
            ClusterEvent::DeviceLost { .. } | ClusterEvent::DeviceBack { .. } | ClusterEvent::Deadline => {
                None
            }
        }
    }

    /// The order of simultaneous events: those that free devices come before those that need them. Ties go
    /// by job, then by device.
    pub fn rank(&self) -> (u8, u32) {
        match *self {
            ClusterEvent::Finished { job, .. } => (0, job.0),
            ClusterEvent::Failed { job, .. } => (1, job.0),
            ClusterEvent::DeviceLost { device } => (2, device.0),
            ClusterEvent::DeviceBack { device } => (3, device.0),
            ClusterEvent::Settled { job, .. } => (4, job.0),
            ClusterEvent::Arrived { job } => (5, job.0),
            ClusterEvent::Progress { job, .. } => (6, job.0),
            ClusterEvent::Deadline => (7, 0),
        }
    }
}
