//! The order in which the engine receives events: by time, and within one instant by [`ClusterEvent::rank`].

use engine::{
    cluster::{ClusterError, ClusterEvent, DeviceId, JobId, Settled},
    job::Phase,
};
use record::rows::ErrorKind;
use schema::units::Nanos;

use super::{
    LaunchCluster, actions::not_started, clock::next_multiple, launcher::Launcher,
    pending_events::PendingEvent, placed_jobs::PlacedJobs, reported::ReportedSteps,
};
impl<L: Launcher> LaunchCluster<L> {
    /// All events that are there by now, and their effects at once.
    pub(super) fn events_of_now(&mut self) -> Result<Vec<ClusterEvent>, ClusterError> {
        let now = self.launcher.now();
        let mut events = Vec::new();
        loop {
            // An event may let a launch begin that reports at once.
            while self.receive(Some(now))? {}
            match self.next_event() {
                Some(event) => events.push(event),
                None => return Ok(events),
            }
        }
    }

    fn next_event(&mut self) -> Option<ClusterEvent> {
        self.now = self.now.max(self.clock.of_run(self.launcher.now()));
        while self.pending.first().is_some_and(|pending| is_obsolete(&self.placed, pending)) {
            self.pending.pop();
        }
        let arrival = self.arrivals.front().map(|(at, job)| (*at, ClusterEvent::Arrived { job: *job }));
        let report = self.reports.first().map(|(at, job)| (*at, self.report(*job)));
        let due = |event: &Option<(Nanos, ClusterEvent)>| {
            event.as_ref().filter(|(at, _)| *at <= self.now).map(|(at, event)| (*at, event.rank()))
        };
        let turns = [self.pending.first_turn(), due(&arrival), due(&report)];
        let first = turns.into_iter().flatten().min()?;
        let mut event = if Some(first) == turns[0] {
            if let Some(progress) = self.unknown_loss() {
                return Some(progress);
            }
            self.pending.pop()?
        } else if Some(first) == turns[1] {
            self.arrivals.pop_front();
            arrival?.1
        } else {
            let (at, event) = report?;
            // A late report does not bring several at once.
            let next = self.progress_every.map(|every| next_multiple(at, every, self.now));
            self.set_next_report(event.job()?, next);
            event
        };
        self.update_report(&mut event);
        self.note(&event);
        Some(event)
    }

    fn report(&self, job: JobId) -> ClusterEvent {
        let steps = self.placed.get(job).map_or(0, |placed| placed.reported.0);
        ClusterEvent::Progress { job, steps, loss: None }
    }

    pub(super) fn set_next_report(&mut self, job: JobId, at: Option<Nanos>) {
        let Some(placed) = self.placed.get_mut(job) else { return };
        if let Some(before) = placed.next_report {
            self.reports.remove(&(before, job));
        }
        placed.next_report = at;
        self.reports.extend(at.map(|at| (at, job)));
    }

    /// Adds an event of a job's present launch, or of a device.
    pub(super) fn add_event(&mut self, at: Nanos, event: ClusterEvent) {
        let placed = event.job().and_then(|job| self.placed.get(job));
        let start = placed.map(|placed| placed.start.number);
        self.pending.add(at, event, start);
    }

    /// Sets the steps of a launch that goes on to those that are known by now, and takes their loss if progress is reported.
    fn update_report(&mut self, event: &mut ClusterEvent) {
        if let ClusterEvent::Settled { job, now: Settled::Running | Settled::Paused, steps }
        | ClusterEvent::Progress { job, steps, .. } = event
            && let Some(launch) = self.placed.get(*job).and_then(|placed| placed.launch)
        {
            *steps = self.launcher.steps(launch);
            if let ClusterEvent::Progress { loss, .. } = event {
                *loss = self.launcher.take_loss(launch);
            }
        }
    }

    /// Progress that was not reported and is lost with a launch by the first pending event. The engine receives it before.
    fn unknown_loss(&mut self) -> Option<ClusterEvent> {
        let (job, kept) = match self.pending.first()?.event {
            ClusterEvent::Failed { job, steps, .. }
            | ClusterEvent::Settled { job, now: Settled::Stopped, steps } => (job, steps),
            _ => return None,
        };
        let placed = self.placed.get_mut(job)?;
        let launch = placed.launch?;
        let steps = self.launcher.steps(launch);
        let is_due = placed.reported.is_due_before_loss(steps, kept);
        is_due.then(|| ClusterEvent::Progress { job, steps, loss: self.launcher.take_loss(launch) })
    }

    /// Updates the state of jobs by an event that the engine receives now.
    fn note(&mut self, event: &ClusterEvent) {
        match *event {
            ClusterEvent::Settled { job, now: Settled::Running, steps } => {
                let (now, every) = (self.now, self.progress_every);
                let Some(placed) = self.placed.get_mut(job) else { return };
                (placed.phase, placed.reported) = (Phase::Running, ReportedSteps(steps));
                let began = *placed.began.get_or_insert(now);
                self.set_next_report(job, every.map(|every| next_multiple(began, every, now)));
            }
            ClusterEvent::Settled { job, now: Settled::Paused, steps } => {
                if let Some(placed) = self.placed.get_mut(job) {
                    (placed.phase, placed.reported) = (Phase::Paused, ReportedSteps(steps));
                }
                self.left(job);
            }
            ClusterEvent::Settled { job, now: Settled::Stopped, .. }
            | ClusterEvent::Finished { job, .. }
            | ClusterEvent::Failed { job, .. } => self.remove(job),
            ClusterEvent::Progress { job, steps, .. } => {
                if let Some(placed) = self.placed.get_mut(job) {
                    placed.reported = ReportedSteps(steps);
                }
            }
            ClusterEvent::DeviceBack { device } => {
                self.lost.remove(&device);
            }
            ClusterEvent::Arrived { .. } | ClusterEvent::DeviceLost { .. } | ClusterEvent::Deadline => {}
        }
    }

    /// The launch of a job has ended. What is pending of it is no event of the next one.
    fn remove(&mut self, job: JobId) {
        self.set_next_report(job, None);
        if let Some(placed) = self.placed.remove(job) {
            self.over.extend((placed.phase == Phase::Ending).then_some(job));
            self.gone.extend(placed.launch);
        }
        self.left(job);
        self.report_losses();
    }

    /// Receives the next event of the launcher, waiting at most until this time of its clock. Returns whether there was one.
    pub(super) fn receive(&mut self, until: Option<Nanos>) -> Result<bool, ClusterError> {
        let Some(event) = self.launcher.next(until)? else { return Ok(false) };
        let at = self.clock.of_run(self.launcher.now());
        match event {
            ClusterEvent::DeviceLost { device } => self.lose(at, device),
            event => self.add_event(at, event),
        }
        Ok(true)
    }

    /// The launcher ends the launches on the device. Jobs that still wait for it fail with it.
    fn lose(&mut self, at: Nanos, device: DeviceId) {
        self.lost.insert(device);
        for job in self.placed.on(device).to_vec() {
            if self.placed.get(job).is_some_and(|placed| placed.launch.is_none()) {
                let why = "a device that it was to run on was lost".to_owned();
                let failed = not_started(&self.launcher, job, ErrorKind::DeviceLost, why);
                self.add_event(at, failed);
            }
        }
        self.unreported_losses.push((at, device));
        self.report_losses();
    }

    /// The loss of a device is an event once nothing runs on it any more.
    fn report_losses(&mut self) {
        let is_empty = |(_, device): &mut (Nanos, DeviceId)| self.placed.on(*device).is_empty();
        for (at, device) in self.unreported_losses.extract_if(.., is_empty) {
            self.pending.add(at, ClusterEvent::DeviceLost { device }, None);
        }
    }
}

/// Whether the launch of an event has ended, or an action has overtaken the event. Events from before the run was resumed stay
/// valid.
fn is_obsolete(placed: &PlacedJobs, pending: &PendingEvent) -> bool {
    let (Some(job), Some(start)) = (pending.event.job(), pending.start) else { return false };
    let Some(placed) = placed.get(job).filter(|placed| placed.start.number == start) else { return true };
    match pending.event {
        ClusterEvent::Settled { now: Settled::Running, .. } => {
            !matches!(placed.phase, Phase::Starting | Phase::Resuming)
        }
        ClusterEvent::Settled { now: Settled::Paused, .. } => placed.phase != Phase::Pausing,
        _ => false,
    }
}
