//! A launcher that skips the steps of jobs whose step time is known, and advances the clock of the run by the time that they would
//! have taken.
//!
//! Source: fast-forwarding in Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018, section 5.
//!
//! Processes train on meanwhile: a jump changes the clock and the counts of steps, and nothing else. A jump begins when each job
//! that trains has a measured window, and ends at the next event at the latest. No window is used after anything has changed on the
//! machine: a launch began or ended, was paused or resumed, or has another share of the time, or a device ran below its clock. All
//! devices of a testbed are in one machine, so that a change on one of them begins the windows of all jobs anew. A job that is
//! resumed is measured again, too, because its caches and its neighbours may differ from those of before. Each launch therefore
//! executes its start, its warm-up, a window for each set of jobs beside it, its checkpoints, and its last steps.

mod hindrance;
mod jumps;
mod skipped;
mod skipping;
mod window;

use std::collections::BTreeMap;

use engine::cluster::{ClusterError, ClusterEvent, JobId, Settled};
use formats::{decision::Share, rows::Skip};
use record::manifest::FastForward as Rule;
use schema::units::Nanos;

use self::window::Window;
pub use self::{
    hindrance::{Hindrance, Waited},
    skipped::{SkippedOfJob, skipped_of_jobs},
    skipping::{Skipping, TimedStep},
};
use crate::launcher::{LaunchId, Launcher, StartRequest, Staying};

/// The interval between looks at the steps of jobs while a jump is not possible.
const LOOK_EVERY: Nanos = Nanos(100_000_000);

/// Records the rows of a jump.
pub type SkipLog<'a> = Box<dyn FnMut(&[Skip]) -> anyhow::Result<()> + 'a>;

/// See the [module](self). Its clock is that of the launcher inside, plus the time that was skipped.
pub struct FastForward<'a, L> {
    inner: L,
    rule: Rule,
    skipped: Nanos,
    launches: BTreeMap<LaunchId, WatchedLaunch>,
    /// The last time below the clock of a device that windows have been begun anew for.
    throttled_at: Option<Nanos>,
    next_jump: u64,
    /// The time of the launcher at which this scheduler began, and the time of the run.
    began: (Nanos, Nanos),
    log: SkipLog<'a>,
    waited: Waited,
}

struct WatchedLaunch {
    job: JobId,
    doing: Doing,
    share: Share,
    window: Window,
    /// The part of a step that jumps have skipped beyond whole steps.
    carry: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It begins, is paused, is resumed or leaves.
    Switches,
    Trains,
    IdleTracker,
}

impl<'a, L: Skipping> FastForward<'a, L> {
    /// Of a run whose time is `at`, and which has had this number of jumps.
    pub fn new(inner: L, rule: Rule, at: Nanos, jumps: u64, log: SkipLog<'a>) -> FastForward<'a, L> {
        FastForward {
            began: (inner.now(), at),
            throttled_at: inner.last_throttled(),
            inner,
            rule,
            skipped: Nanos::ZERO,
            launches: BTreeMap::new(),
            next_jump: jumps,
            log,
            waited: Waited::default(),
        }
    }

    /// The launcher inside, and why this scheduler waited for steps instead of skipping them.
    pub fn into_parts(self) -> (L, Waited) {
        (self.inner, self.waited)
    }

    /// Something has changed on the machine.
    fn measure_anew(&mut self) {
        let now = self.now();
        self.launches.values_mut().for_each(|launch| launch.window = Window::from(now));
    }

    /// Updates the windows of the launches that train.
    fn observe(&mut self) {
        let throttled_at = self.inner.last_throttled();
        if throttled_at > self.throttled_at {
            self.throttled_at = throttled_at;
            self.measure_anew();
        }
        for (&member, launch) in &mut self.launches {
            let steps = self.inner.take_steps(member);
            if launch.doing == Doing::Trains {
                let steps = steps.iter().map(|step| TimedStep { end: step.end + self.skipped, ..*step });
                steps.for_each(|step| launch.window.add(step, &self.rule));
            }
        }
    }

    fn enter(&mut self, launch: LaunchId, doing: Doing) {
        if let Some(of) = self.launches.get_mut(&launch) {
            of.doing = doing;
        }
        self.measure_anew();
    }

    fn note(&mut self, happened: &ClusterEvent) {
        let doing = match happened {
            ClusterEvent::Settled { now: Settled::Running, .. } => Some(Doing::Trains),
            ClusterEvent::Settled { now: Settled::Paused, .. } => Some(Doing::IdleTracker),
            _ => None,
        };
        let of_job = |launch: &WatchedLaunch| Some(launch.job) == happened.job();
        match doing {
            Some(doing) => {
                let launches = self.launches.values_mut().filter(|launch| of_job(launch));
                launches.for_each(|launch| launch.doing = doing);
            }
            None => self.launches.retain(|_, launch| !of_job(launch)),
        }
        self.measure_anew();
    }
}

impl<L: Skipping> Launcher for FastForward<'_, L> {
    fn now(&self) -> Nanos {
        self.inner.now() + self.skipped
    }

    fn check(&mut self, start: &StartRequest) -> Result<(), String> {
        self.inner.check(start)
    }

    fn check_company(&self, start: &StartRequest, staying: &Staying<'_>) -> Result<(), String> {
        self.inner.check_company(start, staying)
    }

    fn start(&mut self, start: &StartRequest) -> Result<LaunchId, String> {
        let launch = self.inner.start(start)?;
        let of = WatchedLaunch {
            job: start.job,
            doing: Doing::Switches,
            share: start.share,
            window: Window::from(self.now()),
            carry: 0.0,
        };
        self.launches.insert(launch, of);
        self.measure_anew();
        Ok(launch)
    }

    fn pause(&mut self, launch: LaunchId) -> Result<(), String> {
        self.inner.pause(launch)?;
        self.enter(launch, Doing::Switches);
        Ok(())
    }

    fn resume(&mut self, launch: LaunchId) {
        self.inner.resume(launch);
        self.enter(launch, Doing::Switches);
    }

    fn stop(&mut self, launch: LaunchId, checkpoint: bool) -> Result<(), String> {
        self.inner.stop(launch, checkpoint)?;
        self.enter(launch, Doing::Switches);
        Ok(())
    }

    fn throttle(&mut self, launch: LaunchId, share: Share) -> Result<(), String> {
        self.inner.throttle(launch, share)?;
        if let Some(of) = self.launches.get_mut(&launch) {
            of.share = share;
        }
        self.measure_anew();
        Ok(())
    }

    fn steps(&mut self, launch: LaunchId) -> u64 {
        self.inner.steps(launch)
    }

    fn take_loss(&mut self, launch: LaunchId) -> Option<f64> {
        self.inner.take_loss(launch)
    }

    fn saved_steps(&self, job: JobId) -> u64 {
        self.inner.saved_steps(job)
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<ClusterEvent>, ClusterError> {
        loop {
            // What has happened by now comes before a jump, and launches are granted their next work.
            let mut event = self.inner.next(Some(self.inner.now()))?;
            let is_over = deadline.is_some_and(|deadline| deadline <= self.now());
            if event.is_none() && !is_over {
                self.observe();
                match self.jump(deadline)? {
                    None => continue,
                    Some(hindrance) => event = self.wait(deadline, hindrance)?,
                }
            }
            if let Some(happened) = &event {
                self.note(happened);
            }
            let none_can_come = deadline.is_none() && self.launches.is_empty();
            if event.is_some() || is_over || none_can_come {
                return Ok(event);
            }
        }
    }

    fn forget(&mut self, launch: LaunchId) {
        self.inner.forget(launch);
    }

    fn discard(&mut self, job: JobId) {
        self.inner.discard(job);
    }
}

impl<L: Skipping> FastForward<'_, L> {
    /// Lets the launches train for a while, because no jump is possible.
    fn wait(
        &mut self,
        deadline: Option<Nanos>,
        hindrance: Hindrance,
    ) -> Result<Option<ClusterEvent>, ClusterError> {
        let began = self.inner.now();
        let look = self.launches.values().any(|launch| launch.doing != Doing::IdleTracker);
        let until = [deadline.map(|at| at.saturating_sub(self.skipped)), look.then(|| began + LOOK_EVERY)];
        let event = self.inner.next(until.into_iter().flatten().min())?;
        self.waited.add(hindrance, self.inner.now() - began);
        Ok(event)
    }
}
