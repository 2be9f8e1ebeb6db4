//! A launcher without processes: the behaviour of its launches is computed, on a clock that jumps.
//!
//! It knows nothing of arrivals, waiting or reports. These are the part of the testbed, which is compared
//! with the simulated cluster.

use std::collections::{BTreeMap, VecDeque};

use model::{Question, Subject, Throughput};
use rig::Member;
use scheduler::{
    cluster::{ClusterError, DeviceId, Happened, JobId, Settled, Share},
    job::JobRequest,
    sim::{Cost, SwitchCosts},
    testbed::launcher::{Launcher, StartRequest},
    topology::Topology,
};
use schema::{rows::ErrorKind, sharing::Sharing, units::Nanos};

/// The accuracy of sums of fractions of a step.
const ROUNDING: f64 = 1e-6;

pub(crate) struct Scripted<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) asked: &'a [JobRequest],
    pub(crate) truth: &'a dyn Throughput,
    pub(crate) costs: &'a dyn SwitchCosts,
    pub(crate) sharing: Sharing,
    now: Nanos,
    launches: Vec<ScriptedLaunch>,
    saved: BTreeMap<JobId, u64>,
    /// Devices that are lost, with the times, in order.
    pub(crate) losses: VecDeque<(Nanos, DeviceId)>,
    /// The time that each launch on a lost device takes to end, one after another.
    pub(crate) falls_for: Nanos,
    /// Launches that end with a lost device and are not yet reported, with the times of their ends.
    fall: VecDeque<(Nanos, Member)>,
    /// The shares that launches began with or were told, with their times.
    pub(crate) shares: Vec<(Nanos, Member, Share)>,
}

struct ScriptedLaunch {
    job: JobId,
    devices: Vec<DeviceId>,
    steps: f64,
    since: Nanos,
    step_ns: f64,
    share: Share,
    doing: Doing,
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
    Rests,
    IsGone,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Run,
    Rest,
    Go { checkpoint: bool },
}

impl ScriptedLaunch {
    fn trains_on(&self, devices: &[DeviceId]) -> bool {
        matches!(self.doing, Doing::Trains | Doing::Leaves { .. })
            && self.devices.iter().any(|device| devices.contains(device))
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
            now,
            launches,
            saved,
            losses,
            falls_for,
            fall,
            shares: Vec::new(),
        }
    }

    fn subject(&self, job: JobId) -> Subject<'_> {
        let asked = &self.asked[job.0 as usize];
        let workload = match &asked.what {
            scheduler::job::Payload::Training { workload, .. } => workload,
            scheduler::job::Payload::Command(_) => "",
        };
        asked.subject(workload, asked.plan, self.topology, self.topology.type_of(DeviceId(0)))
    }

    fn cost(&self, job: JobId, of: Cost) -> Nanos {
        let devices = self.asked[job.0 as usize].devices;
        self.costs.cost(&self.subject(job), devices, of, &mut || 0.0).expect("all costs are known")
    }

    fn launch(&mut self, launch: Member) -> &mut ScriptedLaunch {
        &mut self.launches[launch.0 as usize]
    }

    fn steps_at(&self, launch: &ScriptedLaunch) -> f64 {
        match launch.doing {
            Doing::Trains | Doing::Leaves { .. } => {
                launch.steps + (self.now - launch.since).0 as f64 / launch.step_ns
            }
            _ => launch.steps,
        }
    }

    /// The end of the launch's present activity, if it has one.
    fn due(&self, launch: &ScriptedLaunch) -> Option<Nanos> {
        let all = self.all(launch);
        let goal = match launch.doing {
            Doing::Switches { until, .. } => return Some(until),
            Doing::Trains => all,
            Doing::Leaves { after, .. } => after.min(all),
            Doing::Rests | Doing::IsGone => return None,
        };
        let left_ns = ((goal as f64 - launch.steps) * launch.step_ns).max(0.0).ceil();
        Some(launch.since + Nanos(left_ns as u64))
    }

    fn all(&self, launch: &ScriptedLaunch) -> u64 {
        self.asked[launch.job.0 as usize].steps.expect("jobs here have steps")
    }

    /// Starts a new stretch for all jobs that train on these devices.
    fn change_pace(&mut self, devices: &[DeviceId]) {
        let among: Vec<usize> =
            (0..self.launches.len()).filter(|place| self.launches[*place].trains_on(devices)).collect();
        among.into_iter().for_each(|place| self.set_pace(place));
    }

    fn set_pace(&mut self, place: usize) {
        let launch = &self.launches[place];
        let others = self
            .launches
            .iter()
            .enumerate()
            .filter(|(other, of)| *other != place && of.trains_on(&launch.devices));
        let co_runners: Vec<Subject<'_>> = others.map(|(_, launch)| self.subject(launch.job)).collect();
        let step_ns = self.truth.predict(&Question {
            job: self.subject(launch.job),
            placement: &self.topology.placement(&launch.devices),
            device_type: self.topology.type_of(launch.devices[0]),
            cpus: None,
            co_runners: &co_runners,
            sharing: &self.sharing,
            neighbours: &[],
        });
        let (steps, now) = (self.steps_at(launch), self.now);
        let launch = &mut self.launches[place];
        (launch.steps, launch.since) = (steps, now);
        launch.step_ns = step_ns.expect("all step times are known").step_ns / launch.share.get();
    }

    fn switch(&mut self, launch: Member, takes: Nanos, then: Then) {
        let until = self.now + takes;
        self.launch(launch).doing = Doing::Switches { until, then };
    }

    /// Ends training at a boundary, with this number of steps.
    fn cease(&mut self, launch: Member, steps: u64) {
        let of = self.launch(launch);
        (of.steps, of.doing) = (steps as f64, Doing::Rests);
        let devices = of.devices.clone();
        self.change_pace(&devices);
    }

    fn has_more(&self, launch: &ScriptedLaunch) -> bool {
        whole(launch.steps) > self.saved_steps(launch.job)
    }

    fn cost_of_going(&self, launch: &ScriptedLaunch, checkpoint: bool) -> Nanos {
        let written = checkpoint && self.has_more(launch);
        let written = if written { self.cost(launch.job, Cost::Checkpoint) } else { Nanos::ZERO };
        written + self.cost(launch.job, Cost::Stop)
    }

    fn leave(&mut self, launch: Member, then: Then) {
        let after = (self.steps_at(&self.launches[launch.0 as usize]) - ROUNDING).ceil() as u64;
        self.launch(launch).doing = Doing::Leaves { after, then };
    }

    /// The event of a launch whose activity ends; nothing if no report is expected.
    fn happens(&mut self, launch: Member) -> Option<Happened> {
        let of = &self.launches[launch.0 as usize];
        let (job, all, now) = (of.job, self.all(of), self.now);
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
                    Then::Rest | Then::Run => self.cost(job, Cost::Pause),
                };
                self.switch(launch, takes, then);
                None
            }
            Doing::Switches { then: Then::Run, .. } => {
                let of = self.launch(launch);
                (of.doing, of.since) = (Doing::Trains, now);
                let devices = of.devices.clone();
                self.change_pace(&devices);
                Some(self.settled(launch, Settled::Running))
            }
            Doing::Switches { then: Then::Rest, .. } => {
                self.launch(launch).doing = Doing::Rests;
                Some(self.settled(launch, Settled::Paused))
            }
            Doing::Switches { then: Then::Go { checkpoint }, .. } => {
                let steps = whole(of.steps);
                if checkpoint && self.has_more(of) {
                    self.saved.insert(job, steps);
                }
                self.launch(launch).doing = Doing::IsGone;
                Some(Happened::Settled { job, now: Settled::Stopped, steps: self.saved_steps(job) })
            }
            Doing::Rests | Doing::IsGone => None,
        }
    }

    fn settled(&self, launch: Member, now: Settled) -> Happened {
        Happened::Settled { job: self.launches[launch.0 as usize].job, now, steps: self.steps(launch) }
    }

    fn finish(&mut self, launch: Member) -> Option<Happened> {
        self.launch(launch).doing = Doing::IsGone;
        Some(Happened::Finished { job: self.launches[launch.0 as usize].job, steps: self.steps(launch) })
    }
}

impl Launcher for Scripted<'_> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn check(&mut self, _start: &StartRequest) -> Result<(), String> {
        Ok(())
    }

    fn start(&mut self, start: &StartRequest) -> Result<Member, String> {
        let launch = Member(self.launches.len() as u32);
        let of = if self.saved.contains_key(&start.job) { Cost::Restart } else { Cost::Start };
        self.launches.push(ScriptedLaunch {
            job: start.job,
            devices: start.devices.clone(),
            steps: self.saved_steps(start.job) as f64,
            since: self.now,
            step_ns: 1.0,
            share: start.share,
            doing: Doing::Rests,
        });
        self.shares.push((self.now, launch, start.share));
        self.switch(launch, self.cost(start.job, of), Then::Run);
        Ok(launch)
    }

    fn pause(&mut self, launch: Member) -> Result<(), String> {
        self.leave(launch, Then::Rest);
        Ok(())
    }

    fn resume(&mut self, launch: Member) {
        let takes = self.cost(self.launches[launch.0 as usize].job, Cost::Resume);
        self.switch(launch, takes, Then::Run);
    }

    fn stop(&mut self, launch: Member, checkpoint: bool) -> Result<(), String> {
        let of = &self.launches[launch.0 as usize];
        let then = Then::Go { checkpoint };
        match of.doing {
            Doing::Trains => self.leave(launch, then),
            Doing::Leaves { after, .. } => self.launch(launch).doing = Doing::Leaves { after, then },
            _ => self.switch(launch, self.cost_of_going(of, checkpoint), then),
        }
        Ok(())
    }

    fn throttle(&mut self, launch: Member, share: Share) -> Result<(), String> {
        self.shares.push((self.now, launch, share));
        self.launch(launch).share = share;
        if self.launches[launch.0 as usize].doing == Doing::Trains {
            self.set_pace(launch.0 as usize);
        }
        Ok(())
    }

    fn steps(&self, launch: Member) -> u64 {
        whole(self.steps_at(&self.launches[launch.0 as usize]))
    }

    fn saved_steps(&self, job: JobId) -> u64 {
        self.saved.get(&job).copied().unwrap_or(0)
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<Happened>, ClusterError> {
        loop {
            let due = |(place, launch): (u32, &ScriptedLaunch)| {
                Some((self.due(launch)?, launch.job, Member(place)))
            };
            let first = (0..).zip(&self.launches).filter_map(due).min();
            let is_within = |at: Nanos| deadline.is_none_or(|deadline| at <= deadline);
            let is_first = |at: Nanos| is_within(at) && first.is_none_or(|(first, ..)| at <= first);
            if let Some((at, launch)) = self.fall.pop_front_if(|(at, _)| is_first(*at)) {
                self.now = self.now.max(at);
                let steps = whole(self.steps_at(&self.launches[launch.0 as usize]));
                self.cease(launch, steps);
                self.launch(launch).doing = Doing::IsGone;
                let job = self.launches[launch.0 as usize].job;
                let (steps, kind) = (self.saved_steps(job), ErrorKind::DeviceLost);
                return Ok(Some(Happened::Failed { job, steps, kind, detail: "lost its device".into() }));
            }
            let loss = self.losses.front().filter(|(at, _)| first.is_none_or(|(first, ..)| *at < first));
            if let Some(&(at, device)) = loss.filter(|(at, _)| is_within(*at)) {
                self.now = self.now.max(at);
                self.losses.pop_front();
                let is_there = |launch: &ScriptedLaunch| {
                    launch.doing != Doing::IsGone && launch.devices.contains(&device)
                };
                let there = (0..).zip(&self.launches).filter(|(_, launch)| is_there(launch));
                let ends = (1..).map(|nth| at + Nanos(nth * self.falls_for.0));
                self.fall = ends.zip(there.map(|(place, _)| Member(place))).collect();
                return Ok(Some(Happened::DeviceLost { device }));
            }
            let Some((at, _, launch)) = first.filter(|(at, ..)| is_within(*at)) else {
                self.now = self.now.max(deadline.ok_or(ClusterError::Nothing)?);
                return Ok(None);
            };
            self.now = self.now.max(at);
            if let Some(told) = self.happens(launch) {
                return Ok(Some(told));
            }
        }
    }

    fn forget(&mut self, _launch: Member) {}

    fn discard(&mut self, job: JobId) {
        self.saved.remove(&job);
    }
}
