//! Actions on jobs, and their order on a device: a job that begins or resumes where others are leaving waits until they have left.

use engine::{
    cluster::{Action, ClusterEvent, JobId, Settled, Share},
    job::Phase,
};
use record::rows::ErrorKind;

use super::{
    LaunchCluster,
    launcher::{LaunchId, Launcher, StartRequest},
    placed_jobs::PlacedJob,
    reported::ReportedSteps,
};
impl<L: Launcher> LaunchCluster<L> {
    /// # Errors
    /// Why it cannot be done. Nothing was.
    pub(super) fn obey(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Start { job, devices, cpus, plan } => self.start(StartRequest {
                job: *job,
                number: self.placed.starts(*job),
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
        if self.placed.get(job).is_some() {
            return Err("it has devices already".into());
        }
        if let Some(lost) = start.devices.iter().find(|device| self.lost.contains(device)) {
            return Err(format!("device {} is lost", lost.0));
        }
        self.launcher.check(&start)?;
        self.check_company(&start)?;
        let reported = ReportedSteps(self.launcher.saved_steps(job));
        let waits = self.releases.wait(job, &start.devices);
        let phase = Phase::Starting;
        self.placed.add(PlacedJob { start, launch: None, phase, reported, began: None, next_report: None });
        if !waits {
            self.begin(job);
        }
        Ok(())
    }

    /// Whether the jobs that train on devices of a start, or will train there, can train beside it.
    fn check_company(&self, start: &StartRequest) -> Result<(), String> {
        self.launcher.check_company(start, &|start| self.placed.staying_beside(start))
    }

    fn pause(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job)? {
            (Phase::Running, Some(launch)) => self.launcher.pause(launch)?,
            (phase, _) => return Err(format!("it is {phase} and cannot be paused")),
        }
        self.leave(job, Phase::Pausing);
        Ok(())
    }

    fn resume(&mut self, job: JobId) -> Result<(), String> {
        let placed = self.placed.get(job).ok_or("it has no devices")?;
        if placed.phase != Phase::Paused {
            return Err(format!("it is {} and cannot be resumed", placed.phase));
        }
        self.check_company(&placed.start)?;
        let waits = self.releases.wait(job, &placed.start.devices);
        if let Some(placed) = self.placed.get_mut(job) {
            placed.phase = Phase::Resuming;
        }
        if !waits {
            self.begin(job);
        }
        Ok(())
    }

    fn stop(&mut self, job: JobId, checkpoint: bool) -> Result<(), String> {
        match self.on(job)? {
            (phase @ (Phase::Stopping | Phase::Ending), _) => return Err(format!("it is {phase} already")),
            (_, Some(launch)) => self.launcher.stop(launch, checkpoint)?,
            (_, None) => {
                let steps = self.launcher.saved_steps(job);
                self.add_event(self.now, ClusterEvent::Settled { job, now: Settled::Stopped, steps });
            }
        }
        self.leave(job, Phase::Stopping);
        Ok(())
    }

    fn end(&mut self, job: JobId) -> Result<(), String> {
        match self.on(job) {
            Err(_) => self.over.push(job),
            Ok((phase, _)) => {
                if phase != Phase::Stopping {
                    self.stop(job, false)?;
                }
                self.leave(job, Phase::Ending);
            }
        }
        Ok(())
    }

    fn throttle(&mut self, job: JobId, share: Share) -> Result<(), String> {
        let placed = self.placed.get_mut(job).ok_or("it has no devices")?;
        match placed.launch {
            Some(launch) => self.launcher.throttle(launch, share),
            // It waits for others to leave, and begins with this share.
            None => {
                placed.start.share = share;
                Ok(())
            }
        }
    }

    pub(super) fn on(&self, job: JobId) -> Result<(Phase, Option<LaunchId>), String> {
        let placed = self.placed.get(job).ok_or("it has no devices")?;
        Ok((placed.phase, placed.launch))
    }

    /// Sets the phase of a job that is leaving its devices.
    fn leave(&mut self, job: JobId, phase: Phase) {
        self.set_next_report(job, None);
        if let Some(placed) = self.placed.get_mut(job) {
            placed.phase = phase;
            self.releases.leave(job, &placed.start.devices);
        }
    }

    /// Starts or resumes a job on its devices.
    fn begin(&mut self, job: JobId) {
        let Some(placed) = self.placed.get_mut(job) else { return };
        // If its device was lost while it waited, its failure is pending.
        if placed.start.devices.iter().any(|device| self.lost.contains(device)) {
            return;
        }
        match (placed.phase, placed.launch) {
            (Phase::Starting, None) => match self.launcher.start(&placed.start) {
                Ok(launch) => placed.launch = Some(launch),
                Err(why) => {
                    let failed = not_started(&self.launcher, job, ErrorKind::Start, why);
                    self.add_event(self.now, failed);
                }
            },
            (Phase::Resuming, Some(launch)) => self.launcher.resume(launch),
            _ => {}
        }
    }

    /// A job has left its devices. Jobs that waited for it alone begin.
    pub(super) fn left(&mut self, job: JobId) {
        self.releases.left(job).into_iter().for_each(|id| self.begin(id));
    }
}

/// The failure of a job that was not launched.
pub(super) fn not_started(
    launcher: &impl Launcher,
    job: JobId,
    kind: ErrorKind,
    why: String,
) -> ClusterEvent {
    ClusterEvent::Failed { job, steps: launcher.saved_steps(job), kind, detail: why }
}
