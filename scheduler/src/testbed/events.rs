//! The order in which the engine receives events: by time, and within one instant by [`Happened::rank`].

use rig::Member;
use schema::{rows::ErrorKind, units::Nanos};

use super::{
    JobPhase, PlacedJob, Testbed,
    clock::next_multiple,
    launcher::{Gone, LaunchUpdate, Launcher, LauncherEvent},
};
use crate::cluster::{ClusterError, DeviceId, Happened, JobId, Settled};

/// An event before the engine receives it. Its meaning is decided then, because an action may have come in between.
#[derive(Clone, Debug)]
pub(super) enum PendingEvent {
    Arrived(JobId),
    LaunchUpdate(Member, LaunchUpdate),
    /// A job was stopped before it was launched, while it waited for its devices.
    GivenUp(JobId),
    /// A job could not be launched. `number` is that of its start.
    NotStarted {
        job: JobId,
        number: u32,
        why: String,
    },
    ProgressDue(JobId),
    Lost(DeviceId),
    Left(Happened),
}

impl<L: Launcher> Testbed<L> {
    /// The next event for the engine.
    pub(super) fn next_event(&mut self) -> Option<Happened> {
        self.now = self.now.max(self.clock.of_run(self.launcher.now()));
        self.fall_due();
        loop {
            let key = |(index, (at, fact)): (usize, &(Nanos, PendingEvent))| {
                let happened = self.meaning(fact);
                let rank = happened.as_ref().map_or((0, 0), Happened::rank);
                ((*at, rank, index), happened)
            };
            let due = self.pending.iter().enumerate().filter(|(_, (_, fact))| !self.has_to_wait(fact));
            let first = due.map(key).min_by_key(|(order, _)| *order);
            let ((_, _, index), happened) = first?;
            if let Some(lost) = happened.as_ref().and_then(|happened| self.unknown_loss(happened)) {
                return Some(lost);
            }
            self.pending.remove(index);
            if let Some(happened) = happened {
                self.note(&happened);
                return Some(happened);
            }
        }
    }

    /// The loss of a device is an event once nothing runs on it any more.
    fn has_to_wait(&self, fact: &PendingEvent) -> bool {
        match fact {
            PendingEvent::Lost(device) => {
                self.placed.values().any(|placed| placed.start.devices.contains(device))
            }
            _ => false,
        }
    }

    /// The meaning of an event now; `None` if an action has made it obsolete.
    fn meaning(&self, fact: &PendingEvent) -> Option<Happened> {
        let settled = |job, now, steps| Some(Happened::Settled { job, now, steps });
        match fact {
            PendingEvent::Arrived(job) => Some(Happened::Arrived { job: *job }),
            PendingEvent::Left(happened) => Some(happened.clone()),
            PendingEvent::Lost(device) => Some(Happened::DeviceLost { device: *device }),
            PendingEvent::NotStarted { job, number, why } => {
                let placed = self.placed.get(job)?;
                let still_waits = placed.start.number == *number && placed.launch.is_none();
                still_waits.then(|| Happened::Failed {
                    job: *job,
                    steps: self.launcher.saved_steps(*job),
                    kind: ErrorKind::Start,
                    detail: why.clone(),
                })
            }
            PendingEvent::GivenUp(job) => match self.on(*job).ok()? {
                (JobPhase::Stopping, None) => {
                    settled(*job, Settled::Stopped, self.launcher.saved_steps(*job))
                }
                _ => None,
            },
            PendingEvent::ProgressDue(job) => match self.on(*job).ok()? {
                (JobPhase::Running, Some(launch)) => {
                    Some(Happened::Progress { job: *job, steps: self.launcher.steps(launch) })
                }
                _ => None,
            },
            PendingEvent::LaunchUpdate(launch, update) => {
                let job = *self.job_of.get(launch)?;
                let (phase, _) = self.on(job).ok()?;
                match (update, phase) {
                    (LaunchUpdate::Running, JobPhase::Starting)
                    | (LaunchUpdate::Resumed, JobPhase::Resuming) => {
                        settled(job, Settled::Running, self.launcher.steps(*launch))
                    }
                    (LaunchUpdate::Paused, JobPhase::Pausing) => {
                        settled(job, Settled::Paused, self.launcher.steps(*launch))
                    }
                    (LaunchUpdate::Gone(Gone::Finished), _) => {
                        Some(Happened::Finished { job, steps: self.launcher.steps(*launch) })
                    }
                    (LaunchUpdate::Gone(Gone::Stopped), _) => {
                        settled(job, Settled::Stopped, self.launcher.saved_steps(job))
                    }
                    (LaunchUpdate::Gone(Gone::Failed(kind, detail)), _) => Some(Happened::Failed {
                        job,
                        steps: self.launcher.saved_steps(job),
                        kind: *kind,
                        detail: detail.clone(),
                    }),
                    _ => None,
                }
            }
        }
    }

    /// Progress that was not reported and is lost with a launch. The engine receives it first.
    fn unknown_loss(&mut self, happened: &Happened) -> Option<Happened> {
        let (job, kept) = match *happened {
            Happened::Failed { job, steps, .. } | Happened::Settled { job, now: Settled::Stopped, steps } => {
                (job, steps)
            }
            _ => return None,
        };
        let placed = self.placed.get_mut(&job)?;
        let steps = self.launcher.steps(placed.launch?);
        let unknown = steps > placed.told_steps.max(kept);
        unknown.then(|| {
            placed.told_steps = steps;
            Happened::Progress { job, steps }
        })
    }

    /// The next arrival and reports of progress whose time has come.
    fn fall_due(&mut self) {
        // Arrivals come in order, so that one is pending at a time, even if several are due.
        let has_arrival = self.pending.iter().any(|(_, fact)| matches!(fact, PendingEvent::Arrived(_)));
        if !has_arrival && let Some(&(at, job)) = self.arrivals.front().filter(|(at, _)| *at <= self.now) {
            self.arrivals.pop_front();
            self.pending.push((at, PendingEvent::Arrived(job)));
        }
        let Some(every) = self.progress_every else { return };
        for (job, placed) in &mut self.placed {
            let Some(at) = placed.next_progress.filter(|at| *at <= self.now) else { continue };
            self.pending.push((at, PendingEvent::ProgressDue(*job)));
            // A late report does not bring several at once.
            placed.next_progress = Some(next_multiple(at, every, self.now));
        }
    }

    /// Updates the state of jobs by an event that the engine receives now.
    fn note(&mut self, happened: &Happened) {
        match *happened {
            Happened::Settled { job, now: Settled::Running, steps } => {
                let (now, every) = (self.now, self.progress_every);
                let Some(placed) = self.placed.get_mut(&job) else { return };
                (placed.phase, placed.told_steps) = (JobPhase::Running, steps);
                let began = *placed.began.get_or_insert(now);
                placed.next_progress = every.map(|every| next_multiple(began, every, now));
            }
            Happened::Settled { job, now: Settled::Paused, steps } => {
                if let Some(placed) = self.placed.get_mut(&job) {
                    (placed.phase, placed.told_steps) = (JobPhase::Paused, steps);
                }
                self.left(job);
            }
            Happened::Settled { job, now: Settled::Stopped, .. }
            | Happened::Finished { job, .. }
            | Happened::Failed { job, .. } => {
                if let Some(PlacedJob { launch: Some(launch), .. }) = self.placed.remove(&job) {
                    self.job_of.remove(&launch);
                    self.gone.push(launch);
                }
                self.left(job);
            }
            Happened::Progress { job, steps } => {
                if let Some(placed) = self.placed.get_mut(&job) {
                    placed.told_steps = steps;
                }
            }
            Happened::Arrived { .. }
            | Happened::DeviceLost { .. }
            | Happened::DeviceBack { .. }
            | Happened::Deadline => {}
        }
    }

    /// Receives the next event of the launcher, waiting at most until this time of its clock. Returns whether there was one.
    pub(super) fn receive(&mut self, until: Option<Nanos>) -> Result<bool, ClusterError> {
        let heard = self.launcher.next(until)?;
        let at = self.clock.of_run(self.launcher.now());
        match heard {
            None => return Ok(false),
            Some(LauncherEvent::Launch(launch, update)) => {
                self.pending.push((at, PendingEvent::LaunchUpdate(launch, update)))
            }
            Some(LauncherEvent::Lost(device)) => self.lose(at, device),
        }
        Ok(true)
    }

    /// The launcher ends the launches on the device. Jobs that still wait for it fail with it.
    fn lose(&mut self, at: Nanos, device: DeviceId) {
        self.lost.insert(device);
        for placed in self.placed.values() {
            if placed.launch.is_none() && placed.start.devices.contains(&device) {
                let (job, number) = (placed.start.job, placed.start.number);
                let why = "a device that it was to run on was lost".to_owned();
                self.pending.push((at, PendingEvent::NotStarted { job, number, why }));
            }
        }
        self.pending.push((at, PendingEvent::Lost(device)));
    }
}
