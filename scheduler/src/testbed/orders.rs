//! What is done with jobs, and in which order on a device: who begins or goes on where others are leaving waits until they have left.

use std::collections::BTreeSet;

use rig::Member;

use super::{
    Doing, Here, Testbed,
    launcher::{Launcher, Start},
    news::Fact,
};
use crate::cluster::{Action, DeviceId, JobId};

impl<L: Launcher> Testbed<L> {
    /// # Errors
    /// Why it cannot be done. Nothing was.
    pub(super) fn obey(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Start { job, devices, cpus, plan } => self.start(Start {
                job: *job,
                number: self.starts.get(job).copied().unwrap_or(0),
                devices: devices.clone(),
                cpus: *cpus,
                plan: *plan,
            }),
            Action::Pause { job } => self.pause(*job),
            Action::Resume { job } => self.resume(*job),
            Action::Stop { job, checkpoint } => self.stop(*job, *checkpoint),
        }
    }

    fn start(&mut self, start: Start) -> Result<(), String> {
        let job = start.job;
        if self.here.contains_key(&job) {
            return Err("it has devices already".into());
        }
        if let Some(lost) = start.devices.iter().find(|device| self.lost.contains(device)) {
            return Err(format!("device {} is lost", lost.0));
        }
        self.launcher.check(&start)?;
        let told_steps = self.launcher.saved_steps(job);
        let behind = self.leaving(&start.devices, job);
        let doing = Doing::WaitsToStart;
        self.here.insert(
            job,
            Here { start, launch: None, doing, behind, told_steps, began: None, next_progress: None },
        );
        *self.starts.entry(job).or_default() += 1;
        self.let_in(job);
        Ok(())
    }

    fn pause(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job)? {
            (Doing::Running, Some(launch)) => self.launcher.pause(launch)?,
            (doing, _) => return Err(format!("it is {doing} and cannot be paused")),
        }
        self.set(job, Doing::Pausing);
        Ok(())
    }

    fn resume(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job)? {
            (Doing::Paused, _) => {}
            (doing, _) => return Err(format!("it is {doing} and cannot be resumed")),
        }
        let devices = self.here.get(&job).map(|here| here.start.devices.clone()).unwrap_or_default();
        let behind = self.leaving(&devices, job);
        if let Some(here) = self.here.get_mut(&job) {
            (here.doing, here.behind) = (Doing::WaitsToResume, behind);
        }
        self.let_in(job);
        Ok(())
    }

    fn stop(&mut self, job: JobId, checkpoint: bool) -> Result<(), String> {
        match self.on(job)? {
            (Doing::Stopping, _) => return Err("it is stopping already".into()),
            (_, Some(launch)) => self.launcher.stop(launch, checkpoint)?,
            (_, None) => self.pending.push((self.now, Fact::GivenUp(job))),
        }
        self.set(job, Doing::Stopping);
        Ok(())
    }

    pub(super) fn on(&self, job: JobId) -> Result<(Doing, Option<Member>), String> {
        let here = self.here.get(&job).ok_or("it has no devices")?;
        Ok((here.doing, here.launch))
    }

    /// From now on it waits for nobody and does this.
    fn set(&mut self, job: JobId, doing: Doing) {
        if let Some(here) = self.here.get_mut(&job) {
            (here.doing, here.next_progress) = (doing, None);
            here.behind.clear();
        }
    }

    /// Those that are on their way off one of these devices.
    fn leaving(&self, devices: &[DeviceId], joining: JobId) -> BTreeSet<JobId> {
        let leaves = |here: &Here| matches!(here.doing, Doing::Pausing | Doing::Stopping);
        let there = |here: &Here| here.start.devices.iter().any(|device| devices.contains(device));
        let leaving = self.here.iter().filter(|(job, here)| **job != joining && leaves(here) && there(here));
        leaving.map(|(job, _)| *job).collect()
    }

    /// Lets a job on its devices, if nobody has to leave before.
    fn let_in(&mut self, job: JobId) {
        let Some(here) = self.here.get_mut(&job) else { return };
        // Of one whose device was lost while it waited, the failure is pending.
        if !here.behind.is_empty() || here.start.devices.iter().any(|device| self.lost.contains(device)) {
            return;
        }
        match (here.doing, here.launch) {
            (Doing::WaitsToStart, _) => match self.launcher.start(&here.start) {
                Ok(launch) => {
                    (here.doing, here.launch) = (Doing::Starting, Some(launch));
                    self.job_of.insert(launch, job);
                }
                Err(why) => {
                    let fact = Fact::NotStarted { job, number: here.start.number, why };
                    self.pending.push((self.now, fact));
                }
            },
            (Doing::WaitsToResume, Some(launch)) => {
                here.doing = Doing::Resuming;
                self.launcher.resume(launch);
            }
            _ => {}
        }
    }

    /// A job has left its devices: whoever waits for that alone begins.
    pub(super) fn left(&mut self, job: JobId) {
        let waiting: Vec<JobId> =
            self.here.iter_mut().filter_map(|(id, here)| here.behind.remove(&job).then_some(*id)).collect();
        waiting.into_iter().for_each(|id| self.let_in(id));
    }
}
