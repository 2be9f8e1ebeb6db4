//! What an event makes of the state of jobs and devices.

use anyhow::{bail, ensure};
use schema::{
    decision::{Happened, Settled},
    rows::ErrorKind,
    units::Nanos,
};

use super::Engine;
use crate::{
    cluster::JobId,
    job::{Phase, Placed, State},
    topology::DeviceId,
    view::Change,
};

impl Engine<'_> {
    /// # Errors
    /// An event that cannot follow on what is known: the cluster has a fault.
    pub(super) fn apply(&mut self, now: Nanos, happened: &Happened) -> anyhow::Result<()> {
        ensure!(now >= self.now, "the clock stood at {} before", self.now);
        self.now = now;
        self.chain.happened(now, happened);
        match *happened {
            Happened::Arrived { job } => {
                ensure!(job.0 as usize == self.arrived, "{} jobs have arrived before it", self.arrived);
                ensure!(self.arrived < self.asked.len(), "there is no such job");
                ensure!(now >= self.asked[self.arrived].arrival, "it is not time");
                self.arrived += 1;
                // One that is not admitted has ended.
                if let State::Waiting { .. } = self.jobs[job.0 as usize].state {
                    self.changes.push(Change::Waits(job));
                }
            }
            Happened::Progress { job, steps } => {
                self.placed_at(job)?;
                self.told(job, steps)?;
                self.changes.push(Change::Progressed(job));
            }
            Happened::Settled { job, now: settled, steps } => self.settled(job, settled, steps)?,
            Happened::Finished { job, steps } => {
                self.placed_at(job)?;
                self.told(job, steps)?;
                self.change(job, State::Ended { at: now, failed: None });
                self.changes.push(Change::Ended(job));
            }
            Happened::Failed { job, steps, kind, ref detail } => {
                let devices = self.placed_at(job)?.devices.clone();
                self.fallen_back(job, steps);
                self.failed(job, &devices, kind, detail);
            }
            Happened::DeviceLost { device } => {
                ensure!(device.0 < self.topology.devices(), "there is no such device");
                ensure!(!self.occupancy.is_lost(device), "it was lost before");
                let there: Vec<JobId> = self.all_there(&[device]).collect();
                let names: Vec<&str> = there.iter().map(|job| &*self.asked[job.0 as usize].name).collect();
                ensure!(there.is_empty(), "jobs are there that have not failed: {}", names.join(", "));
                self.occupancy.set_lost(device, true);
                self.changes.push(Change::Lost(device));
            }
            Happened::DeviceBack { device } => {
                ensure!(device.0 < self.topology.devices(), "there is no such device");
                ensure!(self.occupancy.is_lost(device), "it was not lost");
                self.occupancy.set_lost(device, false);
                self.changes.push(Change::Back(device));
            }
            Happened::Deadline => {
                ensure!(self.wake_at.is_some_and(|at| at <= now), "no policy asked to be woken");
            }
        }
        Ok(())
    }

    fn settled(&mut self, id: JobId, settled: Settled, steps: u64) -> anyhow::Result<()> {
        let phase = self.placed_at(id)?.phase;
        match (phase, settled) {
            (Phase::Starting | Phase::Resuming, Settled::Running) => {
                self.told(id, steps)?;
                self.enter(id, Phase::Running);
            }
            (Phase::Pausing, Settled::Paused) => {
                self.told(id, steps)?;
                self.enter(id, Phase::Paused);
            }
            (Phase::Stopping, Settled::Stopped) => {
                self.fallen_back(id, steps);
                self.change(id, State::Waiting { since: self.now });
            }
            _ => bail!("the job was {phase}"),
        }
        self.changes.push(Change::Settled(id));
        if settled == Settled::Stopped {
            self.changes.push(Change::Waits(id));
        }
        Ok(())
    }

    /// Gives the job another chance, or none.
    fn failed(&mut self, id: JobId, devices: &[DeviceId], kind: ErrorKind, detail: &str) {
        let others = self.others_there(id, devices);
        let has_chance = match kind {
            // Of two that did not fit together, both may have run out, and the one that is heard of last is alone by then.
            ErrorKind::OutOfMemory => !others.is_empty() || self.crowded.contains(&id),
            // It will never run here, and the next time it would come to its end as early.
            ErrorKind::Unsupported | ErrorKind::TooShort => false,
            // The user's doing, and none of the job's.
            ErrorKind::Interrupted => true,
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
            self.change(id, State::Ended { at: self.now, failed: Some((kind, detail.to_owned())) });
            self.changes.push(Change::Ended(id));
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

    fn told(&mut self, id: JobId, steps: u64) -> anyhow::Result<()> {
        let job = &mut self.jobs[id.0 as usize];
        ensure!(steps >= job.steps, "it had done {} steps before", job.steps);
        (job.steps, job.steps_at) = (steps, self.now);
        Ok(())
    }

    /// Of its steps, only those of a checkpoint count any more.
    fn fallen_back(&mut self, id: JobId, steps: u64) {
        let job = &mut self.jobs[id.0 as usize];
        job.account.steps_lost += job.steps.saturating_sub(steps);
        (job.steps, job.steps_at) = (steps, self.now);
    }
}
