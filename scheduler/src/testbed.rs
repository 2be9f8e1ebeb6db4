//! The real cluster: jobs of a trace as launches on the devices of this machine.
//!
//! It decides one thing, the order of actions on a device: a launch that is to begin or to resume where others are leaving waits
//! until they have left. Its [`Launcher`] does everything else, and the engine receives each event as it happens.

mod actions;
pub mod checkpoints;
mod clock;
mod events;
pub mod fast_forward;
pub mod launcher;
pub mod process;
pub mod recovery;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use schema::units::Nanos;

use self::{
    clock::Clock,
    launcher::{LaunchId, Launcher, StartRequest},
};
use crate::{
    cluster::{Action, ActionError, Cluster, ClusterError, ClusterEvent, DeviceId, JobId},
    job::{JobRequest, Phase},
    pending_releases::PendingReleases,
    reported::ReportedSteps,
};

pub struct Testbed<L> {
    launcher: L,
    clock: Clock,
    now: Nanos,
    arrivals: VecDeque<(Nanos, JobId)>,
    progress_every: Option<Nanos>,
    placed: BTreeMap<JobId, PlacedJob>,
    releases: PendingReleases,
    /// The number of starts of each job.
    starts: BTreeMap<JobId, u32>,
    /// Lost devices, which do not come back within this run of the scheduler.
    lost: BTreeSet<DeviceId>,
    /// Events that the engine has not received yet, with their times. An action in between may make one obsolete.
    pending: Vec<(Nanos, ClusterEvent)>,
    /// Launches whose end the engine has received, and may not have written down yet.
    gone: Vec<LaunchId>,
    /// Jobs that the policy ended and that have left. The engine may not have written that down yet.
    over: Vec<JobId>,
}

/// The state from which a run begins, or is resumed after its scheduler has died.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResumePoint {
    /// The time of the run, without the time in which there was no scheduler.
    pub at: Nanos,
    /// Jobs that have arrived, which are the first of the trace.
    pub arrived: usize,
    /// The number of starts of each job that was started.
    pub starts: BTreeMap<JobId, u32>,
    /// The events of jobs that were on devices, and of devices that were lost, in the order in which the engine receives them.
    pub left: Vec<ClusterEvent>,
}

/// A job that has devices, or is on its way to or off them.
struct PlacedJob {
    start: StartRequest,
    launch: Option<LaunchId>,
    /// The phase in which the engine sees the job. A job that waits for others to leave is starting or resuming.
    phase: Phase,
    reported: ReportedSteps,
    /// When its launch began to run. While it trains, progress is reported at multiples of the interval from then on.
    began: Option<Nanos>,
    next_progress: Option<Nanos>,
}

impl<L: Launcher> Testbed<L> {
    /// Of the jobs of a trace, in order of arrival.
    pub fn new(
        launcher: L,
        asked: &[JobRequest],
        progress_every: Option<Nanos>,
        resume: ResumePoint,
    ) -> Testbed<L> {
        let ResumePoint { at, arrived, starts, left } = resume;
        // Each is a nanosecond after the one before, which keeps their order.
        let left = (0..).map(|index| at + Nanos(index)).zip(left);
        Testbed {
            clock: Clock { began: launcher.now(), at },
            launcher,
            now: at,
            arrivals: asked.iter().skip(arrived).map(|job| (job.arrival, job.id)).collect(),
            progress_every,
            placed: BTreeMap::new(),
            releases: PendingReleases::default(),
            starts,
            lost: BTreeSet::new(),
            pending: left.collect(),
            gone: Vec::new(),
            over: Vec::new(),
        }
    }

    /// The launches that are left, with their launcher.
    pub fn into_launcher(self) -> L {
        self.launcher
    }

    /// All events that the engine has received are written down, so that resuming the run does not need the files of ended
    /// launches.
    pub fn all_is_written(&mut self) {
        for launch in self.gone.drain(..) {
            self.launcher.forget(launch);
        }
        for job in self.over.drain(..) {
            self.launcher.discard(job);
        }
    }
}

impl<L: Launcher> Cluster for Testbed<L> {
    /// The time of the last event.
    fn now(&self) -> Nanos {
        self.now
    }

    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        self.obey(action).map_err(|why| ActionError { action: action.clone(), why })
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError> {
        // The engine asks for the next events when it has written down the last.
        self.all_is_written();
        loop {
            let events = self.events_of_now()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if deadline.is_some_and(|deadline| deadline <= self.now) {
                return Ok(vec![ClusterEvent::Deadline]);
            }
            let arrival = self.arrivals.front().map(|(at, _)| *at);
            let progress = self.placed.values().filter_map(|placed| placed.next_progress).min();
            let until = [deadline, arrival, progress].into_iter().flatten().min();
            if until.is_none() && self.placed.values().all(|placed| placed.launch.is_none()) {
                return Err(ClusterError::Nothing);
            }
            if !self.receive(until.map(|until| self.clock.of_launcher(until)))? && until.is_none() {
                return Err(anyhow::anyhow!("launches ended without an event that says how").into());
            }
        }
    }
}
