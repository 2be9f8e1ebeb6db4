//! Jobs: what a trace asks for, and what has become of it. The engine alone writes the second.

use std::{borrow::Cow, fmt};

use model::Subject;
use schema::{job::command_name, plan::Plan, rows::ErrorKind, trace::Class, units::Nanos};

use crate::{cluster::JobId, topology::DeviceId};

/// What was asked for; it never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    pub id: JobId,
    /// Its name in the trace.
    pub name: String,
    pub arrival: Nanos,
    pub what: Payload,
    /// As the trace spells it. An elastic job may be given another plan and number of devices.
    pub plan: Option<Plan>,
    pub devices: u32,
    pub elastic: bool,
    /// Absent for a command that runs until it ends.
    pub steps: Option<u64>,
    /// Finds the steps of a command in its output.
    pub steps_regex: Option<String>,
    /// Why it takes no checkpoint, and loses all that it has done where it is stopped; `None` for one that takes them.
    pub takes_no_checkpoint: Option<&'static str>,
    pub user: String,
    pub virtual_cluster: String,
    pub class: Class,
    /// Time of a step alone on what it asks for, as the trace has it from elsewhere.
    pub step_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    Training {
        workload: String,
        /// Absent where only the trace knows the workload, and not this.
        global_batch: Option<u32>,
    },
    /// Program and arguments.
    Command(Vec<String>),
}

impl Payload {
    /// As rows name it: the workload of the catalog, or the name of a command.
    pub fn workload(&self) -> Cow<'_, str> {
        match self {
            Payload::Training { workload, .. } => Cow::Borrowed(workload),
            Payload::Command(argv) => Cow::Owned(command_name(argv)),
        }
    }

    pub fn global_batch(&self) -> Option<u32> {
        match self {
            Payload::Training { global_batch, .. } => *global_batch,
            Payload::Command(_) => None,
        }
    }
}

impl JobRequest {
    /// As a model is asked for it; `workload` is that of [`Payload::workload`].
    pub fn subject<'a>(&self, workload: &'a str) -> Subject<'a> {
        let (global_batch, plan, step_ns) = (self.what.global_batch(), self.plan, self.step_ns);
        Subject { workload, global_batch, plan, step_ns }
    }
}

/// What has become of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub state: State,
    /// Steps that count, as last told.
    pub steps: u64,
    /// When they were told.
    pub steps_at: Nanos,
    pub account: Account,
    /// How often it failed and was given another chance.
    pub retries: u32,
}

impl Job {
    /// Before anything became of it.
    pub fn new(arrival: Nanos) -> Job {
        Job {
            state: State::Waiting { since: arrival },
            steps: 0,
            steps_at: arrival,
            account: Account::default(),
            retries: 0,
        }
    }

    /// Where it is, if it has devices or is on its way off them.
    pub fn placed(&self) -> Option<&Placed> {
        match &self.state {
            State::Placed(placed) => Some(placed),
            State::Waiting { .. } | State::Ended { .. } => None,
        }
    }

    /// What it did with its time up to `now`, which is not before its state began.
    pub fn account_at(&self, now: Nanos) -> Account {
        let mut account = self.account.clone();
        match &self.state {
            State::Waiting { since } => account.queued += now - *since,
            State::Placed(placed) => {
                let passed = now - placed.since;
                match placed.phase {
                    Phase::Running => {
                        account.running += passed;
                        let device_time = passed.0.saturating_mul(placed.devices.len() as u64);
                        account.device_time = Nanos(account.device_time.0.saturating_add(device_time));
                    }
                    Phase::Paused => account.paused += passed,
                    Phase::Starting | Phase::Pausing | Phase::Resuming | Phase::Stopping => {
                        account.switching += passed;
                    }
                }
            }
            State::Ended { .. } => {}
        }
        account
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Wants devices and has none. `since` arrival, its last stop or its last failure.
    Waiting {
        since: Nanos,
    },
    Placed(Placed),
    Ended {
        at: Nanos,
        failed: Option<(ErrorKind, String)>,
    },
}

/// Where a job is and what it does there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// In the order of ranks.
    pub devices: Vec<DeviceId>,
    pub plan: Option<Plan>,
    pub phase: Phase,
    /// When the phase began.
    pub since: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Starting,
    Running,
    Pausing,
    Paused,
    Resuming,
    Stopping,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::Pausing => "pausing",
            Phase::Paused => "paused",
            Phase::Resuming => "resuming",
            Phase::Stopping => "stopping",
        })
    }
}

impl Phase {
    /// Whether the job is on its way off its devices or has left them: whoever is started there now does not share them with it.
    pub fn has_left(self) -> bool {
        matches!(self, Phase::Pausing | Phase::Paused | Phase::Stopping)
    }
}

/// What a job did with its time, up to when its present state began; [`Job::account_at`] has the rest. Times add up to the time since
/// arrival: `queued + switching + running + paused`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub first_start: Option<Nanos>,
    pub queued: Nanos,
    pub switching: Nanos,
    pub running: Nanos,
    pub paused: Nanos,
    /// Running time times devices, summed over stretches: Tiresias' attained service.
    pub device_time: Nanos,
    pub starts: u32,
    pub pauses: u32,
    /// Steps done that a failure or a stop without a checkpoint has lost.
    pub steps_lost: u64,
}
