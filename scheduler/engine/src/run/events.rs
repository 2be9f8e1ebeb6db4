//! Updates the state of jobs and devices after an event.

use anyhow::{bail, ensure};
use formats::decision::{ClusterEvent, Settled};
use record::rows::ErrorKind;
use schema::units::Nanos;

use super::Engine;
use crate::{
    cluster::JobId,
    job::{Ending, MeasuredStep, Phase, Placed, State},
    view::Change,
};

impl Engine<'_> {
    /// # Errors
    /// Fails if the event contradicts the present state, which is a bug of the cluster.
    pub(super) fn apply(&mut self, now: Nanos, happened: &ClusterEvent) -> anyhow::Result<()> {
        ensure!(now >= self.now, "the clock went back: its last time was {}", self.now);
        self.now = now;
        if let Some(chain) = &mut self.chain {
            chain.happened(now, happened);
        }
        match *happened {
            ClusterEvent::Arrived { job } => {
                ensure!(job.0 as usize == self.arrived, "{} jobs have arrived before it", self.arrived);
                ensure!(self.arrived < self.asked.len(), "there is no such job");
                let arrival = self.asked[self.arrived].arrival;
                ensure!(now >= arrival, "the job arrives only at {arrival}");
                self.arrived += 1;
                // A job that is not admitted has ended already.
                if let State::Waiting { .. } = self.jobs[job.0 as usize].state {
                    self.changes.push(Change::Waits(job));
                }
            }
            ClusterEvent::Progress { job, steps, loss } => {
                let runs = self.placed_at(job)?.phase == Phase::Running;
                let before = &self.jobs[job.0 as usize];
                let last = (before.steps, before.steps_at);
                let is_one_rate = before.steps_at >= before.rate_since;
                let (done, passed) =
                    (steps.saturating_sub(before.steps), now.saturating_sub(before.steps_at));
                self.set_steps(job, steps)?;
                if done > 0 || loss.is_some() {
                    self.jobs[job.0 as usize].loss = loss;
                }
                if runs && is_one_rate && done > 0 && passed > Nanos::ZERO {
                    let step_ns = passed.0 as f64 / done as f64;
                    self.jobs[job.0 as usize].measured = Some(MeasuredStep { step_ns, at: now });
                }
                self.changes.push(Change::Progressed(job));
                self.learn(job, last);
            }
            ClusterEvent::Settled { job, now: settled, steps } => self.settled(job, settled, steps)?,
            ClusterEvent::Finished { job, steps } => {
                self.placed_at(job)?;
                self.set_steps(job, steps)?;
                self.end(job, Ending::Finished);
            }
            ClusterEvent::Failed { job, steps, kind, ref detail } => {
                let placed = self.placed_at(job)?.clone();
                if placed.phase == Phase::Ending {
                    self.ended_by_policy(job, steps);
                } else {
                    self.roll_back(job, steps);
                    self.failed(job, &placed, kind, detail);
                }
            }
            ClusterEvent::DeviceLost { device } => {
                ensure!(device.0 < self.topology.devices(), "there is no such device");
                ensure!(!self.occupancy.is_lost(device), "it is lost already");
                let there: Vec<JobId> = self.all_there(&[device]).collect();
                let names: Vec<&str> = there.iter().map(|job| &*self.asked[job.0 as usize].name).collect();
                ensure!(there.is_empty(), "jobs on it have not failed: {}", names.join(", "));
                self.occupancy.set_lost(device, true);
                self.changes.push(Change::Lost(device));
            }
            ClusterEvent::DeviceBack { device } => {
                ensure!(device.0 < self.topology.devices(), "there is no such device");
                ensure!(self.occupancy.is_lost(device), "it was not lost");
                self.occupancy.set_lost(device, false);
                self.changes.push(Change::Back(device));
            }
            ClusterEvent::Deadline => {
                ensure!(self.wake_at.is_some_and(|at| at <= now), "the policy did not ask to be woken");
            }
        }
        Ok(())
    }

    fn settled(&mut self, id: JobId, settled: Settled, steps: u64) -> anyhow::Result<()> {
        let phase = self.placed_at(id)?.phase;
        match (phase, settled) {
            (Phase::Starting | Phase::Resuming, Settled::Running) => {
                self.set_steps(id, steps)?;
                self.enter(id, Phase::Running);
            }
            (Phase::Pausing, Settled::Paused) => {
                self.set_steps(id, steps)?;
                self.enter(id, Phase::Paused);
            }
            (Phase::Stopping, Settled::Stopped) => {
                self.roll_back(id, steps);
                self.jobs[id.0 as usize].stopped_on = self.placed_at(id)?.devices.clone();
                self.change(id, State::Waiting { since: self.now });
            }
            (Phase::Ending, Settled::Stopped) => {
                self.ended_by_policy(id, steps);
                return Ok(());
            }
            _ => bail!("the job is {phase}"),
        }
        self.changes.push(Change::Settled(id));
        if settled == Settled::Stopped {
            self.changes.push(Change::Waits(id));
        }
        Ok(())
    }

    /// A job that the policy ended has left. Its steps stay those that it has done, though no later launch has them.
    fn ended_by_policy(&mut self, id: JobId, saved_steps: u64) {
        let job = &mut self.jobs[id.0 as usize];
        job.report(job.steps.max(saved_steps), self.now);
        self.end(id, Ending::ByPolicy);
    }

    /// Returns a failed job to the queue, or ends it if it is not to be started again.
    fn failed(&mut self, id: JobId, placed: &Placed, kind: ErrorKind, detail: &str) {
        let Placed { devices, plan, .. } = placed;
        let others = self.others_in_memory(id, devices);
        let asked = &self.asked[id.0 as usize];
        let is_as_asked = *plan == asked.plan && devices.len() as u32 == asked.devices;
        let is_too_large = kind == ErrorKind::OutOfMemory && others.is_empty() && !self.crowded.contains(&id);
        let has_chance = match kind {
            // If two jobs did not fit together, both may have failed. The second is alone when its failure is reported.
            ErrorKind::OutOfMemory => !is_too_large || !is_as_asked,
            // Another start would fail in the same way, or may: what failed is the driver.
            ErrorKind::Unsupported | ErrorKind::TooShort | ErrorKind::Suspension | ErrorKind::Clock => false,
            // The user interrupted it, or its device was lost. The job is not at fault.
            ErrorKind::Interrupted | ErrorKind::DeviceLost => true,
            _ => {
                let retries = &mut self.jobs[id.0 as usize].retries;
                let has_chance = *retries < self.settings.retries;
                *retries += u32::from(has_chance);
                has_chance
            }
        };
        if has_chance {
            self.change(id, State::Waiting { since: self.now });
            self.changes.push(Change::Waits(id));
        } else {
            self.end(id, Ending::Failed(kind, detail.into()));
        }
        if is_too_large && has_chance {
            self.too_large.insert((id, *plan, self.occupancy.pool_of(devices[0])));
            self.changes.push(Change::TooLarge { job: id, plan: *plan });
        }
        if kind == ErrorKind::OutOfMemory {
            for other in others {
                self.do_not_fit.insert((id.min(other), id.max(other)));
                self.crowded.insert(other);
                self.changes.push(Change::DoNotFit(id, other));
            }
        }
    }

    fn placed_at(&self, id: JobId) -> anyhow::Result<&Placed> {
        match self.jobs.get(id.0 as usize).map(|job| &job.state) {
            Some(State::Placed(placed)) => Ok(placed),
            Some(State::Waiting { .. }) => bail!("the job has no devices"),
            Some(State::Ended { .. }) => bail!("the job has ended"),
            None => bail!("there is no such job"),
        }
    }

    fn set_steps(&mut self, id: JobId, steps: u64) -> anyhow::Result<()> {
        let job = &mut self.jobs[id.0 as usize];
        ensure!(steps >= job.steps, "its steps went back: the last report was {}", job.steps);
        job.report(steps, self.now);
        Ok(())
    }

    /// Sets the steps of a job to those of its checkpoint. Later ones are lost.
    fn roll_back(&mut self, id: JobId, steps: u64) {
        let job = &mut self.jobs[id.0 as usize];
        job.account.steps_lost += job.steps.saturating_sub(steps);
        job.report(steps, self.now);
    }
}
