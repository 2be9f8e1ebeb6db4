//! The fold over the turns of a journal. It accepts events and actions that contradict each other: a file may be changed.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use schema::plan::Plan;

use super::{Activity, Loss, Phase, Stay, StayEnd, Wait};
use crate::decision::{Action, ClusterEvent, DeviceId, JobId, Settled, Turn};

/// The state after some turns.
#[derive(Default)]
pub(super) struct Fold {
    done: Activity,
    /// The present stay of each job that has devices.
    stays: HashMap<JobId, Stay>,
    /// The number of launches of each job, and the plan of the last one.
    launches: HashMap<JobId, (u32, Option<Plan>)>,
    /// The place of the present wait of each job in the waits.
    waits: HashMap<JobId, usize>,
    lost: BTreeMap<DeviceId, u64>,
}

impl Fold {
    /// Adds the next turn.
    pub(super) fn add(&mut self, turn: Turn) {
        let at = turn.at_ns.0.max(self.done.until_ns);
        self.done.until_ns = at;
        self.done.turns += 1;
        turn.events.into_iter().for_each(|event| self.happened(at, event));
        turn.actions.into_iter().for_each(|action| self.ordered(at, action));
    }

    /// Ends what is open at the time of the last turn.
    pub(super) fn done(mut self) -> Activity {
        let until = self.done.until_ns;
        let mut open: Vec<JobId> = self.stays.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|job| self.leave(job, until, StayEnd::Open));
        let losses = self.lost.into_iter();
        self.done.losses.extend(losses.map(|(device, from_ns)| Loss { device, from_ns, until_ns: until }));
        self.done
    }

    fn happened(&mut self, at: u64, event: ClusterEvent) {
        match event {
            ClusterEvent::Arrived { job } => self.wait(job, at),
            ClusterEvent::Settled { job, now: Settled::Running, .. } => self.enter(job, at, Phase::Running),
            ClusterEvent::Settled { job, now: Settled::Paused, .. } => self.enter(job, at, Phase::Paused),
            ClusterEvent::Settled { job, now: Settled::Stopped, .. } => self.gone(job, at, StayEnd::Stopped),
            ClusterEvent::Failed { job, kind, detail, .. } => {
                self.gone(job, at, StayEnd::Failed(kind, detail))
            }
            ClusterEvent::Finished { job, .. } => self.leave(job, at, StayEnd::Finished),
            ClusterEvent::DeviceLost { device } => {
                self.lost.entry(device).or_insert(at);
            }
            ClusterEvent::DeviceBack { device } => {
                let from = self.lost.remove(&device);
                self.done.losses.extend(from.map(|from_ns| Loss { device, from_ns, until_ns: at }));
            }
            ClusterEvent::Progress { .. } | ClusterEvent::Deadline => {}
        }
    }

    fn ordered(&mut self, at: u64, action: Action) {
        match action {
            Action::Start { job, devices, plan, .. } => self.start(job, at, devices, plan),
            Action::Pause { job } => self.enter(job, at, Phase::Pausing),
            Action::Resume { job } => self.enter(job, at, Phase::Resuming),
            Action::Stop { job, .. } => self.enter(job, at, Phase::Stopping),
            Action::End { job } => {
                self.no_longer_waits(job, at);
                self.enter(job, at, Phase::Ending);
            }
            Action::Throttle { .. } => {}
        }
    }

    fn start(&mut self, job: JobId, at: u64, devices: Vec<DeviceId>, plan: Option<Plan>) {
        self.leave(job, at, StayEnd::Stopped);
        self.no_longer_waits(job, at);
        let launches = self.launches.entry(job).or_insert((0, plan));
        let (launch, before) = *launches;
        *launches = (launch + 1, plan);
        let stay = Stay {
            job,
            launch,
            devices: Arc::from(devices),
            plan,
            plan_before: before.filter(|before| Some(*before) != plan),
            phase: Phase::Starting,
            from_ns: at,
            until_ns: at,
            end: StayEnd::Open,
        };
        self.stays.insert(job, stay);
    }

    fn enter(&mut self, job: JobId, at: u64, phase: Phase) {
        let Some(stay) = self.stays.get_mut(&job) else { return };
        let next = Stay { phase, from_ns: at, until_ns: at, ..stay.clone() };
        let before = std::mem::replace(stay, next);
        self.push(Stay { until_ns: at, end: StayEnd::NextPhase, ..before });
    }

    /// The launch of a job has ended before its job. The job waits, unless the policy ended it.
    fn gone(&mut self, job: JobId, at: u64, how: StayEnd) {
        let Some(phase) = self.stays.get(&job).map(|stay| stay.phase) else { return };
        if phase == Phase::Ending {
            return self.leave(job, at, StayEnd::EndedByPolicy);
        }
        self.leave(job, at, how);
        self.wait(job, at);
    }

    fn leave(&mut self, job: JobId, at: u64, end: StayEnd) {
        if let Some(stay) = self.stays.remove(&job) {
            self.push(Stay { until_ns: at, end, ..stay });
        }
    }

    /// Adds a stay, unless it has no length and says nothing.
    fn push(&mut self, stay: Stay) {
        if stay.until_ns > stay.from_ns || stay.end != StayEnd::NextPhase {
            self.done.stays.push(stay);
        }
    }

    fn wait(&mut self, job: JobId, at: u64) {
        self.no_longer_waits(job, at);
        self.waits.insert(job, self.done.waits.len());
        self.done.waits.push(Wait { job, from_ns: at, until_ns: None });
    }

    fn no_longer_waits(&mut self, job: JobId, at: u64) {
        let wait = self.waits.remove(&job).and_then(|place| self.done.waits.get_mut(place));
        if let Some(wait) = wait {
            wait.until_ns = Some(at);
        }
    }
}
