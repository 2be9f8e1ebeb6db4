//! The cluster that is real: jobs of a trace as launches on devices of this machine.
//!
//! It keeps the order of actions on a device, which is all that it decides: a launch that shall begin or go on where others are
//! leaving waits until they have left. Everything else is done by its [`Launcher`] and told to the engine as it happens.

pub mod checkpoints;
mod clock;
pub mod launcher;
mod news;
mod orders;
pub mod rigged;
pub mod torn;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt,
};

use rig::Member;
use schema::units::Nanos;

use self::{
    clock::Clock,
    launcher::{Launcher, Start},
    news::Fact,
};
use crate::{
    cluster::{Action, ActionError, Cluster, ClusterError, DeviceId, Happened, JobId},
    job::Asked,
};

pub struct Testbed<L> {
    launcher: L,
    clock: Clock,
    now: Nanos,
    arrivals: VecDeque<(Nanos, JobId)>,
    progress_every: Option<Nanos>,
    here: BTreeMap<JobId, Here>,
    /// How often each job was started.
    starts: BTreeMap<JobId, u32>,
    job_of: HashMap<Member, JobId>,
    /// For good, as far as this testbed is concerned.
    lost: BTreeSet<DeviceId>,
    /// Has happened and was not told yet: when, and what.
    pending: Vec<(Nanos, Fact)>,
    /// Launches whose end was told, and may not be written down yet.
    gone: Vec<Member>,
}

/// Where a run stands that is begun, or gone on with after its scheduler had died.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Time of the run in which a scheduler was there.
    pub at: Nanos,
    /// Jobs that have arrived, which are the first of the trace.
    pub arrived: usize,
    /// How often each job was started, where it was.
    pub starts: BTreeMap<JobId, u32>,
    /// What became of jobs that were on devices, and of devices that were lost, in the order in which it is to be told.
    pub left: Vec<Happened>,
}

/// A job that has devices, or is on its way to or off them.
struct Here {
    start: Start,
    launch: Option<Member>,
    doing: Doing,
    /// Who has to leave first.
    behind: BTreeSet<JobId>,
    /// The most that was told of its steps.
    told_steps: u64,
    /// When its launch began to run: progress is told at multiples from then on, while it trains.
    began: Option<Nanos>,
    next_progress: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    WaitsToStart,
    Starting,
    Running,
    Pausing,
    Paused,
    WaitsToResume,
    Resuming,
    Stopping,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::WaitsToStart => "waiting to start",
            Doing::Starting => "starting",
            Doing::Running => "running",
            Doing::Pausing => "pausing",
            Doing::Paused => "paused",
            Doing::WaitsToResume => "waiting to resume",
            Doing::Resuming => "resuming",
            Doing::Stopping => "stopping",
        })
    }
}

impl<L: Launcher> Testbed<L> {
    /// Of the jobs of a trace, in order of arrival.
    pub fn new(
        launcher: L,
        asked: &[Asked],
        progress_every: Option<Nanos>,
        standing: Standing,
    ) -> Testbed<L> {
        let Standing { at, arrived, starts, left } = standing;
        // Each a moment after the one before, so that they are told in this order.
        let left = (0..).map(|index| at + Nanos(index)).zip(left.into_iter().map(Fact::Left));
        Testbed {
            clock: Clock { began: launcher.now(), at },
            launcher,
            now: at,
            arrivals: asked.iter().skip(arrived).map(|job| (job.arrival, job.id)).collect(),
            progress_every,
            here: BTreeMap::new(),
            starts,
            job_of: HashMap::new(),
            lost: BTreeSet::new(),
            pending: left.collect(),
            gone: Vec::new(),
        }
    }

    /// Launches that are left, and who started them.
    pub fn into_launcher(self) -> L {
        self.launcher
    }

    /// All that was told is written down, so that nobody who goes on with the run needs what ended launches have left.
    pub fn all_is_written(&mut self) {
        for launch in self.gone.drain(..) {
            self.launcher.forget(launch);
        }
    }
}

impl<L: Launcher> Cluster for Testbed<L> {
    /// When the last event was told: an instant of the engine's has one time.
    fn now(&self) -> Nanos {
        self.now
    }

    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        self.obey(action).map_err(|why| ActionError { action: action.clone(), why })
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Happened, ClusterError> {
        // The engine asks for the next when it has written down the last.
        self.all_is_written();
        loop {
            // All of one instant is heard before any of it is told, and so is what the last actions brought about at once.
            while self.hear(Some(self.launcher.now()))? {}
            if let Some(happened) = self.tell() {
                return Ok(happened);
            }
            if deadline.is_some_and(|deadline| deadline <= self.now) {
                return Ok(Happened::Deadline);
            }
            let arrival = self.arrivals.front().map(|(at, _)| *at);
            let progress = self.here.values().filter_map(|here| here.next_progress).min();
            let until = [deadline, arrival, progress].into_iter().flatten().min();
            if until.is_none() && self.job_of.is_empty() {
                return Err(ClusterError::Nothing);
            }
            if !self.hear(until.map(|until| self.clock.of_launcher(until)))? && until.is_none() {
                return Err(anyhow::anyhow!("launches ended and nobody said how").into());
            }
        }
    }
}
