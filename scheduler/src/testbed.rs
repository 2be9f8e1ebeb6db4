//! The cluster that is real: jobs of a trace as launches on devices of this machine.
//!
//! It keeps the order of actions on a device, which is all that it decides: a launch that shall begin or go on where others are
//! leaving waits until they have left. Everything else is done by its [`Launcher`] and told to the engine as it happens.

pub mod checkpoints;
pub mod launcher;
pub mod rigged;
pub mod torn;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use profiler::rig::Member;
use schema::{rows::ErrorKind, units::Nanos};

use self::launcher::{Gone, Launcher, Start, Told};
use crate::{
    cluster::{Action, ActionError, Cluster, ClusterError, DeviceId, Happened, JobId, Settled},
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
    /// Has happened and was not told yet: when, and what.
    pending: Vec<(Nanos, Fact)>,
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
    /// What became of those that were on devices, in the order in which it is to be told.
    pub left: Vec<Happened>,
}

/// The run's time on the launcher's clock. It stands still while no scheduler is there.
#[derive(Clone, Copy, Debug)]
struct Clock {
    began: Nanos,
    at: Nanos,
}

impl Clock {
    fn of_run(self, launcher: Nanos) -> Nanos {
        self.at + launcher.saturating_sub(self.began)
    }

    fn of_launcher(self, run: Nanos) -> Nanos {
        self.began + run.saturating_sub(self.at)
    }
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

/// Something that happened. What it means is decided when it is told, as an action may have come in between.
#[derive(Clone, Debug)]
enum Fact {
    Arrived(JobId),
    Told(Member, Told),
    /// A job that was never launched, as it had to wait for its devices, does not get them any more.
    GivenUp(JobId),
    NotStarted(JobId, String),
    ProgressDue(JobId),
    Left(Happened),
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
            pending: left.collect(),
        }
    }

    pub fn launcher(&self) -> &L {
        &self.launcher
    }

    /// Launches that are left, and who started them.
    pub fn into_launcher(self) -> L {
        self.launcher
    }

    fn start(&mut self, start: Start) -> Result<(), String> {
        let job = start.job;
        if self.here.contains_key(&job) {
            return Err("it has devices already".into());
        }
        self.launcher.check(&start)?;
        let told_steps = self.launcher.saved_steps(job);
        let behind = self.leaving(&start.devices, job);
        let doing = Doing::WaitsToStart;
        self.here.insert(
            job,
            Here { start, launch: None, doing, behind, told_steps, began: None, next_progress: None },
        );
        *self.starts.entry(job).or_default() += 1;
        self.let_in(job);
        Ok(())
    }

    fn pause(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job)? {
            (Doing::Running, Some(launch)) => self.launcher.pause(launch)?,
            (doing, _) => return Err(format!("it is {doing:?} and cannot be paused")),
        }
        self.set(job, Doing::Pausing);
        Ok(())
    }

    fn resume(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job)? {
            (Doing::Paused, _) => {}
            (doing, _) => return Err(format!("it is {doing:?} and cannot be resumed")),
        }
        let devices = self.here.get(&job).map(|here| here.start.devices.clone()).unwrap_or_default();
        let behind = self.leaving(&devices, job);
        if let Some(here) = self.here.get_mut(&job) {
            (here.doing, here.behind) = (Doing::WaitsToResume, behind);
        }
        self.let_in(job);
        Ok(())
    }

    fn stop(&mut self, job: JobId, checkpoint: bool) -> Result<(), String> {
        match self.on(job)? {
            (Doing::Stopping, _) => return Err("it is stopping already".into()),
            (_, Some(launch)) => self.launcher.stop(launch, checkpoint)?,
            (_, None) => self.pending.push((self.now, Fact::GivenUp(job))),
        }
        self.set(job, Doing::Stopping);
        Ok(())
    }

    fn on(&self, job: JobId) -> Result<(Doing, Option<Member>), String> {
        let here = self.here.get(&job).ok_or("it has no devices")?;
        Ok((here.doing, here.launch))
    }

    /// From now on it waits for nobody and does this.
    fn set(&mut self, job: JobId, doing: Doing) {
        if let Some(here) = self.here.get_mut(&job) {
            (here.doing, here.next_progress) = (doing, None);
            here.behind.clear();
        }
    }

    /// Those that are on their way off one of these devices.
    fn leaving(&self, devices: &[DeviceId], joining: JobId) -> BTreeSet<JobId> {
        let leaves = |here: &Here| matches!(here.doing, Doing::Pausing | Doing::Stopping);
        let there = |here: &Here| here.start.devices.iter().any(|device| devices.contains(device));
        let leaving = self.here.iter().filter(|(job, here)| **job != joining && leaves(here) && there(here));
        leaving.map(|(job, _)| *job).collect()
    }

    /// Lets a job on its devices, if nobody has to leave before.
    fn let_in(&mut self, job: JobId) {
        let Some(here) = self.here.get_mut(&job) else { return };
        if !here.behind.is_empty() {
            return;
        }
        match (here.doing, here.launch) {
            (Doing::WaitsToStart, _) => match self.launcher.start(&here.start) {
                Ok(launch) => {
                    (here.doing, here.launch) = (Doing::Starting, Some(launch));
                    self.job_of.insert(launch, job);
                }
                Err(why) => self.pending.push((self.now, Fact::NotStarted(job, why))),
            },
            (Doing::WaitsToResume, Some(launch)) => {
                here.doing = Doing::Resuming;
                self.launcher.resume(launch);
            }
            _ => {}
        }
    }

    /// A job has left its devices: whoever waits for that alone begins.
    fn left(&mut self, job: JobId) {
        let waiting: Vec<JobId> =
            self.here.iter_mut().filter_map(|(id, here)| here.behind.remove(&job).then_some(*id)).collect();
        waiting.into_iter().for_each(|id| self.let_in(id));
    }

    /// What a fact means now; nothing where an action has overtaken it.
    fn meaning(&self, fact: &Fact) -> Option<Happened> {
        let settled = |job, now, steps| Some(Happened::Settled { job, now, steps });
        match fact {
            Fact::Arrived(job) => Some(Happened::Arrived { job: *job }),
            Fact::Left(happened) => Some(happened.clone()),
            Fact::NotStarted(job, why) => Some(Happened::Failed {
                job: *job,
                steps: self.launcher.saved_steps(*job),
                kind: ErrorKind::Start,
                detail: why.clone(),
            }),
            Fact::GivenUp(job) => settled(*job, Settled::Stopped, self.launcher.saved_steps(*job)),
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

    /// The next to be told of what has happened, in order of time, and of one instant in that of [`Happened::rank`].
    fn tell(&mut self) -> Option<Happened> {
        self.now = self.now.max(self.clock.of_run(self.launcher.now()));
        self.fall_due();
        loop {
            let key = |(index, (at, fact)): (usize, &(Nanos, Fact))| {
                let happened = self.meaning(fact);
                let rank = happened.as_ref().map_or((0, 0), Happened::rank);
                ((*at, rank, index), happened)
            };
            let first = self.pending.iter().enumerate().map(key).min_by_key(|(order, _)| *order);
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

    /// The steps that are lost with a launch, where nobody has heard of them: they are progress first.
    fn unknown_loss(&mut self, happened: &Happened) -> Option<Happened> {
        let (job, kept) = match happened {
            Happened::Failed { job, steps, .. } => (*job, *steps),
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

    /// Arrivals and reports of progress whose time has come.
    fn fall_due(&mut self) {
        while let Some(&(at, job)) = self.arrivals.front().filter(|(at, _)| *at <= self.now) {
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
    fn hear(&mut self, until: Option<Nanos>) -> Result<bool, ClusterError> {
        let heard = self.launcher.next(until)?;
        let at = self.clock.of_run(self.launcher.now());
        let was_something = heard.is_some();
        self.pending.extend(heard.map(|(launch, told)| (at, Fact::Told(launch, told))));
        Ok(was_something)
    }
}

/// The first instant after `now` that is a multiple of `every` after `began`.
fn next_multiple(began: Nanos, every: Nanos, now: Nanos) -> Nanos {
    let every = every.0.max(1);
    began + Nanos((now.saturating_sub(began).0 / every + 1) * every)
}

impl<L: Launcher> Cluster for Testbed<L> {
    /// When the last event was told: an instant of the engine's has one time.
    fn now(&self) -> Nanos {
        self.now
    }

    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        let outcome = match action {
            Action::Start { job, devices, cpus, plan } => self.start(Start {
                job: *job,
                number: self.starts.get(job).copied().unwrap_or(0),
                devices: devices.clone(),
                cpus: *cpus,
                plan: *plan,
            }),
            Action::Pause { job } => self.pause(*job),
            Action::Resume { job } => self.resume(*job),
            Action::Stop { job, checkpoint } => self.stop(*job, *checkpoint),
        };
        outcome.map_err(|why| ActionError { action: action.clone(), why })
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Happened, ClusterError> {
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
