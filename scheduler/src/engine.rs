//! The one loop: what happens, what the policy makes of it, what is done about it. It alone writes the state of jobs, and it knows
//! neither whether time is real nor which policy decides.

mod admission;
mod check;
mod events;
mod idle;
mod outcomes;
mod packing;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, anyhow};
use model::Throughput;
use schema::{
    decision::{Chain, Happened, Refused, Turn},
    rows::{ErrorKind, Outcome},
    sharing::Sharing,
    units::Nanos,
};

use self::{idle::IdleWakes, packing::Packing};
use crate::{
    cluster::{Action, Cluster, ClusterError, JobId},
    job::{Job, JobRequest, Phase, Placed, State},
    journal::Journal,
    occupancy::Occupancy,
    policy::{Decision, Policy},
    topology::{DeviceId, Topology},
    view::{Change, View},
};

/// What holds for a whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How jobs that are packed share their devices; where it is `alone`, none are packed.
    pub sharing: Sharing,
    /// How many jobs may be packed on a device.
    pub jobs_per_device: u32,
    /// How often a job that fails is started again from its last checkpoint.
    pub retries: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { sharing: Sharing::TIME_SLICE, jobs_per_device: 2, retries: 2 }
    }
}

/// All that is known in a run.
pub struct Engine<'a> {
    topology: &'a Topology,
    asked: &'a [JobRequest],
    /// What the policy may believe.
    model: &'a dyn Throughput,
    settings: Settings,
    jobs: Vec<Job>,
    occupancy: Occupancy,
    /// Jobs whose tensors are off a device, and whose process is still there.
    paused_on: BTreeMap<DeviceId, Vec<JobId>>,
    packing: Packing,
    /// Pairs of jobs, the smaller first, that did not fit on a device together.
    do_not_fit: BTreeSet<(JobId, JobId)>,
    /// Jobs on devices, beside which another ran out of memory since they were started.
    crowded: BTreeSet<JobId>,
    /// Since the policy was last asked.
    changes: Vec<Change>,
    now: Nanos,
    wake_at: Option<Nanos>,
    idle_wakes: IdleWakes,
    turns: u64,
    chain: Chain,
    /// How many jobs have arrived; they do so in order.
    arrived: usize,
    /// Jobs that have not ended.
    left: usize,
    /// Jobs of which something is to be heard: those on devices, and not paused.
    busy: usize,
}

/// Runs until every job has ended, and says how. Whatever ends it before, [`Engine::outcomes`] says how far all have come.
///
/// # Errors
/// That of the cluster; [`ClusterError::Stuck`] where jobs wait and nothing can happen any more; an event that cannot be true; a
/// policy that wants to be woken in the past, or over and over for nothing, or that can decide nothing any more.
pub fn run(
    engine: &mut Engine<'_>,
    cluster: &mut dyn Cluster,
    policy: &mut dyn Policy,
    journal: &mut dyn Journal,
) -> Result<Vec<Outcome>, ClusterError> {
    while engine.left > 0 {
        let happened = engine.next(cluster)?;
        let now = cluster.now();
        engine.apply(now, &happened).with_context(|| format!("the cluster told at {now}: {happened}"))?;
        let decision = policy.decide(&engine.view());
        if let Some(failure) = policy.failure() {
            return Err(failure.into());
        }
        let turn = engine.act(happened, decision, cluster)?;
        journal.record(turn, &engine.view())?;
    }
    Ok(engine.outcomes())
}

impl<'a> Engine<'a> {
    /// Before anything has happened. Jobs stand in order of arrival. Those that the cluster can never run have ended: they are not
    /// admitted.
    pub fn new(
        topology: &'a Topology,
        asked: &'a [JobRequest],
        model: &'a dyn Throughput,
        settings: Settings,
    ) -> Engine<'a> {
        let mut engine = Engine {
            topology,
            asked,
            model,
            settings,
            jobs: asked.iter().map(|asked| Job::new(asked.arrival)).collect(),
            occupancy: Occupancy::new(topology),
            paused_on: BTreeMap::new(),
            packing: Packing::new(asked.len()),
            do_not_fit: BTreeSet::new(),
            crowded: BTreeSet::new(),
            changes: Vec::new(),
            now: Nanos::ZERO,
            wake_at: None,
            idle_wakes: IdleWakes::default(),
            turns: 0,
            chain: Chain::default(),
            arrived: 0,
            left: asked.len(),
            busy: 0,
        };
        for (id, why) in admission::refused(topology, asked) {
            engine.refuse(id, why);
        }
        engine
    }

    /// Refuses a job for a reason that the caller gives. To be called before the run.
    pub fn refuse(&mut self, id: JobId, why: String) {
        let job = &mut self.jobs[id.0 as usize];
        if !matches!(job.state, State::Ended { .. }) {
            let at = self.asked[id.0 as usize].arrival;
            job.state = State::Ended { at, failed: Some((ErrorKind::Unsupported, why)) };
            self.left -= 1;
        }
    }

    /// What a policy would be shown now.
    pub fn view(&self) -> View<'_> {
        View {
            now: self.now,
            topology: self.topology,
            sharing: &self.settings.sharing,
            asked: self.asked,
            jobs: &self.jobs,
            occupancy: &self.occupancy,
            changes: &self.changes,
            model: self.model,
        }
    }

    /// One row a job, in the order of the trace.
    pub fn outcomes(&self) -> Vec<Outcome> {
        outcomes::outcomes(self.asked, &self.jobs, &self.packing, self.now, self.arrived)
    }

    /// Jobs that have arrived and have not ended.
    fn waiting(&self) -> usize {
        let ended = |job: &&Job| matches!(job.state, State::Ended { .. });
        self.arrived - self.jobs[..self.arrived].iter().filter(ended).count()
    }

    fn next(&self, cluster: &mut dyn Cluster) -> Result<Happened, ClusterError> {
        let stuck = || ClusterError::Stuck { waiting: self.waiting() };
        let all_have_arrived = self.arrived == self.asked.len();
        // A device that is lost may come back, and only the cluster knows.
        let all_are_there = self.occupancy.present() == self.topology.devices();
        if self.busy == 0 && all_have_arrived && self.wake_at.is_none() && all_are_there {
            return Err(stuck());
        }
        cluster.next(self.wake_at).map_err(|error| match error {
            ClusterError::Nothing => stuck(),
            other => other,
        })
    }

    /// Checks, applies and notes what the policy has decided, one action after the other.
    fn act(
        &mut self,
        happened: Happened,
        decision: Decision,
        cluster: &mut dyn Cluster,
    ) -> Result<Turn, ClusterError> {
        let Decision { actions, wake_at, reason } = decision;
        if let Some(at) = wake_at.filter(|at| *at <= self.now) {
            return Err(
                anyhow!("the policy wants to be woken at {at}, which is not after {}", self.now).into()
            );
        }
        self.changes.clear();
        let view_hash = self.chain.to_string();
        let (mut applied, mut refused) = (Vec::new(), Vec::new());
        // Who was to leave a device and does not.
        let mut stays = BTreeMap::new();
        for action in actions {
            let checked = self.check(&action).and_then(|()| self.check_left(&action, &stays));
            match checked.and_then(|()| cluster.apply(&action).map_err(|error| error.why)) {
                Ok(()) => {
                    self.done(&action);
                    applied.push(action);
                }
                Err(why) => {
                    if let Action::Pause { job } | Action::Stop { job, .. } = action {
                        let state = self.jobs.get(job.0 as usize).map(|job| &job.state);
                        let devices = state.and_then(kept).unwrap_or_default();
                        stays.extend(devices.iter().map(|device| (*device, job)));
                    }
                    refused.push(Refused { action, why });
                }
            }
        }
        self.idle_wakes.count(self.now, happened == Happened::Deadline && applied.is_empty())?;
        self.chain.done(&applied);
        self.wake_at = wake_at;
        self.turns += 1;
        Ok(Turn {
            turn: self.turns - 1,
            at_ns: self.now,
            happened,
            actions: applied,
            refused,
            wake_at_ns: wake_at,
            reason,
            view_hash,
        })
    }

    /// Begins what the cluster has begun.
    fn done(&mut self, action: &Action) {
        let id = action.job();
        match action {
            Action::Start { devices, plan, .. } => {
                let placed =
                    Placed { devices: devices.clone(), plan: *plan, phase: Phase::Starting, since: self.now };
                self.change(id, State::Placed(placed));
                let account = &mut self.jobs[id.0 as usize].account;
                account.first_start.get_or_insert(self.now);
                account.starts += 1;
                self.changes.push(Change::Placed(id));
            }
            Action::Pause { .. } => {
                self.enter(id, Phase::Pausing);
                self.jobs[id.0 as usize].account.pauses += 1;
            }
            Action::Resume { .. } => self.enter(id, Phase::Resuming),
            Action::Stop { .. } => self.enter(id, Phase::Stopping),
        }
    }

    /// Moves a job that has devices to another phase.
    fn enter(&mut self, id: JobId, phase: Phase) {
        if let State::Placed(placed) = &self.jobs[id.0 as usize].state {
            let placed = Placed { phase, since: self.now, ..placed.clone() };
            self.change(id, State::Placed(placed));
        }
    }

    /// The only place where the state of a job changes once the run goes on: its account, and who keeps which devices, go with it.
    fn change(&mut self, id: JobId, next: State) {
        let job = &mut self.jobs[id.0 as usize];
        job.account = job.account_at(self.now);
        let before = std::mem::replace(&mut job.state, next);
        let after = &job.state;
        self.busy = self.busy + usize::from(is_busy(after)) - usize::from(is_busy(&before));
        self.left -= usize::from(matches!(after, State::Ended { .. }));
        if !matches!(after, State::Placed(_)) {
            self.crowded.remove(&id);
        }
        // A job that keeps what it kept stays in its place among those that came.
        match (kept(&before), kept(after)) {
            (Some(devices), None) => self.occupancy.leave(id, devices),
            (None, Some(devices)) => self.occupancy.keep(id, devices),
            _ => {}
        }
        match (paused(&before), paused(after)) {
            (Some(devices), None) => {
                for device in devices {
                    if let Some(there) = self.paused_on.get_mut(device) {
                        there.retain(|other| *other != id);
                    }
                }
            }
            (None, Some(devices)) => {
                for device in devices {
                    self.paused_on.entry(*device).or_default().push(id);
                }
            }
            _ => {}
        }
        self.packing.changed(id, &before, self.now, &self.jobs, &self.occupancy);
    }

    /// The jobs on these devices, paused or not. A job on several of them comes once for each.
    fn all_there(&self, devices: &[DeviceId]) -> impl Iterator<Item = JobId> {
        devices.iter().flat_map(move |device| {
            let paused = self.paused_on.get(device).into_iter().flatten();
            self.occupancy.kept_by(*device).iter().chain(paused).copied()
        })
    }

    fn others_there(&self, id: JobId, devices: &[DeviceId]) -> BTreeSet<JobId> {
        self.all_there(devices).filter(|other| *other != id).collect()
    }

    fn fit(&self, one: JobId, other: JobId) -> bool {
        !self.do_not_fit.contains(&(one.min(other), one.max(other)))
    }
}

/// The devices that a job in this state keeps.
fn kept(state: &State) -> Option<&[DeviceId]> {
    match state {
        State::Placed(placed) if !placed.phase.has_left() => Some(&placed.devices),
        _ => None,
    }
}

/// The devices on which a job in this state is paused, or about to be.
fn paused(state: &State) -> Option<&[DeviceId]> {
    match state {
        State::Placed(placed) if matches!(placed.phase, Phase::Pausing | Phase::Paused) => {
            Some(&placed.devices)
        }
        _ => None,
    }
}

fn is_busy(state: &State) -> bool {
    matches!(state, State::Placed(placed) if placed.phase != Phase::Paused)
}
