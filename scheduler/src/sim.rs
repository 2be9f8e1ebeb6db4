//! A cluster that is not there: it jumps from event to event, and jobs on it do what a model says they would.
//!
//! What it is not: its truth is the model it is given, devices of a node do not fail together, and a job that only starts or leaves
//! slows no job down.

mod chance;
mod events;
mod faults;
mod launches;
mod stretches;
mod switches;

use std::collections::BTreeMap;

use anyhow::{anyhow, bail, ensure};
use model::{Subject, Throughput};
use schema::{decision::Happened, plan::Plan, rows::ErrorKind, sharing::Sharing, units::Nanos};

use self::{
    events::{Event, Queue},
    launches::{Launch, LaunchPhase},
};
pub use self::{
    faults::Faults,
    switches::{Cost, Measured, MeasuredElseNamed, Named, SwitchCosts},
};
use crate::{
    cluster::{Action, ActionError, Cluster, ClusterError, JobId},
    job::{JobRequest, Payload},
    topology::Topology,
};

/// 100 years: no run is simulated for longer, and no length of time is taken for longer, so that sums of a few of them can be counted.
const LONGEST: Nanos = Nanos(100 * 366 * 24 * 3_600 * Nanos::SECOND.0);

/// What holds for a whole simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Of all chance in it.
    pub seed: u64,
    /// How jobs share a device.
    pub sharing: Sharing,
    /// Standard deviation of the step times of launches on the log scale: each is faster or slower than the model says by a factor of
    /// its own. 0 for none.
    pub noise: f64,
    /// How often a job tells its progress, counted from when its launch began to run.
    pub progress_every: Option<Nanos>,
    /// How often it writes a checkpoint while it runs. What that takes is spread over the steps between two.
    pub checkpoint_every: Option<Nanos>,
    pub faults: Faults,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 0,
            sharing: Sharing::TIME_SLICE,
            noise: 0.0,
            progress_every: None,
            checkpoint_every: None,
            faults: Faults::default(),
        }
    }
}

/// Virtual time, virtual devices, and the same engine in front of them as in front of real ones.
pub struct Sim<'a> {
    topology: &'a Topology,
    asked: &'a [JobRequest],
    /// What jobs really do.
    truth: Box<dyn Throughput + 'a>,
    costs: &'a dyn SwitchCosts,
    settings: Settings,
    now: Nanos,
    queue: Queue,
    /// How many jobs have arrived; they are no events in the queue, as they come in order.
    arrived: usize,
    launches: Vec<Launch>,
    devices: Vec<Slot>,
    /// Names of commands.
    names: BTreeMap<JobId, String>,
    /// Who waits until a job has left, each with the number under which it does.
    awaited: BTreeMap<JobId, Vec<(JobId, u32)>>,
}

/// A device, and who is on it.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// Everyone who was put here, from the order to start on.
    has: Vec<JobId>,
    trains: Vec<JobId>,
    /// On its way off: told to pause or to stop, and not gone yet.
    leaves: Vec<JobId>,
    is_down: bool,
    /// How often it failed.
    faults: u32,
}

impl<'a> Sim<'a> {
    /// Jobs stand in order of arrival, as in [`crate::engine::Engine::new`].
    ///
    /// # Errors
    /// A job whose number of steps is not known, or what it costs to start it; settings that cannot be.
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
            settings,
            now: Nanos::ZERO,
            queue: Queue::default(),
            arrived: 0,
            launches: vec![Launch::default(); asked.len()],
            devices: vec![Slot::default(); topology.devices() as usize],
            names: commands.map(|asked| (asked.id, asked.what.workload().into_owned())).collect(),
            awaited: BTreeMap::new(),
        };
        sim.check()?;
        sim.plan_faults();
        Ok(sim)
    }

    fn check(&self) -> anyhow::Result<()> {
        let Settings { noise, progress_every, checkpoint_every, .. } = &self.settings;
        ensure!(
            noise.is_finite() && *noise >= 0.0,
            "the noise is {noise}; write a standard deviation of 0 or more, such as 0.02"
        );
        for (what, every) in [("progress", progress_every), ("a checkpoint", checkpoint_every)] {
            ensure!(*every != Some(Nanos::ZERO), "{what} cannot come every 0 ns");
        }
        for (asked, number) in self.asked.iter().zip(0..) {
            let name = &asked.name;
            ensure!(
                asked.id == JobId(number),
                "job '{name}': its number is {}, its place {number}",
                asked.id.0
            );
            let before = self.asked[..number as usize].last();
            let in_order = before.is_none_or(|before| before.arrival <= asked.arrival);
            ensure!(in_order, "job '{name}': it arrives before the one before it");
            if asked.steps.is_none() {
                bail!("job '{name}': how long it runs is not known; give its trace 'steps' and 'step_ns'");
            }
            let subject = self.subject(asked.id, asked.plan);
            for cost in [Cost::Start, Cost::Restart] {
                if self.costs.cost(&subject, asked.devices, cost, &mut || 0.0).is_none() {
                    bail!(
                        "job '{name}': what it costs to start or stop {} was not measured; calibrate with it, or name a cost with \
                         --switch-cost",
                        subject.workload
                    );
                }
            }
        }
        Ok(())
    }

    /// A job as the model knows it, under this plan.
    fn subject(&self, id: JobId, plan: Option<Plan>) -> Subject<'_> {
        let asked = &self.asked[id.0 as usize];
        let workload = match &asked.what {
            Payload::Training { workload, .. } => workload,
            Payload::Command(_) => &self.names[&id],
        };
        Subject { workload, global_batch: asked.what.global_batch(), plan, step_ns: asked.step_ns }
    }

    /// The instant that is this time from now.
    fn after(&self, time: Nanos) -> Nanos {
        self.now + time.min(LONGEST)
    }

    fn launch(&mut self, id: JobId) -> &mut Launch {
        &mut self.launches[id.0 as usize]
    }

    fn has(&self, id: JobId, number: u32) -> bool {
        self.launches[id.0 as usize].number == number
    }

    /// Lets a planned event happen; `None` where it is obsolete or has no meaning for the engine.
    fn meet(&mut self, event: Event) -> anyhow::Result<Option<Happened>> {
        if let Some(progress) = self.unknown_loss(event) {
            return Ok(Some(progress));
        }
        match event {
            Event::Finish(id, number) if self.has(id, number) => self.finish(id).map(Some),
            Event::Lose(id, number) if self.has(id, number) => {
                self.fail(id, ErrorKind::Killed, "a device that it ran on was lost").map(Some)
            }
            Event::Boundary(id, number) if self.has(id, number) => self.reach_boundary(id).map(|()| None),
            Event::Settle(id, number, to) if self.has(id, number) => self.settle(id, to).map(Some),
            Event::Crash(id, stint) if self.launch(id).stint == stint => {
                self.fail(id, ErrorKind::Crashed, "it was drawn to crash").map(Some)
            }
            // A job that was stopped reports no more progress, though it trains for a while.
            Event::Tell(id, stint)
                if self.launch(id).stint == stint && self.launch(id).phase == LaunchPhase::Training =>
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
        };
        done.map_err(|error| ActionError { action: action.clone(), why: format!("{error:#}") })
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Happened, ClusterError> {
        loop {
            let arrives = |asked: &JobRequest| (asked.arrival, Happened::Arrived { job: asked.id }.rank());
            let arrival = self.asked.get(self.arrived).map(arrives);
            let first = [arrival, self.queue.first()].into_iter().flatten().min();
            let Some((at, _)) = first.filter(|(at, _)| deadline.is_none_or(|deadline| *at <= deadline))
            else {
                self.now = self.now.max(deadline.ok_or(ClusterError::Nothing)?);
                return Ok(Happened::Deadline);
            };
            if at >= LONGEST {
                return Err(anyhow!("100 years have passed, and jobs are still to end").into());
            }
            self.now = self.now.max(at);
            if first == arrival {
                self.arrived += 1;
                return Ok(Happened::Arrived { job: self.asked[self.arrived - 1].id });
            }
            if let Some((_, event)) = self.queue.pop()
                && let Some(happened) = self.meet(event)?
            {
                return Ok(happened);
            }
        }
    }
}
