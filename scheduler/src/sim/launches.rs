//! What a job goes through on a simulated cluster: it starts, trains, leaves.

use anyhow::{Context as _, bail, ensure};
use model::switch_costs::Cost;
use schema::{
    decision::{ClusterEvent, DeviceId, JobId, Settled, Share},
    plan::Plan,
    rows::ErrorKind,
    suspension::Suspension,
    units::Nanos,
};

use super::{
    Settings, Sim,
    chance::{Draw, normal, numbers},
    events::Event,
    state::{LaunchPhase, SimulatedLaunch, boundary, whole},
};
use crate::reported::ReportedSteps;

impl Sim<'_> {
    pub(super) fn start(
        &mut self,
        id: JobId,
        devices: &[DeviceId],
        cpus: Option<u16>,
        plan: Option<Plan>,
    ) -> anyhow::Result<()> {
        ensure!(self.launch(id).phase == LaunchPhase::Away, "it is on devices already");
        if let Some(down) = devices.iter().find(|device| self.devices[device.0 as usize].is_down) {
            bail!("{} is lost", self.topology.name_of(*down));
        }
        let launch = self.launch(id);
        (launch.devices, launch.cpus, launch.plan) = (devices.to_vec(), cpus, plan);
        launch.share = Share::FULL;
        let cost = if launch.saved.is_some() { Cost::Restart } else { Cost::Start };
        let takes = match self.check_company(id).and_then(|()| self.cost(id, cost)) {
            Ok(takes) => takes,
            Err(error) => {
                self.launch(id).devices.clear();
                return Err(error);
            }
        };
        for device in devices {
            self.devices[device.0 as usize].has.push(id);
        }
        let takes = self.ordered(id, Settled::Running).unwrap_or(takes);
        let Settings { seed, noise, .. } = self.settings;
        let launch = self.launch(id);
        launch.speed = (noise * normal(&mut numbers(seed, Draw::Speed, id.0, launch.launches))).exp();
        launch.stretch.launch = launch.launches;
        launch.launches += 1;
        launch.began = None;
        launch.reported = ReportedSteps(launch.saved.unwrap_or(0));
        launch.losses_until = launch.reported.0;
        self.begin_after_others(id, takes);
        Ok(())
    }

    pub(super) fn pause(&mut self, id: JobId) -> anyhow::Result<()> {
        ensure!(self.launch(id).phase == LaunchPhase::Training, "it does not run");
        self.check_costs(id, &[Cost::Pause, Cost::Resume])?;
        self.leave_at_boundary(id, Settled::Paused, false);
        Ok(())
    }

    pub(super) fn resume(&mut self, id: JobId) -> anyhow::Result<()> {
        ensure!(self.launch(id).phase == LaunchPhase::Paused, "it is not paused");
        self.check_company(id)?;
        let takes = self.cost(id, Cost::Resume)?;
        let takes = self.ordered(id, Settled::Running).unwrap_or(takes);
        self.begin_after_others(id, takes);
        Ok(())
    }

    pub(super) fn stop(&mut self, id: JobId, checkpoint: bool) -> anyhow::Result<()> {
        self.check_costs(id, &[Cost::Checkpoint, Cost::Stop])?;
        let &mut SimulatedLaunch { phase, began, .. } = self.launch(id);
        match phase {
            LaunchPhase::Training => self.leave_at_boundary(id, Settled::Stopped, checkpoint),
            // Nothing of it is there yet.
            LaunchPhase::Waiting { .. } if began.is_none() => {
                self.will_leave(id);
                self.ordered(id, Settled::Stopped);
                self.switch(id, Settled::Stopped, checkpoint, Nanos::ZERO);
            }
            LaunchPhase::Waiting { .. }
            | LaunchPhase::Switching { to: Settled::Running, .. }
            | LaunchPhase::Paused => {
                let takes = self.cost_of_return(id, checkpoint)? + self.cost_of_stopping(id, checkpoint)?;
                let takes = self.ordered(id, Settled::Stopped).unwrap_or(takes);
                self.will_leave(id);
                self.switch(id, Settled::Stopped, checkpoint, takes);
            }
            LaunchPhase::Away | LaunchPhase::Leaving { .. } | LaunchPhase::Switching { .. } => {
                bail!("it is leaving")
            }
        }
        Ok(())
    }

    /// Stops a job without a checkpoint, unless it is being stopped already. The engine does not start it again.
    pub(super) fn end(&mut self, id: JobId) -> anyhow::Result<()> {
        match self.launch(id).phase {
            LaunchPhase::Away
            | LaunchPhase::Leaving { to: Settled::Stopped, .. }
            | LaunchPhase::Switching { to: Settled::Stopped, .. } => {}
            LaunchPhase::Leaving { at, .. } => {
                self.check_costs(id, &[Cost::Stop])?;
                self.launch(id).phase = LaunchPhase::Leaving { at, to: Settled::Stopped, checkpoint: false };
            }
            LaunchPhase::Switching { to: Settled::Paused, .. } => {
                let takes = self.cost(id, Cost::Stop)?;
                self.switch(id, Settled::Stopped, false, takes);
            }
            _ => self.stop(id, false)?,
        }
        Ok(())
    }

    /// The end of its last step here has come: the job leaves.
    pub(super) fn reach_boundary(&mut self, id: JobId) -> anyhow::Result<()> {
        let LaunchPhase::Leaving { at, to, checkpoint } = self.launch(id).phase else { return Ok(()) };
        self.cease_training(id)?;
        self.launch(id).stretch.steps = at as f64;
        let takes = match to {
            Settled::Paused => self.cost(id, Cost::Pause)?,
            _ => self.cost_of_stopping(id, checkpoint)?,
        };
        let takes = self.ordered(id, to).unwrap_or(takes);
        self.switch(id, to, checkpoint, takes);
        Ok(())
    }

    pub(super) fn settle(&mut self, id: JobId, to: Settled) -> anyhow::Result<ClusterEvent> {
        match to {
            Settled::Running => {
                let now = self.now;
                self.launch(id).began.get_or_insert(now);
                self.train(id)?;
            }
            Settled::Paused => {
                let launch = self.launch(id);
                launch.phase = LaunchPhase::Paused;
                launch.number += 1;
                self.has_left(id);
            }
            Settled::Stopped => {
                let launch = self.launch(id);
                let is_written = matches!(launch.phase, LaunchPhase::Switching { checkpoint: true, .. });
                if is_written && launch.has_more() {
                    launch.saved = Some(whole(launch.stretch.steps));
                }
                self.vacate(id);
            }
        }
        let launch = self.launch(id);
        let steps = whole(launch.stretch.steps);
        launch.reported = ReportedSteps(steps);
        Ok(ClusterEvent::Settled { job: id, now: to, steps })
    }

    pub(super) fn finish(&mut self, id: JobId) -> anyhow::Result<ClusterEvent> {
        self.cease_training(id)?;
        let steps = self.asked[id.0 as usize].steps.unwrap_or_default();
        self.vacate(id);
        self.launches.forget(id);
        Ok(ClusterEvent::Finished { job: id, steps })
    }

    /// Steps that this event loses and that were not reported. They are reported as progress first, and then the event happens.
    pub(super) fn unknown_loss(&mut self, event: Event) -> Option<ClusterEvent> {
        let id = match event {
            Event::Lose(id, launches) if self.is_there(id, launches) => id,
            Event::Settle(id, number, Settled::Stopped) if self.has(id, number) => id,
            Event::Crash(id, stint) if self.launches[id].stint == stint => id,
            _ => return None,
        };
        let is_written = match (event, self.launch(id).phase) {
            (Event::Settle(..), LaunchPhase::Switching { checkpoint, .. }) => checkpoint,
            (_, LaunchPhase::Training | LaunchPhase::Leaving { .. }) => {
                self.end_stretch(id);
                false
            }
            _ => false,
        };
        let now = self.now;
        let launch = self.launch(id);
        let steps = whole(launch.stretch.steps);
        let kept = if is_written { steps } else { launch.saved.unwrap_or(0) };
        if !launch.reported.is_due_before_loss(steps, kept) {
            return None;
        }
        self.queue.plan(now, event);
        Some(self.progress(id, steps))
    }

    /// The launch is gone, whatever it was doing.
    pub(super) fn fail(&mut self, id: JobId, kind: ErrorKind, why: &str) -> anyhow::Result<ClusterEvent> {
        if matches!(self.launch(id).phase, LaunchPhase::Training | LaunchPhase::Leaving { .. }) {
            self.cease_training(id)?;
        }
        self.vacate(id);
        let steps = whole(self.launch(id).stretch.steps);
        Ok(ClusterEvent::Failed { job: id, steps, kind, detail: why.into() })
    }

    /// Begins at once, or when all jobs that are leaving its devices have left.
    fn begin_after_others(&mut self, id: JobId, takes: Nanos) {
        if self.releases.wait(id, &self.launches[id].devices) {
            self.launch(id).phase = LaunchPhase::Waiting { takes };
        } else {
            self.switch(id, Settled::Running, false, takes);
        }
    }

    fn switch(&mut self, id: JobId, to: Settled, checkpoint: bool, takes: Nanos) {
        let at = self.after(takes);
        let launch = self.launch(id);
        launch.number += 1;
        launch.phase = LaunchPhase::Switching { to, checkpoint };
        let number = launch.number;
        self.queue.plan(at, Event::Settle(id, number, to));
    }

    fn leave_at_boundary(&mut self, id: JobId, to: Settled, checkpoint: bool) {
        self.will_leave(id);
        let launch = &self.launches[id];
        let works_on = self.costs.works_on(&self.subject(id, launch.plan), launch.devices.len() as u32);
        // Who is granted work has the step after the present one always, however long it is.
        let works_on = if works_on == Nanos::ZERO {
            works_on
        } else {
            works_on.max(Nanos(launch.stretch.step_ns as u64))
        };
        let nth = launch.ordered[to as usize];
        let at = match self.course.leaves_at(id, to, nth) {
            Some(at) => at.max(boundary(self.steps_at(id, self.now))),
            None => boundary(self.steps_at(id, self.after(works_on))),
        };
        self.launch(id).phase = LaunchPhase::Leaving { at, to, checkpoint };
        self.plan_goal(id);
    }

    /// Counts a switch to a state. Returns its duration if the course has one for it.
    fn ordered(&mut self, id: JobId, to: Settled) -> Option<Nanos> {
        let nth = &mut self.launch(id).ordered[to as usize];
        *nth += 1;
        let nth = *nth - 1;
        self.course.switch(id, to, nth)
    }

    /// Draws what a switch takes.
    fn cost(&mut self, id: JobId, of: Cost) -> anyhow::Result<Nanos> {
        let launch = self.launch(id);
        launch.switches += 1;
        let mut chance = numbers(self.settings.seed, Draw::Switch, id.0, self.launches[id].switches);
        self.known_cost(id, of, &mut || normal(&mut chance))
    }

    /// Refuses an action whose duration is not known.
    fn check_costs(&self, id: JobId, costs: &[Cost]) -> anyhow::Result<()> {
        costs.iter().try_for_each(|cost| self.known_cost(id, *cost, &mut || 0.0).map(drop))
    }

    fn known_cost(&self, id: JobId, of: Cost, luck: &mut dyn FnMut() -> f64) -> anyhow::Result<Nanos> {
        let launch = &self.launches[id];
        let subject = self.subject(id, launch.plan);
        let cost = self.costs.cost(&subject, launch.devices.len() as u32, of, luck);
        cost.with_context(|| format!("what {} costs {} was not measured", of.noun(), subject.workload))
    }

    /// Of one that holds no step since its last checkpoint, none is written.
    fn cost_of_stopping(&mut self, id: JobId, checkpoint: bool) -> anyhow::Result<Nanos> {
        let launch = self.launch(id);
        let written =
            if checkpoint && launch.has_more() { self.cost(id, Cost::Checkpoint)? } else { Nanos::ZERO };
        Ok(written + self.cost(id, Cost::Stop)?)
    }

    /// A paused job that was moved off its device as a whole comes back to be saved.
    fn cost_of_return(&mut self, id: JobId, checkpoint: bool) -> anyhow::Result<Nanos> {
        let is_moved = self.settings.suspension == Suspension::CudaCheckpoint
            && self.launch(id).phase == LaunchPhase::Paused;
        if is_moved && checkpoint { self.cost(id, Cost::Resume) } else { Ok(Nanos::ZERO) }
    }

    fn will_leave(&mut self, id: JobId) {
        self.releases.leave(id, &self.launches[id].devices);
    }

    /// Lets the jobs begin that waited for it alone.
    fn has_left(&mut self, id: JobId) {
        for other in self.releases.left(id) {
            if let LaunchPhase::Waiting { takes } = self.launch(other).phase {
                self.switch(other, Settled::Running, false, takes);
            }
        }
    }

    /// Nothing of it is left here but its last checkpoint.
    fn vacate(&mut self, id: JobId) {
        for device in &self.launches[id].devices {
            self.devices[device.0 as usize].has.retain(|other| *other != id);
        }
        self.has_left(id);
        let launch = self.launch(id);
        launch.devices.clear();
        launch.phase = LaunchPhase::Away;
        launch.number += 1;
        launch.stretch.steps = launch.saved.unwrap_or(0) as f64;
    }
}
