//! The launches of a run, from its journal: how their steps followed from time, and how long their switches took.

use std::collections::BTreeMap;

use formats::decision::{Action, ClusterEvent, DeviceId, JobId, Settled, Share, Turn};
use schema::{plan::Plan, units::Nanos};

use crate::pending_releases::PendingReleases;

/// What a journal says of the launches of each job.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    jobs: BTreeMap<JobId, RecordedJob>,
    releases: PendingReleases,
    /// Stretches of training with the same company from one report of steps to the next, in order of their ends.
    pub stretches: Vec<RecordedStretch>,
    /// The number of launches that failed and of devices that were lost.
    pub failures: u32,
}

/// The launches of a job.
#[derive(Clone, Debug, Default)]
pub struct RecordedJob {
    pub launches: Vec<RecordedLaunch>,
}

/// A launch, and its steps by the time for which it has trained.
#[derive(Clone, Debug)]
pub struct RecordedLaunch {
    pub devices: Vec<DeviceId>,
    pub plan: Option<Plan>,
    pub cpus: Option<u16>,
    /// Time in nanoseconds and steps, both ascending.
    pub points: Vec<(f64, f64)>,
    /// The time in nanoseconds for which it had trained at each report of progress, and the reported steps.
    pub reports: Vec<(f64, u64)>,
    /// Its switches in the order in which they were ordered.
    pub switches: Vec<RecordedSwitch>,
    trained: Nanos,
    /// The start of the training that is not yet in `trained`. `None` if the launch does not train.
    trains_since: Option<Nanos>,
    /// The last report of its steps since its company has changed.
    reported: Option<(Nanos, u64)>,
    share: Share,
}

/// A job that trained with the same company from one report of its steps to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedStretch {
    pub job: JobId,
    /// The number of earlier launches of the job.
    pub launch: usize,
    pub from: Nanos,
    pub until: Nanos,
    /// Steps between both reports.
    pub steps: u64,
    /// The other jobs that trained on its devices.
    pub with: Vec<JobId>,
}

/// A switch, from its order on.
#[derive(Clone, Debug)]
pub struct RecordedSwitch {
    pub to: Settled,
    /// The time of its order, or the time at which the last of the jobs left for which it waited.
    began: Nanos,
    /// Its duration, and the steps of the job at its end, which are all if the job finished instead; absent if another switch took its
    /// place.
    pub ended: Option<(Nanos, u64)>,
}

impl Recorded {
    pub fn new(turns: &[Turn]) -> Recorded {
        let mut recorded = Recorded::default();
        turns.iter().for_each(|turn| recorded.add(turn));
        recorded
    }

    pub fn job(&self, job: JobId) -> Option<&RecordedJob> {
        self.jobs.get(&job)
    }

    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &RecordedJob)> {
        self.jobs.iter().map(|(id, job)| (*id, job))
    }

    /// Adds the next turn.
    pub fn add(&mut self, turn: &Turn) {
        for happened in &turn.events {
            self.happened(turn.at_ns, happened);
        }
        for action in &turn.actions {
            self.ordered(turn.at_ns, action);
        }
    }

    fn happened(&mut self, at: Nanos, happened: &ClusterEvent) {
        match happened {
            ClusterEvent::Settled { job, now, steps } => {
                if let Some(launch) = self.launch(*job) {
                    if let Some(switch) = launch.switches.last_mut() {
                        switch.ended = Some((at - switch.began, *steps));
                    }
                    launch.trains_since = (*now == Settled::Running).then_some(at);
                    launch.reach(*steps);
                }
                match now {
                    Settled::Running => {
                        self.company_changed(*job);
                        self.report(*job, at, *steps);
                    }
                    Settled::Paused | Settled::Stopped => self.left(*job, at),
                }
            }
            ClusterEvent::Progress { job, steps, .. } => {
                self.trained(*job, at, *steps);
                if let Some(launch) = self.launch(*job) {
                    launch.reports.push((launch.trained.0 as f64, *steps));
                }
                self.report(*job, at, *steps);
            }
            ClusterEvent::Finished { job, steps } => {
                self.finished_instead(*job, at, *steps);
                self.finished(*job, at, *steps);
                self.report(*job, at, *steps);
                self.over(*job, at);
            }
            ClusterEvent::Failed { job, .. } => {
                self.failures += 1;
                self.over(*job, at);
            }
            ClusterEvent::DeviceLost { .. } => self.failures += 1,
            ClusterEvent::DeviceBack { .. } | ClusterEvent::Arrived { .. } | ClusterEvent::Deadline => {}
        }
    }

    /// The launch of a job has ended by itself.
    fn over(&mut self, job: JobId, at: Nanos) {
        self.company_changed(job);
        if let Some(launch) = self.launch(job) {
            launch.trains_since = None;
        }
        self.left(job, at);
    }

    fn ordered(&mut self, at: Nanos, action: &Action) {
        let job = action.job();
        let to = match action {
            Action::Start { devices, cpus, plan, .. } => {
                let (devices, cpus, plan) = (devices.clone(), *cpus, *plan);
                let launch = RecordedLaunch {
                    devices,
                    plan,
                    cpus,
                    points: Vec::new(),
                    reports: Vec::new(),
                    switches: Vec::new(),
                    trained: Nanos::ZERO,
                    trains_since: None,
                    reported: None,
                    share: Share::FULL,
                };
                self.jobs.entry(job).or_default().launches.push(launch);
                Settled::Running
            }
            Action::Resume { .. } => Settled::Running,
            Action::Pause { .. } => Settled::Paused,
            Action::Stop { .. } => Settled::Stopped,
            // A job without a launch has nothing to stop, and one that is stopping goes on with it.
            Action::End { .. } => match self.launch(job).and_then(|launch| launch.switches.last()) {
                Some(RecordedSwitch { to: Settled::Running | Settled::Paused, .. }) => Settled::Stopped,
                _ => return,
            },
            Action::Throttle { share, .. } => {
                self.company_changed(job);
                if let Some(launch) = self.launch(job) {
                    launch.share = *share;
                }
                return;
            }
        };
        if to != Settled::Running {
            self.company_changed(job);
        }
        let Some(launch) = self.jobs.get_mut(&job).and_then(|of| of.launches.last_mut()) else { return };
        launch.switches.push(RecordedSwitch { to, began: at, ended: None });
        if to == Settled::Running {
            self.releases.wait(job, &launch.devices);
        } else {
            self.releases.leave(job, &launch.devices);
            launch.train_until(at);
            launch.trains_since = None;
        }
    }

    /// The other jobs that train on a device of a job.
    fn company(&self, job: JobId) -> Vec<JobId> {
        let Some(own) = self.jobs.get(&job).and_then(|of| of.launches.last()) else { return Vec::new() };
        let is_beside = |of: &RecordedJob| {
            let launch = of.launches.last().filter(|launch| launch.trains_since.is_some());
            launch.is_some_and(|launch| launch.devices.iter().any(|device| own.devices.contains(device)))
        };
        self.jobs.iter().filter(|(id, of)| **id != job && is_beside(of)).map(|(id, _)| *id).collect()
    }

    /// A job begins to train, or no longer trains. Its stretch and those of its company end, at a number of steps that is not known.
    fn company_changed(&mut self, job: JobId) {
        for id in self.company(job).into_iter().chain([job]) {
            if let Some(launch) = self.launch(id) {
                launch.reported = None;
            }
        }
    }

    fn report(&mut self, job: JobId, at: Nanos, steps: u64) {
        let with = self.company(job);
        // A throttled job shows its share and not the time of its steps, and it slows the jobs beside it down less than another.
        let is_throttled = |id: &JobId| {
            self.jobs
                .get(id)
                .and_then(|of| of.launches.last())
                .is_some_and(|launch| launch.share < Share::FULL)
        };
        if is_throttled(&job) || with.iter().any(is_throttled) {
            return;
        }
        let Some(of) = self.jobs.get_mut(&job) else { return };
        let number = of.launches.len();
        let Some(launch) = of.launches.last_mut().filter(|launch| launch.trains_since.is_some()) else {
            return;
        };
        if let Some((from, before)) = launch.reported.replace((at, steps))
            && steps > before
        {
            let steps = steps - before;
            self.stretches.push(RecordedStretch { job, launch: number - 1, from, until: at, steps, with });
        }
    }

    /// A job has left its devices. Jobs that waited for it alone begin.
    fn left(&mut self, job: JobId, at: Nanos) {
        for id in self.releases.left(job) {
            if let Some(switch) = self.launch(id).and_then(|launch| launch.switches.last_mut()) {
                switch.began = at;
            }
        }
    }

    /// A job that was ordered to leave had its last step among those granted before, and finished. It trained up to its end.
    fn finished_instead(&mut self, job: JobId, at: Nanos, steps: u64) {
        let Some(launch) = self.launch(job) else { return };
        let leaves = |switch: &&mut RecordedSwitch| switch.to != Settled::Running && switch.ended.is_none();
        if let Some(switch) = launch.switches.last_mut().filter(leaves) {
            switch.ended = Some((at - switch.began, steps));
            launch.trains_since = Some(switch.began);
        }
    }

    fn trained(&mut self, job: JobId, at: Nanos, steps: u64) {
        if let Some(launch) = self.launch(job) {
            launch.train_until(at);
            launch.reach(steps);
        }
    }

    /// A job has ended, some time after its last step, which it may have reported before. All of its time counts as training.
    fn finished(&mut self, job: JobId, at: Nanos, steps: u64) {
        self.trained(job, at, steps);
        if let Some(launch) = self.launch(job)
            && let Some(last) = launch.points.last_mut()
        {
            last.0 = launch.trained.0 as f64;
        }
    }

    fn launch(&mut self, job: JobId) -> Option<&mut RecordedLaunch> {
        self.jobs.get_mut(&job)?.launches.last_mut()
    }
}

impl RecordedLaunch {
    fn train_until(&mut self, at: Nanos) {
        if let Some(since) = &mut self.trains_since {
            self.trained += at - *since;
            *since = at;
        }
    }

    /// Adds a point. Steps that are done after an order to leave, because they were granted before, count as done by the order.
    fn reach(&mut self, steps: u64) {
        let point = (self.trained.0 as f64, steps as f64);
        match self.points.last_mut() {
            Some(last) if last.1 >= point.1 => {}
            Some(last) if last.0 >= point.0 => last.1 = point.1,
            _ => self.points.push(point),
        }
    }
}

#[cfg(test)]
mod tests {
    use record::rows::ErrorKind;

    use super::*;

    /// What is read from turns with these times, events and actions.
    fn recorded(turns: Vec<(u64, Vec<ClusterEvent>, Vec<Action>)>) -> Recorded {
        let turn = |(at, events, actions)| Turn {
            turn: 0,
            at_ns: Nanos(at),
            model_version: None,
            events,
            actions,
            refused: vec![],
            wake_at_ns: None,
            reason: String::new(),
            explain: BTreeMap::new(),
            view_hash: String::new(),
        };
        Recorded::new(&turns.into_iter().map(turn).collect::<Vec<_>>())
    }

    #[test]
    fn a_start_begins_when_the_job_before_it_has_finished_instead_of_stopping() {
        let [first, second] = [JobId(0), JobId(1)];
        let start = |job| Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None };
        let runs = |job| ClusterEvent::Settled { job, now: Settled::Running, steps: 0 };
        let recorded = recorded(vec![
            (0, vec![], vec![start(first)]),
            (10, vec![runs(first)], vec![]),
            (20, vec![], vec![Action::Stop { job: first, checkpoint: true }, start(second)]),
            (25, vec![ClusterEvent::Finished { job: first, steps: 9 }], vec![]),
            (31, vec![runs(second)], vec![]),
        ]);
        let ended =
            |job: JobId, nth: usize| recorded.job(job).and_then(|job| job.launches[0].switches[nth].ended);
        assert_eq!([ended(first, 0), ended(second, 0)], [Some((Nanos(10), 0)), Some((Nanos(6), 0))]);
        assert_eq!(ended(first, 1), Some((Nanos(5), 9)), "it left with its last step");
        let points = &recorded.job(first).expect("it ran").launches[0].points;
        assert_eq!(points, &[(0.0, 0.0), (15.0, 9.0)], "and trained until then");
    }

    #[test]
    fn a_job_that_reports_its_last_step_trains_until_it_has_ended() {
        let job = JobId(0);
        let start = Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None };
        let progress = |steps| ClusterEvent::Progress { job, steps, loss: None };
        let recorded = recorded(vec![
            (0, vec![], vec![start]),
            (10, vec![ClusterEvent::Settled { job, now: Settled::Running, steps: 0 }], vec![]),
            (20, vec![progress(5)], vec![]),
            (30, vec![progress(9)], vec![]),
            (36, vec![ClusterEvent::Finished { job, steps: 9 }], vec![]),
        ]);
        let launch = &recorded.job(job).expect("it ran").launches[0];
        assert_eq!(launch.points, [(0.0, 0.0), (10.0, 5.0), (26.0, 9.0)]);
        assert_eq!(launch.reports, [(10.0, 5), (20.0, 9)]);
    }

    /// Both jobs share the device until the first one fails, and the second one then trains alone.
    #[test]
    fn a_launch_that_failed_is_no_company() {
        let [first, second] = [JobId(0), JobId(1)];
        let start = |job| Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None };
        let runs = |job| ClusterEvent::Settled { job, now: Settled::Running, steps: 0 };
        let progress = |job, steps| ClusterEvent::Progress { job, steps, loss: None };
        let fails =
            ClusterEvent::Failed { job: first, steps: 0, kind: ErrorKind::Crashed, detail: String::new() };
        let recorded = recorded(vec![
            (0, vec![], vec![start(first), start(second)]),
            (10, vec![runs(first), runs(second)], vec![]),
            (20, vec![progress(second, 5)], vec![]),
            (25, vec![fails], vec![]),
            (30, vec![progress(second, 9)], vec![]),
            (40, vec![progress(second, 19)], vec![]),
        ]);
        let stretch = |from, until, steps, with| RecordedStretch {
            job: second,
            launch: 0,
            from: Nanos(from),
            until: Nanos(until),
            steps,
            with,
        };
        assert_eq!(recorded.stretches, [stretch(10, 20, 5, vec![first]), stretch(30, 40, 10, vec![])]);
        assert_eq!(recorded.failures, 1);
    }

    #[test]
    fn a_job_that_is_throttled_does_not_show_the_time_of_its_steps() {
        let job = JobId(0);
        let throttle = |share| Action::Throttle { job, share: Share::new(share).expect("it is a share") };
        let progress = |steps| ClusterEvent::Progress { job, steps, loss: None };
        let start = Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None };
        let recorded = recorded(vec![
            (0, vec![], vec![start]),
            (10, vec![ClusterEvent::Settled { job, now: Settled::Running, steps: 0 }], vec![throttle(0.5)]),
            (20, vec![progress(5)], vec![]),
            (30, vec![progress(10)], vec![throttle(1.0)]),
            (40, vec![progress(20)], vec![]),
            (50, vec![progress(30)], vec![]),
        ]);
        let [only] = &recorded.stretches[..] else { panic!("{:?}", recorded.stretches) };
        assert_eq!((only.from, only.until, only.steps), (Nanos(40), Nanos(50), 10));
    }
}
