//! Jobs: what a trace asks for, and what has become of it. The engine alone writes the second.

use std::borrow::Cow;

use model::Subject;
use schema::{job::command_name, plan::Plan, rows::ErrorKind, trace::Class, units::Nanos};

use crate::{cluster::JobId, topology::DeviceId};

/// What was asked for; it never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub id: JobId,
    /// Its name in the trace.
    pub name: String,
    pub arrival: Nanos,
    pub what: What,
    /// As the trace spells it. An elastic job may be given another plan and number of devices.
    pub plan: Option<Plan>,
    pub devices: u32,
    pub elastic: bool,
    /// Absent for a command that runs until it ends.
    pub steps: Option<u64>,
    pub user: String,
    pub virtual_cluster: String,
    pub class: Class,
    /// Time of a step alone on what it asks for, as the trace has it from elsewhere.
    pub step_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum What {
    Training {
        workload: String,
        global_batch: u32,
    },
    /// Program and arguments.
    Command(Vec<String>),
}

impl What {
    /// The workload as rows name it.
    pub fn workload(&self) -> Cow<'_, str> {
        match self {
            What::Training { workload, .. } => Cow::Borrowed(workload),
            What::Command(argv) => Cow::Owned(command_name(argv)),
        }
    }

    pub fn global_batch(&self) -> Option<u32> {
        match self {
            What::Training { global_batch, .. } => Some(*global_batch),
            What::Command(_) => None,
        }
    }
}

impl Asked {
    /// As a model is asked for it; `workload` is that of [`What::workload`].
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

impl Job {
    /// Where it is, if it has devices or is on its way off them.
    pub fn placed(&self) -> Option<&Placed> {
        match &self.state {
            State::Placed(placed) => Some(placed),
            State::Waiting { .. } | State::Ended { .. } => None,
        }
    }

    /// Running time times devices up to now. The account holds all but the phase that the job is in.
    pub fn device_time(&self, now: Nanos) -> Nanos {
        let devices = self.placed().map_or(0, |placed| placed.devices.len() as u64);
        Nanos(self.account.device_time.0 + self.in_phase(now).0 * devices)
    }

    /// Time in which it ran, up to now.
    pub fn running(&self, now: Nanos) -> Nanos {
        self.account.running + self.in_phase(now)
    }

    fn in_phase(&self, now: Nanos) -> Nanos {
        let running = self.placed().filter(|placed| placed.phase == Phase::Running);
        running.map_or(Nanos::ZERO, |placed| now.saturating_sub(placed.since))
    }
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

impl Phase {
    /// Whether the job is on its way off its devices or has left them: whoever is started there now does not share them with it.
    pub fn has_left(self) -> bool {
        matches!(self, Phase::Pausing | Phase::Paused | Phase::Stopping)
    }
}

/// Times add up to the time since arrival: `queued + switching + running + paused`.
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
