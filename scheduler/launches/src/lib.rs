//! The cluster of jobs that a launcher launches: processes on the devices of this machine, or simulated launches.
//!
//! It decides the order of actions on a device: a launch that is to begin or to resume where others are leaving waits until they
//! have left. It lets jobs arrive and reports their progress at intervals. Its [`Launcher`] does everything else, and the engine
//! receives each event as it happens.

mod actions;
mod clock;
mod events;
pub mod fast_forward;
pub mod launcher;
pub mod machine;
mod pending_events;
pub mod pending_releases;
mod placed_jobs;
pub mod recorded;
mod reported;
pub mod simulated;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::{
    cluster::{Action, ActionError, Cluster, ClusterError, ClusterEvent, DeviceId, JobId},
    job::JobRequest,
};
use schema::units::Nanos;

pub(crate) use self::placed_jobs::take_off;
use self::{
    clock::Clock,
    launcher::{LaunchId, Launcher},
    pending_events::PendingEvents,
    pending_releases::PendingReleases,
    placed_jobs::PlacedJobs,
};

/// See the [module](self).
pub struct LaunchCluster<L> {
    launcher: L,
    clock: Clock,
    now: Nanos,
    arrivals: VecDeque<(Nanos, JobId)>,
    progress_every: Option<Nanos>,
    placed: PlacedJobs,
    releases: PendingReleases,
    /// Lost devices, until they come back.
    lost: BTreeSet<DeviceId>,
    /// Losses of devices that jobs have not left yet, with their times.
    unreported_losses: Vec<(Nanos, DeviceId)>,
    /// Events that the engine has not received yet. An action in between may make one obsolete.
    pending: PendingEvents,
    /// The times of the next reports of progress.
    reports: BTreeSet<(Nanos, JobId)>,
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

impl<L: Launcher> LaunchCluster<L> {
    /// Of the jobs of a trace, in order of arrival.
    pub fn new(
        launcher: L,
        asked: &[JobRequest],
        progress_every: Option<Nanos>,
        resume: ResumePoint,
    ) -> LaunchCluster<L> {
        let ResumePoint { at, arrived, starts, left } = resume;
        let mut pending = PendingEvents::default();
        for (index, event) in (0..).zip(left) {
            // Each is a nanosecond after the one before, which keeps their order.
            pending.add(at + Nanos(index), event, None);
        }
        LaunchCluster {
            clock: Clock { began: launcher.now(), at },
            launcher,
            now: at,
            arrivals: asked.iter().skip(arrived).map(|job| (job.arrival, job.id)).collect(),
            progress_every,
            placed: PlacedJobs::new(asked.len(), &starts),
            releases: PendingReleases::default(),
            lost: BTreeSet::new(),
            unreported_losses: Vec::new(),
            pending,
            reports: BTreeSet::new(),
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

impl<L: Launcher> Cluster for LaunchCluster<L> {
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
            let report = self.reports.first().map(|(at, _)| *at);
            let until = [deadline, arrival, report].into_iter().flatten().min();
            if !self.receive(until.map(|until| self.clock.of_launcher(until)))? && until.is_none() {
                if self.placed.have_launches() {
                    return Err(anyhow::anyhow!("launches ended without an event that says how").into());
                }
                return Err(ClusterError::Nothing);
            }
        }
    }
}
