//! A launcher without processes: the behaviour of its launches is computed, on a clock that jumps.
//!
//! It looks through all launches at each event, and is compared with the simulated launcher, which does not. It has what tests need
//! beside: faults at given times, and steps that are skipped.

mod faults;
mod pace;
mod skipping;

use std::collections::{BTreeMap, VecDeque};

use engine::{
    cluster::{ClusterError, ClusterEvent, DeviceId, JobId, Settled, Share},
    job::JobRequest,
    topology::Topology,
};
use launches::launcher::{LaunchId, Launcher, StartRequest};
use model::{
    Throughput,
    switch_costs::{Cost, SwitchCosts},
};
use record::suspension::Suspension;
use schema::{plan::Plan, sharing::Sharing, units::Nanos};

use self::skipping::Timed;

/// The accuracy of sums of fractions of a step.
const ROUNDING: f64 = 1e-6;

pub(crate) struct Scripted<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) asked: &'a [JobRequest],
    pub(crate) truth: &'a dyn Throughput,
    pub(crate) costs: &'a dyn SwitchCosts,
    pub(crate) sharing: Sharing,
    pub(crate) suspension: Suspension,
    now: Nanos,
    launches: Vec<ScriptedLaunch>,
    saved: BTreeMap<JobId, u64>,
    /// The interval between checkpoints of a launch, counted from the time at which it began to train.
    pub(crate) checkpoint_every: Option<Nanos>,
    /// Jobs whose launches crash, with the times, in order.
    pub(crate) crashes: VecDeque<(Nanos, JobId)>,
    /// Devices that are lost, with the times, in order.
    pub(crate) losses: VecDeque<(Nanos, DeviceId)>,
    /// The time that each launch on a lost device takes to end, one after another.
    pub(crate) falls_for: Nanos,
    /// Launches that end with a lost device and are not yet reported, with the times of their ends.
    fall: VecDeque<(Nanos, LaunchId)>,
    /// The shares that launches began with or were told, with their times.
    pub(crate) shares: Vec<(Nanos, LaunchId, Share)>,
    /// Steps that launches have executed.
    pub(crate) executed: u64,
    /// The time that a fast-forwarded run has skipped.
    skipped: Nanos,
    /// The times at which a device ran below its clock.
    pub(crate) throttled: Vec<Nanos>,
    /// A job that reports no number of steps that are left.
    pub(crate) endless: Option<JobId>,
}

struct ScriptedLaunch {
    job: JobId,
    devices: Vec<DeviceId>,
    plan: Option<Plan>,
    cpus: Option<u16>,
    steps: f64,
    since: Nanos,
    step_ns: f64,
    share: Share,
    doing: Doing,
    /// The time at which it began to train.
    began: Option<Nanos>,
    /// The time of its next checkpoint, if it goes on to train.
    saves_at: Option<Nanos>,
    /// Its steps whose loss was taken.
    losses_until: u64,
    timed: Timed,
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    /// An activity that ends at this time.
    Switches {
        until: Nanos,
        then: Then,
    },
    Trains,
    /// Runs to the end of a step, after this number of steps.
    Leaves {
        after: u64,
        then: Then,
    },
    IdleTracker,
    IsGone,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Run,
    Rest,
    Go { checkpoint: bool },
}

impl ScriptedLaunch {
    fn trains(&self) -> bool {
        matches!(self.doing, Doing::Trains | Doing::Leaves { .. })
    }
}

fn whole(steps: f64) -> u64 {
    (steps + ROUNDING) as u64
}

impl<'a> Scripted<'a> {
    pub(crate) fn new(
        topology: &'a Topology,
        asked: &'a [JobRequest],
        truth: &'a dyn Throughput,
        costs: &'a dyn SwitchCosts,
    ) -> Scripted<'a> {
        let (now, launches, saved) = (Nanos::ZERO, Vec::new(), BTreeMap::new());
        let (losses, fall, falls_for) = (VecDeque::new(), VecDeque::new(), Nanos::ZERO);
        Scripted {
            topology,
            asked,
            truth,
            costs,
            sharing: Sharing::TIME_SLICE,
            suspension: Suspension::default(),
            now,
            launches,
            saved,
            checkpoint_every: None,
            crashes: VecDeque::new(),
            losses,
            falls_for,
            fall,
            shares: Vec::new(),
            executed: 0,
            skipped: Nanos::ZERO,
            throttled: Vec::new(),
            endless: None,
        }
    }

    fn launch(&mut self, launch: LaunchId) -> &mut ScriptedLaunch {
        &mut self.launches[launch.0 as usize]
    }

    /// The end of the launch's present activity, if it has one.
    fn due(&self, launch: &ScriptedLaunch) -> Option<Nanos> {
        let all = self.all(launch);
        let goal = match launch.doing {
            Doing::Switches { until, .. } => return Some(until),
            Doing::Trains => all,
            Doing::Leaves { after, .. } => after.min(all),
            Doing::IdleTracker | Doing::IsGone => return None,
        };
        let left_ns = ((goal as f64 - launch.steps) * launch.step_ns).max(0.0).ceil();
        let done = launch.since + Nanos(left_ns as u64);
        Some(launch.saves_at.map_or(done, |saves_at| saves_at.min(done)))
    }

    fn all(&self, launch: &ScriptedLaunch) -> u64 {
        self.asked[launch.job.0 as usize].steps.expect("jobs here have steps")
    }

    fn switch(&mut self, launch: LaunchId, takes: Nanos, then: Then) {
        let until = self.now + takes;
        self.launch(launch).doing = Doing::Switches { until, then };
    }

    /// Ends training at a boundary, with this number of steps.
    fn cease(&mut self, launch: LaunchId, steps: u64) {
        self.time_steps(launch.0 as usize);
        let of = self.launch(launch);
        (of.steps, of.doing) = (steps as f64, Doing::IdleTracker);
        self.change_pace(launch);
    }

    fn has_more(&self, launch: &ScriptedLaunch) -> bool {
        whole(launch.steps) > self.saved_steps(launch.job)
    }

    fn cost_of_going(&self, launch: &ScriptedLaunch, checkpoint: bool) -> Nanos {
        let written = checkpoint && self.has_more(launch);
        let written = if written { self.cost(launch, Cost::Checkpoint) } else { Nanos::ZERO };
        written + self.cost(launch, Cost::Stop)
    }

    fn leave(&mut self, launch: LaunchId, then: Then) {
        let after = (self.steps_at(&self.launches[launch.0 as usize]) - ROUNDING).ceil() as u64;
        self.launch(launch).doing = Doing::Leaves { after, then };
    }

    /// The event of a launch whose activity ends; nothing if no report is expected.
    fn happens(&mut self, launch: LaunchId) -> Option<ClusterEvent> {
        let of = &self.launches[launch.0 as usize];
        let (job, all, now) = (of.job, self.all(of), self.now);
        if of.trains() && of.saves_at == Some(now) {
            self.save(launch);
            return None;
        }
        match of.doing {
            Doing::Trains => {
                self.cease(launch, all);
                self.finish(launch)
            }
            Doing::Leaves { after, .. } if after >= all => {
                self.cease(launch, all);
                self.finish(launch)
            }
            Doing::Leaves { after, then } => {
                self.cease(launch, after);
                let of = &self.launches[launch.0 as usize];
                let takes = match then {
                    Then::Go { checkpoint } => self.cost_of_going(of, checkpoint),
                    Then::Rest | Then::Run => self.cost(of, Cost::Pause),
                };
                self.switch(launch, takes, then);
                None
            }
            Doing::Switches { then: Then::Run, .. } => {
                let of = self.launch(launch);
                (of.doing, of.since, of.timed.end) = (Doing::Trains, now, None);
                self.plan_to_save(launch);
                self.change_pace(launch);
                Some(self.settled(launch, Settled::Running))
            }
            Doing::Switches { then: Then::Rest, .. } => {
                self.launch(launch).doing = Doing::IdleTracker;
                Some(self.settled(launch, Settled::Paused))
            }
            Doing::Switches { then: Then::Go { checkpoint }, .. } => {
                let steps = whole(of.steps);
                if checkpoint && self.has_more(of) {
                    self.saved.insert(job, steps);
                }
                self.launch(launch).doing = Doing::IsGone;
                Some(ClusterEvent::Settled { job, now: Settled::Stopped, steps: self.saved_steps(job) })
            }
            Doing::IdleTracker | Doing::IsGone => None,
        }
    }

    fn settled(&mut self, launch: LaunchId, now: Settled) -> ClusterEvent {
        ClusterEvent::Settled { job: self.launches[launch.0 as usize].job, now, steps: self.steps(launch) }
    }

    fn finish(&mut self, launch: LaunchId) -> Option<ClusterEvent> {
        self.launch(launch).doing = Doing::IsGone;
        Some(ClusterEvent::Finished { job: self.launches[launch.0 as usize].job, steps: self.steps(launch) })
    }
}

impl Launcher for Scripted<'_> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn check(&mut self, _start: &StartRequest) -> Result<(), String> {
        Ok(())
    }

    fn start(&mut self, start: &StartRequest) -> Result<LaunchId, String> {
        let launch = LaunchId(self.launches.len() as u32);
        let of = if self.saved.contains_key(&start.job) { Cost::Restart } else { Cost::Start };
        self.launches.push(ScriptedLaunch {
            job: start.job,
            devices: start.devices.clone(),
            plan: start.plan,
            cpus: start.cpus,
            steps: self.saved_steps(start.job) as f64,
            since: self.now,
            step_ns: 1.0,
            share: start.share,
            doing: Doing::IdleTracker,
            began: None,
            saves_at: None,
            losses_until: self.saved_steps(start.job),
            timed: Timed { done: self.saved_steps(start.job), ..Timed::default() },
        });
        self.shares.push((self.now, launch, start.share));
        self.switch(launch, self.cost(&self.launches[launch.0 as usize], of), Then::Run);
        Ok(launch)
    }

    fn pause(&mut self, launch: LaunchId) -> Result<(), String> {
        self.leave(launch, Then::Rest);
        Ok(())
    }

    fn resume(&mut self, launch: LaunchId) {
        let takes = self.cost(&self.launches[launch.0 as usize], Cost::Resume);
        self.switch(launch, takes, Then::Run);
    }

    fn stop(&mut self, launch: LaunchId, checkpoint: bool) -> Result<(), String> {
        let of = &self.launches[launch.0 as usize];
        let then = Then::Go { checkpoint };
        match of.doing {
            Doing::Trains => self.leave(launch, then),
            Doing::Leaves { after, .. } => self.launch(launch).doing = Doing::Leaves { after, then },
            // It comes back to its device to be saved.
            Doing::IdleTracker if checkpoint && self.suspension == Suspension::CudaCheckpoint => {
                let takes = self.cost(of, Cost::Resume) + self.cost_of_going(of, checkpoint);
                self.switch(launch, takes, then);
            }
            _ => self.switch(launch, self.cost_of_going(of, checkpoint), then),
        }
        Ok(())
    }

    fn throttle(&mut self, launch: LaunchId, share: Share) -> Result<(), String> {
        self.shares.push((self.now, launch, share));
        self.launch(launch).share = share;
        if self.launches[launch.0 as usize].doing == Doing::Trains {
            self.change_pace_beside(launch);
        }
        Ok(())
    }

    fn steps(&mut self, launch: LaunchId) -> u64 {
        whole(self.steps_at(&self.launches[launch.0 as usize]))
    }

    fn take_loss(&mut self, launch: LaunchId) -> Option<f64> {
        let steps = self.steps(launch);
        let of = self.launch(launch);
        let (job, before) = (of.job, std::mem::replace(&mut of.losses_until, steps));
        self.asked[job.0 as usize].loss_curve?.mean(before, steps)
    }

    fn saved_steps(&self, job: JobId) -> u64 {
        self.saved.get(&job).copied().unwrap_or(0)
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<ClusterEvent>, ClusterError> {
        loop {
            let due = |(place, launch): (u32, &ScriptedLaunch)| {
                Some((self.due(launch)?, launch.job, LaunchId(place)))
            };
            let first = (0..).zip(&self.launches).filter_map(due).min();
            let is_within = |at: Nanos| deadline.is_none_or(|deadline| at <= deadline);
            if let Some(happened) = self.next_fault(first.map(|(at, ..)| at), deadline) {
                return Ok(Some(happened));
            }
            let Some((at, _, launch)) = first.filter(|(at, ..)| is_within(*at)) else {
                self.now = self.now.max(deadline.unwrap_or_default());
                return Ok(None);
            };
            self.now = self.now.max(at);
            if let Some(told) = self.happens(launch) {
                return Ok(Some(told));
            }
        }
    }

    fn forget(&mut self, _launch: LaunchId) {}

    fn discard(&mut self, job: JobId) {
        self.saved.remove(&job);
    }
}
