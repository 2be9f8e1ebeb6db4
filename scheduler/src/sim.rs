//! A simulated cluster. Its time jumps from event to event, and the step times of its jobs come from a model.
//!
//! Its limits: the step times are exactly those of the model unless another [`ProgressModel`] is given, devices of a node do not fail
//! together, and a job that starts or leaves does not slow other jobs down. A throttled job slows the jobs on other devices of its
//! node down as if it were not throttled.

mod chance;
mod course;
mod drift;
mod events;
mod faults;
mod launches;
mod state;
mod stretches;

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use model::{
    JobKey, Throughput,
    switch_costs::{Cost, SwitchCosts},
};
use schema::{
    decision::{ClusterEvent, DeviceId},
    plan::Plan,
    rows::ErrorKind,
    sharing::Sharing,
    suspension::Suspension,
    units::Nanos,
};

pub use self::course::{Exact, ProgressModel, Stretch};
pub use self::drift::Drifting;
use self::{
    events::{Event, Queue},
    state::{LaunchPhase, Launches, SimulatedLaunch},
};
use crate::{
    cluster::{Action, ActionError, Cluster, ClusterError, JobId},
    job::{JobRequest, Payload},
    pending_releases::PendingReleases,
    topology::Topology,
};

/// The longest simulated time, 100 years. Every duration is cut to it, so that sums of a few durations do not overflow.
const LONGEST: Nanos = Nanos(100 * 366 * 24 * 3_600 * Nanos::SECOND.0);

/// The settings of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The way in which packed jobs share their devices.
    pub sharing: Sharing,
    /// How jobs are suspended.
    pub suspension: Suspension,
    /// The standard deviation of the step times of launches on the log scale. Each launch is faster or slower than the model says
    /// by a random factor. 0 for no noise.
    pub noise: f64,
    /// The interval between progress reports of a job, from the time at which its launch began to run.
    pub progress_every: Option<Nanos>,
    /// The interval between checkpoints of a running job. The time of a checkpoint is spread over the steps between two of them.
    pub checkpoint_every: Option<Nanos>,
    pub faults: Faults,
    /// Whether a job that would take more than a hundred years is refused when it starts. A simulation of a hundred years takes hours
    /// under a policy with turns of seconds. Where endless jobs are allowed, the policy ends them.
    pub refuses_endless: bool,
}

/// Mean times, in nanoseconds. Times are drawn from exponential distributions. Without a mean nothing fails.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The mean time between failures of a device.
    pub device_mtbf_ns: Option<f64>,
    /// The mean time from the failure of a device to its return.
    pub device_repair_ns: f64,
    /// The mean running time of a launch between crashes of its own.
    pub launch_mtbf_ns: Option<f64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 0,
            sharing: Sharing::TIME_SLICE,
            suspension: Suspension::default(),
            noise: 0.0,
            progress_every: None,
            checkpoint_every: None,
            faults: Faults::default(),
            refuses_endless: false,
        }
    }
}

impl Settings {
    /// Checks the settings.
    ///
    /// # Errors
    /// Fails if the noise is no standard deviation, and if an interval is 0.
    pub fn check(&self) -> anyhow::Result<()> {
        let Settings { noise, progress_every, checkpoint_every, .. } = self;
        ensure!(
            noise.is_finite() && *noise >= 0.0,
            "the noise is {noise}; write a standard deviation of 0 or more, such as 0.02"
        );
        for (what, every) in [("progress reports", progress_every), ("checkpoints", checkpoint_every)] {
            ensure!(*every != Some(Nanos::ZERO), "the interval of {what} is 0; write a time above 0");
        }
        Ok(())
    }
}

/// A cluster with virtual time and virtual devices.
pub struct Sim<'a> {
    topology: &'a Topology,
    asked: &'a [JobRequest],
    /// The model that gives the step times of jobs. The policy may have a different one.
    truth: Box<dyn Throughput + 'a>,
    costs: &'a dyn SwitchCosts,
    course: Box<dyn ProgressModel + 'a>,
    settings: Settings,
    now: Nanos,
    queue: Queue,
    /// The number of jobs that have arrived. Arrivals are not in the queue, because they are in order already.
    arrived: usize,
    launches: Launches,
    devices: Vec<Slot>,
    /// The names of jobs that are commands.
    names: BTreeMap<JobId, String>,
    releases: PendingReleases,
}

/// A device and the jobs on it.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// The jobs that were placed here, from the action that starts them on.
    has: Vec<JobId>,
    /// The jobs that train here.
    trains: Vec<JobId>,
    is_down: bool,
    /// The number of failures of the device.
    faults: u32,
}

impl<'a> Sim<'a> {
    /// Creates a cluster at the start of a run. Jobs are in order of arrival, as for [`crate::engine::Engine::new`].
    ///
    /// # Errors
    /// Fails if the number of steps of a job or the cost of its start is not known, and if a setting is invalid.
    pub fn new(
        topology: &'a Topology,
        asked: &'a [JobRequest],
        truth: Box<dyn Throughput + 'a>,
        costs: &'a dyn SwitchCosts,
        settings: Settings,
    ) -> anyhow::Result<Sim<'a>> {
        let is_command = |asked: &&JobRequest| matches!(asked.what, Payload::Command(_));
        let commands = asked.iter().filter(is_command);
        let mut sim = Sim {
            topology,
            asked,
            truth,
            costs,
            course: Box::new(Exact),
            settings,
            now: Nanos::ZERO,
            queue: Queue::default(),
            arrived: 0,
            launches: Launches::new(asked.len()),
            devices: vec![Slot::default(); topology.devices() as usize],
            names: commands.map(|asked| (asked.id, asked.what.workload().into_owned())).collect(),
            releases: PendingReleases::default(),
        };
        sim.check()?;
        sim.plan_faults();
        Ok(sim)
    }

    /// Lets jobs get on along this course instead of exactly as the model says.
    pub fn on_course(mut self, course: Box<dyn ProgressModel + 'a>) -> Sim<'a> {
        self.course = course;
        self
    }

    fn check(&self) -> anyhow::Result<()> {
        self.settings.check()?;
        for (asked, number) in self.asked.iter().zip(0..) {
            let name = &asked.name;
            ensure!(
                asked.id == JobId(number),
                "job '{name}': its number is {}, and its place in the trace is {number}",
                asked.id.0
            );
            let before = self.asked[..number as usize].last();
            let in_order = before.is_none_or(|before| before.arrival <= asked.arrival);
            ensure!(in_order, "job '{name}': it arrives before the previous job of the trace");
            if asked.steps.is_none() {
                bail!(
                    "job '{name}': its length is not known; add columns 'steps' and 'step_ns' to its trace"
                );
            }
            let subject = self.subject(asked.id, asked.plan);
            for cost in [Cost::Start, Cost::Restart] {
                if self.costs.cost(&subject, asked.devices, cost, &mut || 0.0).is_none() {
                    bail!(
                        "job '{name}': the cost to start {} was not measured; calibrate with it, or name a cost with \
                         --switch-cost",
                        subject.workload
                    );
                }
            }
        }
        Ok(())
    }

    /// The subject of a question to the model about a job under this plan.
    fn subject(&self, id: JobId, plan: Option<Plan>) -> JobKey<'_> {
        let asked = &self.asked[id.0 as usize];
        let workload = match &asked.what {
            Payload::Training { workload, .. } => workload,
            Payload::Command(_) => &self.names[&id],
        };
        let device = self.launches[id].devices.first().copied().unwrap_or(DeviceId(0));
        asked.subject(workload, plan, self.topology, self.topology.type_of(device))
    }

    /// The time after a duration from now.
    fn after(&self, time: Nanos) -> Nanos {
        self.now + time.min(LONGEST)
    }

    fn launch(&mut self, id: JobId) -> &mut SimulatedLaunch {
        &mut self.launches[id]
    }

    /// Whether the launch of the job still has the number under which an event was planned. Otherwise the event is obsolete.
    fn has(&self, id: JobId, number: u32) -> bool {
        self.launches[id].number == number
    }

    /// Whether this launch of the job has not ended. Its number changes when a job beside it fails.
    fn is_there(&self, id: JobId, launches: u32) -> bool {
        let launch = &self.launches[id];
        launch.launches == launches && launch.phase != LaunchPhase::Away
    }

    /// Jumps to the next event that the engine receives. Returns `None` if no event comes up to `until`.
    fn next_event(&mut self, until: Option<Nanos>) -> anyhow::Result<Option<ClusterEvent>> {
        loop {
            let arrives =
                |asked: &JobRequest| (asked.arrival, ClusterEvent::Arrived { job: asked.id }.rank());
            let arrival = self.asked.get(self.arrived).map(arrives);
            let first = [arrival, self.queue.first()].into_iter().flatten().min();
            let Some((at, _)) = first.filter(|(at, _)| until.is_none_or(|until| *at <= until)) else {
                return Ok(None);
            };
            ensure!(
                at < LONGEST,
                "jobs have not ended after 100 simulated years; check their arrivals, steps and step times"
            );
            self.now = self.now.max(at);
            if first == arrival {
                self.arrived += 1;
                return Ok(Some(ClusterEvent::Arrived { job: self.asked[self.arrived - 1].id }));
            }
            if let Some((_, event)) = self.queue.pop()
                && let Some(happened) = self.meet(event)?
            {
                return Ok(Some(happened));
            }
        }
    }

    /// Carries out a planned event. Returns `None` if the event is obsolete or is not reported to the engine.
    fn meet(&mut self, event: Event) -> anyhow::Result<Option<ClusterEvent>> {
        if let Some(progress) = self.unknown_loss(event) {
            return Ok(Some(progress));
        }
        match event {
            Event::Finish(id, number) if self.has(id, number) => self.finish(id).map(Some),
            Event::Lose(id, launches) if self.is_there(id, launches) => {
                self.fail(id, ErrorKind::DeviceLost, "a device that it ran on was lost").map(Some)
            }
            Event::Boundary(id, number) if self.has(id, number) => self.reach_boundary(id).map(|()| None),
            Event::Settle(id, number, to) if self.has(id, number) => self.settle(id, to).map(Some),
            Event::Crash(id, stint) if self.launches[id].stint == stint => {
                self.fail(id, ErrorKind::Crashed, "it was drawn to crash").map(Some)
            }
            // A job that was stopped reports no more progress, though it trains for a while.
            Event::Tell(id, stint)
                if self.launches[id].stint == stint && self.launches[id].phase == LaunchPhase::Training =>
            {
                Ok(Some(self.tell(id)))
            }
            Event::Break(device) => Ok(self.break_down(device)),
            Event::Lost(device) => Ok(self.lose(device)),
            Event::Back(device) => Ok(Some(self.come_back(device))),
            Event::Finish(..)
            | Event::Lose(..)
            | Event::Boundary(..)
            | Event::Settle(..)
            | Event::Crash(..)
            | Event::Tell(..) => Ok(None),
        }
    }
}

impl Cluster for Sim<'_> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        let done = match action {
            Action::Start { job, devices, cpus, plan } => self.start(*job, devices, *cpus, *plan),
            Action::Pause { job } => self.pause(*job),
            Action::Resume { job } => self.resume(*job),
            Action::Stop { job, checkpoint } => self.stop(*job, *checkpoint),
            Action::End { job } => self.end(*job),
            Action::Throttle { job, share } => self.throttle(*job, *share),
        };
        done.map_err(|error| ActionError { action: action.clone(), why: format!("{error:#}") })
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError> {
        let Some(first) = self.next_event(deadline)? else {
            self.now = self.now.max(deadline.ok_or(ClusterError::Nothing)?);
            return Ok(vec![ClusterEvent::Deadline]);
        };
        let mut events = vec![first];
        while let Some(happened) = self.next_event(Some(self.now))? {
            events.push(happened);
        }
        Ok(events)
    }
}
