//! Actions on jobs, and their order on a device: a job that begins or resumes where others are leaving waits until they have left.

use std::collections::BTreeSet;

use rig::Member;
use schema::rows::ErrorKind;

use super::{
    JobPhase, PlacedJob, Testbed,
    launcher::{Launcher, StartRequest},
};
use crate::cluster::{Action, DeviceId, Happened, JobId, Settled, Share};

impl<L: Launcher> Testbed<L> {
    /// # Errors
    /// Why it cannot be done. Nothing was.
    pub(super) fn obey(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Start { job, devices, cpus, plan } => self.start(StartRequest {
                job: *job,
                number: self.starts.get(job).copied().unwrap_or(0),
                devices: devices.clone(),
                cpus: *cpus,
                plan: *plan,
                share: Share::FULL,
            }),
            Action::Pause { job } => self.pause(*job),
            Action::Resume { job } => self.resume(*job),
            Action::Stop { job, checkpoint } => self.stop(*job, *checkpoint),
            Action::End { job } => self.end(*job),
            Action::Throttle { job, share } => self.throttle(*job, *share),
        }
    }

    fn start(&mut self, start: StartRequest) -> Result<(), String> {
        let job = start.job;
        if self.placed.contains_key(&job) {
            return Err("it has devices already".into());
        }
        if let Some(lost) = start.devices.iter().find(|device| self.lost.contains(device)) {
            return Err(format!("device {} is lost", lost.0));
        }
        self.launcher.check(&start)?;
        let told_steps = self.launcher.saved_steps(job);
        let behind = self.leaving(&start.devices, job);
        let phase = JobPhase::WaitsToStart;
        self.placed.insert(
            job,
            PlacedJob { start, launch: None, phase, behind, told_steps, began: None, next_progress: None },
        );
        *self.starts.entry(job).or_default() += 1;
        self.begin_if_free(job);
        Ok(())
    }

    fn pause(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job)? {
            (JobPhase::Running, Some(launch)) => self.launcher.pause(launch)?,
            (phase, _) => return Err(format!("it is {phase} and cannot be paused")),
        }
        self.set(job, JobPhase::Pausing);
        Ok(())
    }

    fn resume(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job)? {
            (JobPhase::Paused, _) => {}
            (phase, _) => return Err(format!("it is {phase} and cannot be resumed")),
        }
        let devices = self.placed.get(&job).map(|placed| placed.start.devices.clone()).unwrap_or_default();
        let behind = self.leaving(&devices, job);
        if let Some(placed) = self.placed.get_mut(&job) {
            (placed.phase, placed.behind) = (JobPhase::WaitsToResume, behind);
        }
        self.begin_if_free(job);
        Ok(())
    }

    fn stop(&mut self, job: JobId, checkpoint: bool) -> Result<(), String> {
        match self.on(job)? {
            (JobPhase::Stopping, _) => return Err("it is stopping already".into()),
            (_, Some(launch)) => self.launcher.stop(launch, checkpoint)?,
            (_, None) => {
                let steps = self.launcher.saved_steps(job);
                self.pending.push((self.now, Happened::Settled { job, now: Settled::Stopped, steps }));
            }
        }
        self.set(job, JobPhase::Stopping);
        Ok(())
    }

    fn end(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job) {
            Err(_) => self.over.push(job),
            Ok((phase, _)) => {
                if phase != JobPhase::Stopping {
                    self.stop(job, false)?;
                }
                self.ends.insert(job);
            }
        }
        Ok(())
    }

    fn throttle(&mut self, job: JobId, share: Share) -> Result<(), String> {
        let placed = self.placed.get_mut(&job).ok_or("it has no devices")?;
        match placed.launch {
            Some(launch) => self.launcher.throttle(launch, share),
            // It waits for others to leave, and begins with this share.
            None => {
                placed.start.share = share;
                Ok(())
            }
        }
    }

    pub(super) fn on(&self, job: JobId) -> Result<(JobPhase, Option<Member>), String> {
        let placed = self.placed.get(&job).ok_or("it has no devices")?;
        Ok((placed.phase, placed.launch))
    }

    /// Sets the phase of a job that waits for no other job any more.
    fn set(&mut self, job: JobId, phase: JobPhase) {
        if let Some(placed) = self.placed.get_mut(&job) {
            (placed.phase, placed.next_progress) = (phase, None);
            placed.behind.clear();
        }
    }

    /// Jobs that are leaving one of these devices.
    fn leaving(&self, devices: &[DeviceId], joining: JobId) -> BTreeSet<JobId> {
        let leaves = |placed: &PlacedJob| matches!(placed.phase, JobPhase::Pausing | JobPhase::Stopping);
        let there = |placed: &PlacedJob| placed.start.devices.iter().any(|device| devices.contains(device));
        let leaving =
            self.placed.iter().filter(|(job, placed)| **job != joining && leaves(placed) && there(placed));
        leaving.map(|(job, _)| *job).collect()
    }

    /// Starts or resumes a job on its devices, unless another job has to leave first.
    fn begin_if_free(&mut self, job: JobId) {
        let Some(placed) = self.placed.get_mut(&job) else { return };
        // If its device was lost while it waited, its failure is pending.
        if !placed.behind.is_empty() || placed.start.devices.iter().any(|device| self.lost.contains(device)) {
            return;
        }
        match (placed.phase, placed.launch) {
            (JobPhase::WaitsToStart, _) => match self.launcher.start(&placed.start) {
                Ok(launch) => {
                    (placed.phase, placed.launch) = (JobPhase::Starting, Some(launch));
                }
                Err(why) => {
                    let failed = not_started(&self.launcher, job, ErrorKind::Start, why);
                    self.pending.push((self.now, failed));
                }
            },
            (JobPhase::WaitsToResume, Some(launch)) => {
                placed.phase = JobPhase::Resuming;
                self.launcher.resume(launch);
            }
            _ => {}
        }
    }

    /// A job has left its devices. Jobs that waited for that alone begin.
    pub(super) fn left(&mut self, job: JobId) {
        let waiting: Vec<JobId> = self
            .placed
            .iter_mut()
            .filter_map(|(id, placed)| placed.behind.remove(&job).then_some(*id))
            .collect();
        waiting.into_iter().for_each(|id| self.begin_if_free(id));
    }
}

/// The failure of a job that was not launched.
pub(super) fn not_started(launcher: &impl Launcher, job: JobId, kind: ErrorKind, why: String) -> Happened {
    Happened::Failed { job, steps: launcher.saved_steps(job), kind, detail: why }
}
