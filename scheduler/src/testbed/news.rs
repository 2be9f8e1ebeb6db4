//! What has happened, and what of it is told when: in order of time, and of one instant in that of [`Happened::rank`].

use rig::Member;
use schema::{rows::ErrorKind, units::Nanos};

use super::{
    Doing, Here, Testbed,
    clock::next_multiple,
    launcher::{Gone, Launcher, News, Told},
};
use crate::cluster::{ClusterError, DeviceId, Happened, JobId, Settled};

/// Something that happened. What it means is decided when it is told, as an action may have come in between.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    Arrived(JobId),
    Told(Member, Told),
    /// A job that was never launched, as it had to wait for its devices, does not get them any more.
    GivenUp(JobId),
    /// Nor does one that cannot be launched there; `number` is that of its start.
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
    /// The next to be told of what has happened.
    pub(super) fn tell(&mut self) -> Option<Happened> {
        self.now = self.now.max(self.clock.of_run(self.launcher.now()));
        self.fall_due();
        loop {
            let key = |(index, (at, fact)): (usize, &(Nanos, Fact))| {
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

    /// A device counts as lost when nothing runs on it any more.
    fn has_to_wait(&self, fact: &Fact) -> bool {
        match fact {
            Fact::Lost(device) => self.here.values().any(|here| here.start.devices.contains(device)),
            _ => false,
        }
    }

    /// What a fact means now; nothing where an action has overtaken it.
    fn meaning(&self, fact: &Fact) -> Option<Happened> {
        let settled = |job, now, steps| Some(Happened::Settled { job, now, steps });
        match fact {
            Fact::Arrived(job) => Some(Happened::Arrived { job: *job }),
            Fact::Left(happened) => Some(happened.clone()),
            Fact::Lost(device) => Some(Happened::DeviceLost { device: *device }),
            Fact::NotStarted { job, number, why } => {
                let here = self.here.get(job)?;
                let still_waits = here.start.number == *number && here.launch.is_none();
                still_waits.then(|| Happened::Failed {
                    job: *job,
                    steps: self.launcher.saved_steps(*job),
                    kind: ErrorKind::Start,
                    detail: why.clone(),
                })
            }
            Fact::GivenUp(job) => match self.on(*job).ok()? {
                (Doing::Stopping, None) => settled(*job, Settled::Stopped, self.launcher.saved_steps(*job)),
                _ => None,
            },
            Fact::ProgressDue(job) => match self.on(*job).ok()? {
                (Doing::Running, Some(launch)) => {
                    Some(Happened::Progress { job: *job, steps: self.launcher.steps(launch) })
                }
                _ => None,
            },
            Fact::Told(launch, told) => {
                let job = *self.job_of.get(launch)?;
                let (doing, _) = self.on(job).ok()?;
                match (told, doing) {
                    (Told::Running, Doing::Starting) | (Told::Resumed, Doing::Resuming) => {
                        settled(job, Settled::Running, self.launcher.steps(*launch))
                    }
                    (Told::Paused, Doing::Pausing) => {
                        settled(job, Settled::Paused, self.launcher.steps(*launch))
                    }
                    (Told::Gone(Gone::Finished), _) => {
                        Some(Happened::Finished { job, steps: self.launcher.steps(*launch) })
                    }
                    (Told::Gone(Gone::Stopped), _) => {
                        settled(job, Settled::Stopped, self.launcher.saved_steps(job))
                    }
                    (Told::Gone(Gone::Failed(kind, detail)), _) => Some(Happened::Failed {
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

    /// The steps that are lost with a launch, where nobody has heard of them: they are progress first.
    fn unknown_loss(&mut self, happened: &Happened) -> Option<Happened> {
        let (job, kept) = match *happened {
            Happened::Failed { job, steps, .. } | Happened::Settled { job, now: Settled::Stopped, steps } => {
                (job, steps)
            }
            _ => return None,
        };
        let here = self.here.get_mut(&job)?;
        let steps = self.launcher.steps(here.launch?);
        let unknown = steps > here.told_steps.max(kept);
        unknown.then(|| {
            here.told_steps = steps;
            Happened::Progress { job, steps }
        })
    }

    /// The next arrival and reports of progress whose time has come.
    fn fall_due(&mut self) {
        // They are told in order, so that one is enough, however many arrive at once.
        let has_arrival = self.pending.iter().any(|(_, fact)| matches!(fact, Fact::Arrived(_)));
        if !has_arrival && let Some(&(at, job)) = self.arrivals.front().filter(|(at, _)| *at <= self.now) {
            self.arrivals.pop_front();
            self.pending.push((at, Fact::Arrived(job)));
        }
        let Some(every) = self.progress_every else { return };
        for (job, here) in &mut self.here {
            let Some(at) = here.next_progress.filter(|at| *at <= self.now) else { continue };
            self.pending.push((at, Fact::ProgressDue(*job)));
            // One that comes too late does not bring several at once.
            here.next_progress = Some(next_multiple(at, every, self.now));
        }
    }

    /// What is different now that this is told.
    fn note(&mut self, happened: &Happened) {
        match *happened {
            Happened::Settled { job, now: Settled::Running, steps } => {
                let (now, every) = (self.now, self.progress_every);
                let Some(here) = self.here.get_mut(&job) else { return };
                (here.doing, here.told_steps) = (Doing::Running, steps);
                let began = *here.began.get_or_insert(now);
                here.next_progress = every.map(|every| next_multiple(began, every, now));
            }
            Happened::Settled { job, now: Settled::Paused, steps } => {
                if let Some(here) = self.here.get_mut(&job) {
                    (here.doing, here.told_steps) = (Doing::Paused, steps);
                }
                self.left(job);
            }
            Happened::Settled { job, now: Settled::Stopped, .. }
            | Happened::Finished { job, .. }
            | Happened::Failed { job, .. } => {
                if let Some(Here { launch: Some(launch), .. }) = self.here.remove(&job) {
                    self.job_of.remove(&launch);
                    self.gone.push(launch);
                }
                self.left(job);
            }
            Happened::Progress { job, steps } => {
                if let Some(here) = self.here.get_mut(&job) {
                    here.told_steps = steps;
                }
            }
            Happened::Arrived { .. }
            | Happened::DeviceLost { .. }
            | Happened::DeviceBack { .. }
            | Happened::Deadline => {}
        }
    }

    /// Hears the next that the launcher has to tell, at most until this time of its own; whether there was something.
    pub(super) fn hear(&mut self, until: Option<Nanos>) -> Result<bool, ClusterError> {
        let heard = self.launcher.next(until)?;
        let at = self.clock.of_run(self.launcher.now());
        match heard {
            None => return Ok(false),
            Some(News::Launch(launch, told)) => self.pending.push((at, Fact::Told(launch, told))),
            Some(News::Lost(device)) => self.lose(at, device),
        }
        Ok(true)
    }

    /// The launcher ends whatever was launched there; who still waits for the device fails with it.
    fn lose(&mut self, at: Nanos, device: DeviceId) {
        self.lost.insert(device);
        for here in self.here.values() {
            if here.launch.is_none() && here.start.devices.contains(&device) {
                let (job, number) = (here.start.job, here.start.number);
                let why = "a device that it was to run on was lost".to_owned();
                self.pending.push((at, Fact::NotStarted { job, number, why }));
            }
        }
        self.pending.push((at, Fact::Lost(device)));
    }
}
