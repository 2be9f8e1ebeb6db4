//! The order in which the engine receives events: by time, and within one instant by [`ClusterEvent::rank`].

use std::collections::BTreeMap;

use schema::{rows::ErrorKind, units::Nanos};

use super::{PlacedJob, Testbed, actions::not_started, clock::next_multiple, launcher::Launcher};
use crate::{
    cluster::{ClusterError, ClusterEvent, DeviceId, JobId, Settled},
    job::Phase,
    reported::ReportedSteps,
};

impl<L: Launcher> Testbed<L> {
    /// All events that are there by now, and their effects at once.
    pub(super) fn events_of_now(&mut self) -> Result<Vec<ClusterEvent>, ClusterError> {
        let now = self.launcher.now();
        let mut events = Vec::new();
        loop {
            // An event may let a launch begin that reports at once.
            while self.receive(Some(now))? {}
            match self.next_event() {
                Some(happened) => events.push(happened),
                None => return Ok(events),
            }
        }
    }

    fn next_event(&mut self) -> Option<ClusterEvent> {
        self.now = self.now.max(self.clock.of_run(self.launcher.now()));
        self.fall_due();
        self.pending.retain(|(_, happened)| !is_obsolete(&self.placed, happened));
        let due = self.pending.iter().enumerate().filter(|(_, (_, happened))| !self.has_to_wait(happened));
        let (_, _, index) = due.map(|(index, (at, happened))| (*at, happened.rank(), index)).min()?;
        if let Some(progress) = self.unknown_loss(index) {
            return Some(progress);
        }
        let (_, mut happened) = self.pending.remove(index);
        self.update_report(&mut happened);
        self.note(&happened);
        Some(happened)
    }

    /// Sets the steps of a launch that goes on to those that are known by now, and takes their loss if progress is reported.
    fn update_report(&mut self, happened: &mut ClusterEvent) {
        if let ClusterEvent::Settled { job, now: Settled::Running | Settled::Paused, steps }
        | ClusterEvent::Progress { job, steps, .. } = happened
            && let Some(launch) = self.placed.get(job).and_then(|placed| placed.launch)
        {
            *steps = self.launcher.steps(launch);
            if let ClusterEvent::Progress { loss, .. } = happened {
                *loss = self.launcher.take_loss(launch);
            }
        }
    }

    /// The loss of a device is an event once nothing runs on it any more.
    fn has_to_wait(&self, happened: &ClusterEvent) -> bool {
        match happened {
            ClusterEvent::DeviceLost { device } => {
                self.placed.values().any(|placed| placed.start.devices.contains(device))
            }
            _ => false,
        }
    }

    /// Progress that was not reported and is lost with a launch by a pending event. The engine receives it first.
    fn unknown_loss(&mut self, index: usize) -> Option<ClusterEvent> {
        let (job, kept) = match self.pending[index].1 {
            ClusterEvent::Failed { job, steps, .. }
            | ClusterEvent::Settled { job, now: Settled::Stopped, steps } => (job, steps),
            _ => return None,
        };
        let placed = self.placed.get_mut(&job)?;
        let launch = placed.launch?;
        let steps = self.launcher.steps(launch);
        let is_due = placed.reported.is_due_before_loss(steps, kept);
        is_due.then(|| ClusterEvent::Progress { job, steps, loss: self.launcher.take_loss(launch) })
    }

    /// The next arrival and reports of progress whose time has come.
    fn fall_due(&mut self) {
        // Arrivals come in order, so that one is pending at a time, even if several are due.
        let is_arrival = |happened: &ClusterEvent| matches!(happened, ClusterEvent::Arrived { .. });
        let has_arrival = self.pending.iter().any(|(_, happened)| is_arrival(happened));
        if !has_arrival && let Some(&(at, job)) = self.arrivals.front().filter(|(at, _)| *at <= self.now) {
            self.arrivals.pop_front();
            self.pending.push((at, ClusterEvent::Arrived { job }));
        }
        let Some(every) = self.progress_every else { return };
        for (&job, placed) in &mut self.placed {
            let Some(at) = placed.next_progress.filter(|at| *at <= self.now) else { continue };
            self.pending.push((at, ClusterEvent::Progress { job, steps: placed.reported.0, loss: None }));
            // A late report does not bring several at once.
            placed.next_progress = Some(next_multiple(at, every, self.now));
        }
    }

    /// Updates the state of jobs by an event that the engine receives now.
    fn note(&mut self, happened: &ClusterEvent) {
        match *happened {
            ClusterEvent::Settled { job, now: Settled::Running, steps } => {
                let (now, every) = (self.now, self.progress_every);
                let Some(placed) = self.placed.get_mut(&job) else { return };
                (placed.phase, placed.reported) = (Phase::Running, ReportedSteps(steps));
                let began = *placed.began.get_or_insert(now);
                placed.next_progress = every.map(|every| next_multiple(began, every, now));
            }
            ClusterEvent::Settled { job, now: Settled::Paused, steps } => {
                if let Some(placed) = self.placed.get_mut(&job) {
                    (placed.phase, placed.reported) = (Phase::Paused, ReportedSteps(steps));
                }
                self.left(job);
            }
            ClusterEvent::Settled { job, now: Settled::Stopped, .. }
            | ClusterEvent::Finished { job, .. }
            | ClusterEvent::Failed { job, .. } => {
                let placed = self.placed.remove(&job);
                self.over.extend(placed.as_ref().filter(|placed| placed.phase == Phase::Ending).map(|_| job));
                self.gone.extend(placed.and_then(|placed| placed.launch));
                // What is pending of the launch is no event of the next one.
                self.pending.retain(|(_, pending)| pending.job() != Some(job));
                self.left(job);
            }
            ClusterEvent::Progress { job, steps, .. } => {
                if let Some(placed) = self.placed.get_mut(&job) {
                    placed.reported = ReportedSteps(steps);
                }
            }
            ClusterEvent::Arrived { .. }
            | ClusterEvent::DeviceLost { .. }
            | ClusterEvent::DeviceBack { .. }
            | ClusterEvent::Deadline => {}
        }
    }

    /// Receives the next event of the launcher, waiting at most until this time of its clock. Returns whether there was one.
    pub(super) fn receive(&mut self, until: Option<Nanos>) -> Result<bool, ClusterError> {
        let Some(happened) = self.launcher.next(until)? else { return Ok(false) };
        let at = self.clock.of_run(self.launcher.now());
        if let ClusterEvent::DeviceLost { device } = happened {
            self.lose(at, device);
        }
        self.pending.push((at, happened));
        Ok(true)
    }

    /// The launcher ends the launches on the device. Jobs that still wait for it fail with it.
    fn lose(&mut self, at: Nanos, device: DeviceId) {
        self.lost.insert(device);
        for (job, placed) in &self.placed {
            if placed.launch.is_none() && placed.start.devices.contains(&device) {
                let why = "a device that it was to run on was lost".to_owned();
                let failed = not_started(&self.launcher, *job, ErrorKind::DeviceLost, why);
                self.pending.push((at, failed));
            }
        }
    }
}

/// Whether an action has overtaken an event of a job on devices. Arrivals, and events from before the run was resumed, stay valid.
fn is_obsolete(placed: &BTreeMap<JobId, PlacedJob>, happened: &ClusterEvent) -> bool {
    let Some(placed) = happened.job().and_then(|job| placed.get(&job)) else { return false };
    match happened {
        ClusterEvent::Settled { now: Settled::Running, .. } => {
            !matches!(placed.phase, Phase::Starting | Phase::Resuming)
        }
        ClusterEvent::Settled { now: Settled::Paused, .. } => placed.phase != Phase::Pausing,
        ClusterEvent::Progress { .. } => placed.phase != Phase::Running,
        _ => false,
    }
}
