//! What a launch goes through on a simulated cluster: it starts, trains, leaves.

use anyhow::{Context as _, bail, ensure};
use formats::decision::{ClusterEvent, JobId, Settled};
use model::switch_costs::Cost;
use record::{rows::ErrorKind, suspension::Suspension};
use schema::units::Nanos;

use super::{
    Settings, SimulatedLauncher,
    chance::{Draw, normal, numbers},
    events::Event,
    state::{LaunchPhase, SimulatedLaunch, boundary, whole},
};
use crate::{launcher::StartRequest, take_off};

/// The time by which a scheduler may have given an order late.
const LATE: Nanos = Nanos(10_000_000);

impl SimulatedLauncher<'_> {
    pub(super) fn begin(&mut self, start: &StartRequest) -> anyhow::Result<()> {
        let id = start.job;
        let launch = self.launches.add(start);
        let cost = if launch.saved.is_some() { Cost::Restart } else { Cost::Start };
        let Settings { seed, noise, .. } = self.settings;
        launch.speed = (noise * normal(&mut numbers(seed, Draw::Speed, id.0, start.number))).exp();
        let takes = match self.asked[id.0 as usize].part_ns {
            // The duration of the program contains its start.
            Some(_) => Nanos::ZERO,
            None => self.cost(id, cost)?,
        };
        let takes = self.ordered(id, Settled::Running).unwrap_or(takes);
        self.launches[id].steps_in_start = self.steps_within(start, takes)?;
        for device in &start.devices {
            self.devices[device.0 as usize].has.push(id);
        }
        self.switch(id, Settled::Running, false, takes);
        Ok(())
    }

    /// The steps that a launch does within its start: those of the record of its job's first start, or no more than the job has left, and
    /// than fit into the time of the start.
    fn steps_within(&mut self, start: &StartRequest, takes: Nanos) -> anyhow::Result<u64> {
        let (asked, saved) = (&self.asked[start.job.0 as usize], self.launches[start.job].saved.unwrap_or(0));
        if asked.steps_in_start == 0 || asked.part_ns.is_some() {
            return Ok(0);
        }
        let left = asked.steps.unwrap_or_default().saturating_sub(saved);
        if saved == 0
            && let Some(recorded) = self.course.leaves_at(start.job, start.number, Settled::Running, 0)
        {
            return Ok(recorded.min(left));
        }
        let fitting = takes.0 as f64 / self.step_ns(start, &[], &[])?;
        Ok(asked.steps_in_start.min(whole(fitting)).min(left))
    }

    pub(super) fn suspend(&mut self, id: JobId) -> anyhow::Result<()> {
        if self.launches[id].phase == LaunchPhase::Exiting {
            return Ok(());
        }
        ensure!(self.launches[id].phase == LaunchPhase::Training, "it does not run");
        self.check_costs(&self.launches[id].start, &[Cost::Pause, Cost::Resume])?;
        self.leave_at_boundary(id, Settled::Paused, false);
        Ok(())
    }

    pub(super) fn train_on(&mut self, id: JobId) {
        let takes = self.cost(id, Cost::Resume).expect("it was known when the launch was suspended");
        let takes = self.ordered(id, Settled::Running).unwrap_or(takes);
        self.switch(id, Settled::Running, false, takes);
    }

    /// Ends a launch, which may be on its way to a pause, but not to an end. One that exits after its last step finishes.
    pub(super) fn end(&mut self, id: JobId, checkpoint: bool) -> anyhow::Result<()> {
        self.check_costs(&self.launches[id].start, &[Cost::Checkpoint, Cost::Stop])?;
        match self.launches[id].phase {
            LaunchPhase::Training => self.leave_at_boundary(id, Settled::Stopped, checkpoint),
            LaunchPhase::Switching { to: Settled::Running, .. } | LaunchPhase::Paused => {
                let takes = self.cost_of_return(id, checkpoint)? + self.cost_of_stopping(id, checkpoint)?;
                let takes = self.ordered(id, Settled::Stopped).unwrap_or(takes);
                self.switch(id, Settled::Stopped, checkpoint, takes);
            }
            LaunchPhase::Leaving { at, to: Settled::Paused, by_record, .. } => {
                let to = Settled::Stopped;
                self.launches[id].phase = LaunchPhase::Leaving { at, to, checkpoint, by_record };
            }
            LaunchPhase::Switching { to: Settled::Paused, .. } => {
                let takes = self.cost_of_stopping(id, checkpoint)?;
                self.switch(id, Settled::Stopped, checkpoint, takes);
            }
            LaunchPhase::Exiting => {}
            LaunchPhase::Away | LaunchPhase::Leaving { .. } | LaunchPhase::Switching { .. } => {
                bail!("it is leaving")
            }
        }
        Ok(())
    }

    /// The end of its last step here has come: the launch leaves.
    pub(super) fn reach_boundary(&mut self, id: JobId) -> anyhow::Result<()> {
        let LaunchPhase::Leaving { at, to, checkpoint, .. } = self.launches[id].phase else { return Ok(()) };
        self.cease_training(id)?;
        self.launches[id].stretch.steps = at as f64;
        let takes = match to {
            Settled::Paused => self.cost(id, Cost::Pause)?,
            _ => self.cost_of_stopping(id, checkpoint)?,
        };
        let takes = self.ordered(id, to).unwrap_or(takes);
        self.switch(id, to, checkpoint, takes);
        Ok(())
    }

    pub(super) fn settle(&mut self, id: JobId, to: Settled) -> anyhow::Result<ClusterEvent> {
        let now = self.now;
        let launch = &mut self.launches[id];
        let mut steps = whole(launch.stretch.steps);
        match to {
            Settled::Running => {
                if let Some(why) = self.lacks_memory(id) {
                    return self.fail(id, ErrorKind::OutOfMemory, &why);
                }
                let launch = &mut self.launches[id];
                launch.began.get_or_insert(now);
                launch.stretch.steps += std::mem::take(&mut launch.steps_in_start) as f64;
                steps = whole(launch.stretch.steps);
                self.train(id)?;
            }
            Settled::Paused => {
                launch.phase = LaunchPhase::Paused;
                launch.number += 1;
            }
            Settled::Stopped => {
                let is_written = matches!(launch.phase, LaunchPhase::Switching { checkpoint: true, .. });
                if is_written && launch.has_more() {
                    launch.saved = Some(steps);
                }
                steps = launch.saved.unwrap_or(0);
                self.vacate(id);
            }
        }
        Ok(ClusterEvent::Settled { job: id, now: to, steps })
    }

    /// The job has done its last step. Its processes keep its devices until they have ended.
    pub(super) fn finish(&mut self, id: JobId) -> anyhow::Result<Option<ClusterEvent>> {
        self.cease_training(id)?;
        let takes = self.time_of_exit(id);
        if takes == Nanos::ZERO {
            return Ok(Some(self.exited(id)));
        }
        let at = self.after(takes);
        let launch = &mut self.launches[id];
        launch.stretch.steps = self.asked[id.0 as usize].steps.unwrap_or_default() as f64;
        launch.phase = LaunchPhase::Exiting;
        launch.number += 1;
        self.queue.plan(at, Event::Exit(id, launch.number));
        Ok(None)
    }

    /// The processes of a job that has done its last step have ended.
    pub(super) fn exited(&mut self, id: JobId) -> ClusterEvent {
        let steps = self.asked[id.0 as usize].steps.unwrap_or_default();
        self.vacate(id);
        self.launches.forget(id);
        ClusterEvent::Finished { job: id, steps }
    }

    /// The launch is gone, whatever it was doing.
    pub(super) fn fail(&mut self, id: JobId, kind: ErrorKind, why: &str) -> anyhow::Result<ClusterEvent> {
        if self.launches[id].trains() {
            self.cease_training(id)?;
        }
        self.vacate(id);
        let steps = self.launches[id].saved.unwrap_or(0);
        Ok(ClusterEvent::Failed { job: id, steps, kind, detail: why.into() })
    }

    fn switch(&mut self, id: JobId, to: Settled, checkpoint: bool, takes: Nanos) {
        let at = self.after(takes);
        let launch = &mut self.launches[id];
        launch.number += 1;
        launch.phase = LaunchPhase::Switching { to, checkpoint };
        let number = launch.number;
        self.queue.plan(at, Event::Settle(id, number, to));
    }

    fn leave_at_boundary(&mut self, id: JobId, to: Settled, checkpoint: bool) {
        let SimulatedLaunch { start, stretch, ordered, .. } = &self.launches[id];
        let works_on = self.costs.works_on(&self.subject(start), start.devices.len() as u32);
        // Who is granted work has the step after the present one always, however long it is.
        let works_on =
            if works_on == Nanos::ZERO { works_on } else { works_on.max(Nanos(stretch.step_ns as u64)) };
        // A launch does its granted steps within the recorded switch. If the recorded steps would take much longer, the launch leaves
        // earlier than in the run, and these steps were not granted.
        let nth = ordered[to as usize];
        let takes = self.course.switch(id, start.number, to, nth).unwrap_or_default();
        let recorded = self.course.leaves_at(id, start.number, to, nth);
        let latest = self.now + takes + takes.max(LATE);
        let done_at = recorded.map(|at| self.course.time_of(id, stretch, at as f64));
        let recorded = recorded.filter(|_| done_at.is_some_and(|done_at| done_at <= latest));
        // A launch that begins a little earlier than in the run is a little ahead. It does not stay ahead: otherwise, each of its
        // launches would gain steps on the one before.
        let is_ahead = done_at.is_some_and(|done_at| done_at + LATE < self.now);
        let at = match recorded {
            Some(at) if !is_ahead => at,
            Some(at) => at.max(self.steps_at(id, self.now).round() as u64),
            None => boundary(self.steps_at(id, self.after(works_on))),
        };
        let launch = &mut self.launches[id];
        let (at, by_record) = (at.max(launch.reported), recorded.is_some());
        launch.phase = LaunchPhase::Leaving { at, to, checkpoint, by_record };
        self.plan_goal(id);
    }

    /// Counts a switch to a state. Returns its duration if the course has one for it.
    fn ordered(&mut self, id: JobId, to: Settled) -> Option<Nanos> {
        let SimulatedLaunch { start, ordered, .. } = &mut self.launches[id];
        let nth = &mut ordered[to as usize];
        *nth += 1;
        self.course.switch(id, start.number, to, *nth - 1)
    }

    /// Draws what a switch takes.
    fn cost(&mut self, id: JobId, of: Cost) -> anyhow::Result<Nanos> {
        let launch = &mut self.launches[id];
        launch.switches += 1;
        let mut chance = numbers(self.settings.seed, Draw::Switch, id.0, launch.switches);
        self.known_cost(&self.launches[id].start, of, &mut || normal(&mut chance))
    }

    /// Draws what the exit after the last step takes. It takes no time if that is not known.
    fn time_of_exit(&mut self, id: JobId) -> Nanos {
        if self.asked[id.0 as usize].part_ns.is_some() {
            // The duration of the program contains its exit.
            return Nanos::ZERO;
        }
        let recorded = self.course.exit(id, self.launches[id].start.number);
        recorded.or_else(|| self.cost(id, Cost::Exit).ok()).unwrap_or_default()
    }

    /// Refuses an action whose duration is not known.
    pub(super) fn check_costs(&self, start: &StartRequest, costs: &[Cost]) -> anyhow::Result<()> {
        costs.iter().try_for_each(|cost| self.known_cost(start, *cost, &mut || 0.0).map(drop))
    }

    fn known_cost(
        &self,
        start: &StartRequest,
        of: Cost,
        luck: &mut dyn FnMut() -> f64,
    ) -> anyhow::Result<Nanos> {
        let subject = self.subject(start);
        let cost = self.costs.cost(&subject, start.devices.len() as u32, of, luck);
        cost.with_context(|| format!("what {} costs {} was not measured", of.noun(), subject.workload))
    }

    /// Of one that holds no step since its last checkpoint, none is written.
    fn cost_of_stopping(&mut self, id: JobId, checkpoint: bool) -> anyhow::Result<Nanos> {
        let is_written = checkpoint && self.launches[id].has_more();
        let written = if is_written { self.cost(id, Cost::Checkpoint)? } else { Nanos::ZERO };
        Ok(written + self.cost(id, Cost::Stop)?)
    }

    /// A paused job that was moved off its device as a whole comes back to be saved.
    fn cost_of_return(&mut self, id: JobId, checkpoint: bool) -> anyhow::Result<Nanos> {
        let is_moved = self.settings.suspension == Suspension::CudaCheckpoint
            && self.launches[id].phase == LaunchPhase::Paused;
        if is_moved && checkpoint { self.cost(id, Cost::Resume) } else { Ok(Nanos::ZERO) }
    }

    /// Nothing of it is left here but its last checkpoint.
    fn vacate(&mut self, id: JobId) {
        let launch = &mut self.launches[id];
        for device in &launch.start.devices {
            take_off(&mut self.devices[device.0 as usize].has, id);
        }
        launch.phase = LaunchPhase::Away;
        launch.number += 1;
    }
}
