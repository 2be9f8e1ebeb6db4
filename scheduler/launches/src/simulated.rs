//! Simulated launches. Their time jumps from event to event, and their step times come from a model.
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
mod memory;
mod settings;
mod state;
mod stretches;

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use engine::{
    cluster::ClusterError,
    job::{JobRequest, Payload},
    topology::Topology,
};
use formats::decision::{ClusterEvent, DeviceId, JobId, Share};
use model::{
    JobKey, Throughput,
    switch_costs::{Cost, SwitchCosts},
};
use record::rows::ErrorKind;
use schema::units::Nanos;

pub use self::{
    course::{Exact, ProgressModel, Stretch},
    drift::Drifting,
    settings::{Faults, Settings},
};
use self::{
    events::{Event, Queue},
    state::{LaunchPhase, Launches},
};
use crate::{
    LaunchCluster, ResumePoint,
    launcher::{LaunchId, Launcher, StartRequest, Staying},
};

/// The longest simulated time, 100 years. Every duration is cut to it, so that sums of a few durations do not overflow.
const LONGEST: Nanos = Nanos(100 * 366 * 24 * 3_600 * Nanos::SECOND.0);

/// Simulated launches on virtual devices in virtual time. A launch has the number of its job.
pub struct SimulatedLauncher<'a> {
    topology: &'a Topology,
    asked: &'a [JobRequest],
    /// The model that gives the step times of jobs. The policy may have a different one.
    truth: Box<dyn Throughput + 'a>,
    costs: &'a dyn SwitchCosts,
    course: Box<dyn ProgressModel + 'a>,
    settings: Settings,
    now: Nanos,
    queue: Queue,
    launches: Launches,
    devices: Vec<Slot>,
    /// The names of jobs that are commands.
    names: BTreeMap<JobId, String>,
}

/// A cluster whose launches are simulated.
pub type SimulatedCluster<'a> = LaunchCluster<SimulatedLauncher<'a>>;

/// A device and the jobs on it.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// The jobs that have a launch here.
    has: Vec<JobId>,
    /// The jobs that train here.
    trains: Vec<JobId>,
    /// The number of failures of the device.
    faults: u32,
}

/// A simulated cluster at the start of a run, whose jobs get on exactly as the model says. Jobs are in order of arrival, as for
/// [`engine::Engine::new`].
///
/// # Errors
/// Fails if the number of steps of a job or the cost of its start is not known, and if a setting is invalid.
pub fn cluster<'a>(
    topology: &'a Topology,
    asked: &'a [JobRequest],
    truth: Box<dyn Throughput + 'a>,
    costs: &'a dyn SwitchCosts,
    settings: Settings,
) -> anyhow::Result<SimulatedCluster<'a>> {
    Ok(SimulatedLauncher::new(topology, asked, truth, costs, settings)?.into_cluster())
}

impl<'a> SimulatedLauncher<'a> {
    /// See [`cluster`].
    ///
    /// # Errors
    /// As [`cluster`].
    pub fn new(
        topology: &'a Topology,
        asked: &'a [JobRequest],
        truth: Box<dyn Throughput + 'a>,
        costs: &'a dyn SwitchCosts,
        settings: Settings,
    ) -> anyhow::Result<SimulatedLauncher<'a>> {
        let is_command = |asked: &&JobRequest| matches!(asked.what, Payload::Command(_));
        let commands = asked.iter().filter(is_command);
        let mut launcher = SimulatedLauncher {
            topology,
            asked,
            truth,
            costs,
            course: Box::new(Exact),
            settings,
            now: Nanos::ZERO,
            queue: Queue::default(),
            launches: Launches::new(asked.len()),
            devices: vec![Slot::default(); topology.devices() as usize],
            names: commands.map(|asked| (asked.id, asked.what.workload().into_owned())).collect(),
        };
        launcher.check_trace()?;
        launcher.plan_faults();
        Ok(launcher)
    }

    /// Lets jobs get on along this course instead of exactly as the model says.
    pub fn on_course(mut self, course: Box<dyn ProgressModel + 'a>) -> SimulatedLauncher<'a> {
        self.course = course;
        self
    }

    /// The cluster of the jobs at the start of a run.
    pub fn into_cluster(self) -> SimulatedCluster<'a> {
        let (asked, progress_every) = (self.asked, self.settings.progress_every);
        LaunchCluster::new(self, asked, progress_every, ResumePoint::default())
    }

    fn check_trace(&self) -> anyhow::Result<()> {
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
            ensure!(
                asked.arrival < LONGEST,
                "job '{name}': it arrives after more than 100 simulated years; check its arrival"
            );
            if asked.steps.is_none() {
                bail!(
                    "job '{name}': its length is not known; add columns 'steps' and 'step_ns' to its trace; for a command \
                     without steps, name a table in which `profile single` measured its duration"
                );
            }
            let first = StartRequest {
                job: asked.id,
                number: 0,
                devices: Vec::new(),
                cpus: None,
                plan: asked.plan,
                share: Share::FULL,
            };
            let subject = self.subject(&first);
            for &cost in costs_of_starts(asked) {
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

    /// The subject of a question to the model about a job that was started so.
    fn subject(&self, start: &StartRequest) -> JobKey<'_> {
        let asked = &self.asked[start.job.0 as usize];
        let workload = match &asked.what {
            Payload::Training { workload, .. } => workload,
            Payload::Command(_) => &self.names[&start.job],
        };
        let device = start.devices.first().copied().unwrap_or(DeviceId(0));
        asked.subject(workload, start.plan, self.topology, self.topology.type_of(device))
    }

    /// The time after a duration from now.
    fn after(&self, time: Nanos) -> Nanos {
        self.now + time.min(LONGEST)
    }

    /// Whether the launch of the job still has the number under which an event was planned. Otherwise the event is obsolete.
    fn has(&self, id: JobId, number: u32) -> bool {
        self.launches.get(id).is_some_and(|launch| launch.number == number)
    }

    /// Whether the launch of the job still trains, or rests, as it did when an event was planned.
    fn has_stint(&self, id: JobId, stint: u32) -> bool {
        self.launches.get(id).is_some_and(|launch| launch.stint == stint)
    }

    /// Whether this launch of the job has not ended. Its number changes when a job beside it fails.
    fn is_there(&self, id: JobId, start: u32) -> bool {
        let launch = self.launches.get(id);
        launch.is_some_and(|launch| launch.start.number == start && launch.phase != LaunchPhase::Away)
    }

    /// Jumps to the next event that the cluster receives. Returns `None` if no event comes up to `until`.
    fn next_event(&mut self, until: Option<Nanos>) -> anyhow::Result<Option<ClusterEvent>> {
        while let Some(at) = self.queue.first_at().filter(|at| until.is_none_or(|until| *at <= until)) {
            ensure!(
                at < LONGEST,
                "jobs have not ended after 100 simulated years; check their arrivals, steps and step times"
            );
            self.now = self.now.max(at);
            if let Some(event) = self.queue.pop()
                && let Some(happened) = self.meet(event)?
            {
                return Ok(Some(happened));
            }
        }
        if let Some(until) = until {
            self.now = self.now.max(until);
        }
        Ok(None)
    }

    /// Carries out a planned event. Returns `None` if the event is obsolete or is not reported to the cluster.
    fn meet(&mut self, event: Event) -> anyhow::Result<Option<ClusterEvent>> {
        match event {
            Event::Finish(id, number) if self.has(id, number) => self.finish(id),
            Event::Exit(id, number) if self.has(id, number) => Ok(Some(self.exited(id))),
            Event::Lose(id, start) if self.is_there(id, start) => {
                self.fail(id, ErrorKind::DeviceLost, "a device that it ran on was lost").map(Some)
            }
            Event::Boundary(id, number) if self.has(id, number) => self.reach_boundary(id).map(|()| None),
            Event::Settle(id, number, to) if self.has(id, number) => self.settle(id, to).map(Some),
            Event::Crash(id, stint) if self.has_stint(id, stint) => {
                self.fail(id, ErrorKind::Crashed, "it was drawn to crash").map(Some)
            }
            Event::Break(device) => Ok(Some(self.break_down(device))),
            Event::Back(device) => Ok(Some(self.come_back(device))),
            Event::Finish(..)
            | Event::Exit(..)
            | Event::Lose(..)
            | Event::Boundary(..)
            | Event::Settle(..)
            | Event::Crash(..) => Ok(None),
        }
    }
}

/// The costs of the ways in which a job starts. A job that takes no checkpoint always starts anew.
fn costs_of_starts(asked: &JobRequest) -> &'static [Cost] {
    match asked.takes_no_checkpoint {
        Some(_) => &[Cost::Start],
        None => &[Cost::Start, Cost::Restart],
    }
}

/// The job of a launch.
fn job(launch: LaunchId) -> JobId {
    JobId(launch.0)
}

/// The reason of an error, in one line.
fn why(error: anyhow::Error) -> String {
    format!("{error:#}")
}

impl Launcher for SimulatedLauncher<'_> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn check(&mut self, start: &StartRequest) -> Result<(), String> {
        self.check_costs(start, costs_of_starts(&self.asked[start.job.0 as usize])).map_err(why)
    }

    fn check_company(&self, start: &StartRequest, staying: &Staying<'_>) -> Result<(), String> {
        self.knows_company(start, staying).map_err(why)
    }

    fn start(&mut self, start: &StartRequest) -> Result<LaunchId, String> {
        self.begin(start).map_err(why)?;
        Ok(LaunchId(start.job.0))
    }

    fn pause(&mut self, launch: LaunchId) -> Result<(), String> {
        self.suspend(job(launch)).map_err(why)
    }

    fn resume(&mut self, launch: LaunchId) {
        self.train_on(job(launch));
    }

    fn stop(&mut self, launch: LaunchId, checkpoint: bool) -> Result<(), String> {
        self.end(job(launch), checkpoint).map_err(why)
    }

    fn throttle(&mut self, launch: LaunchId, share: Share) -> Result<(), String> {
        self.change_share(job(launch), share).map_err(why)
    }

    fn steps(&mut self, launch: LaunchId) -> u64 {
        self.done(job(launch))
    }

    fn take_loss(&mut self, launch: LaunchId) -> Option<f64> {
        let steps = self.done(job(launch));
        let before = std::mem::replace(&mut self.launches[job(launch)].reported, steps);
        self.asked[launch.0 as usize].loss_curve?.mean(before, steps)
    }

    fn saved_steps(&self, job: JobId) -> u64 {
        self.launches.get(job).and_then(|launch| launch.saved).unwrap_or(0)
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<ClusterEvent>, ClusterError> {
        Ok(self.next_event(deadline)?)
    }

    fn forget(&mut self, _launch: LaunchId) {}

    fn discard(&mut self, job: JobId) {
        self.launches.forget(job);
    }
}
