//! The engine: the loop that receives the events of an instant, asks the policy, and carries out its actions. It is the only writer
//! of the state of jobs. It depends neither on the policy nor on the kind of cluster.

mod admission;
mod check;
mod events;
mod idle;
mod learning;
mod outcomes;
mod packing;
mod shares;
mod transitions;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, anyhow};
use formats::{
    decision::{Chain, ClusterEvent, Refused, Turn},
    rows::Outcome,
};
use model::Throughput;
use record::{placement::Placement, rows::ErrorKind, suspension::Suspension};
use schema::{plan::Plan, sharing::Sharing, units::Nanos};

use self::{
    idle::IdleWakes,
    learning::Learning,
    packing::Packing,
    shares::Shares,
    transitions::{kept, paused},
};
use crate::{
    cluster::{Action, Cluster, ClusterError, JobId},
    job::{Ending, Job, JobRequest, State},
    journal::Journal,
    occupancy::{Occupancy, PoolId},
    policy::{Decision, Policy},
    topology::{DeviceId, Topology},
    view::{Change, PolicyContext, View},
};

/// The settings of the engine, which do not change during a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The way in which packed jobs share their devices. With `alone`, no jobs are packed.
    pub sharing: Sharing,
    /// How jobs are suspended.
    pub suspension: Suspension,
    /// The nodes on which policies place jobs. The engine does not check it.
    pub placement: Placement,
    /// The maximum number of jobs on a device.
    pub jobs_per_device: u32,
    /// The maximum number of times that a failed job is started again from its last checkpoint.
    pub retries: u32,
    /// Whether a start is refused if the jobs on a node leave too few of its CPUs. Earlier versions did not count them.
    pub counts_cpus: bool,
    /// Whether the model of the policy learns the step times of jobs.
    pub refits: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sharing: Sharing::TIME_SLICE,
            suspension: Suspension::default(),
            placement: Placement::Consolidated,
            jobs_per_device: 2,
            retries: 2,
            counts_cpus: true,
            refits: false,
        }
    }
}

impl Settings {
    /// The maximum number of jobs on a device, which is 1 if jobs do not share.
    fn most_on_a_device(&self) -> u32 {
        match self.sharing {
            Sharing::Alone => 1,
            _ => self.jobs_per_device,
        }
    }
}

/// The state of a run: its jobs, its devices and the time.
pub struct Engine<'a> {
    topology: &'a Topology,
    asked: &'a [JobRequest],
    /// The model that the policy may query.
    model: Box<dyn Throughput + 'a>,
    /// `None` if the model learns nothing from the run.
    learning: Option<Learning>,
    known: PolicyContext<'a>,
    settings: Settings,
    jobs: Vec<Job>,
    occupancy: Occupancy,
    /// Jobs that are paused on a device, or are being paused: their processes remain there.
    paused_on: BTreeMap<DeviceId, Vec<JobId>>,
    packing: Packing,
    shares: Shares,
    /// Pairs of jobs that did not fit on a device together. The smaller number is first.
    do_not_fit: BTreeSet<(JobId, JobId)>,
    /// Plans under which a job ran out of memory alone, with the pools of the devices.
    too_large: BTreeSet<(JobId, Option<Plan>, PoolId)>,
    /// Jobs on devices that have shared a device with a job that ran out of memory there.
    crowded: BTreeSet<JobId>,
    /// Changes since the last decision of the policy.
    changes: Vec<Change>,
    now: Nanos,
    wake_at: Option<Nanos>,
    idle_wakes: IdleWakes,
    turns: u64,
    /// `None` if the journal does not need it.
    chain: Option<Chain>,
    /// The number of jobs that have arrived. Jobs arrive in order.
    arrived: usize,
    /// The number of jobs that have not ended.
    left: usize,
    /// The number of jobs that cause an event without a further action: those on devices that are not paused.
    busy: usize,
}

/// Runs until every job has ended, and returns the outcomes. After an error, [`Engine::outcomes`] returns the outcomes so far.
///
/// # Errors
/// See [`Engine::run`].
pub fn run(
    engine: &mut Engine<'_>,
    cluster: &mut dyn Cluster,
    policy: &mut dyn Policy,
    journal: &mut dyn Journal,
) -> Result<Vec<Outcome>, ClusterError> {
    engine.run(cluster, policy, journal)?;
    Ok(engine.outcomes().collect())
}

impl<'a> Engine<'a> {
    /// Creates the engine of a run that has not begun. Jobs are in order of arrival. A job that the cluster can never run is not
    /// admitted: it has ended.
    pub fn new(
        topology: &'a Topology,
        asked: &'a [JobRequest],
        model: impl Throughput + 'a,
        settings: Settings,
    ) -> Engine<'a> {
        let learns = settings.refits && model.version().is_some();
        let occupancy = if settings.counts_cpus {
            Occupancy::new(topology)
        } else {
            Occupancy::new(topology).without_cpus()
        };
        let mut engine = Engine {
            topology,
            asked,
            model: Box::new(model),
            learning: learns.then(|| Learning::new(asked.len(), topology.devices())),
            known: PolicyContext::default(),
            settings,
            jobs: asked.iter().map(|asked| Job::new(asked.arrival)).collect(),
            occupancy,
            paused_on: BTreeMap::new(),
            packing: Packing::default(),
            shares: Shares::new(asked.len(), topology.devices()),
            do_not_fit: BTreeSet::new(),
            too_large: BTreeSet::new(),
            crowded: BTreeSet::new(),
            changes: Vec::new(),
            now: Nanos::ZERO,
            wake_at: None,
            idle_wakes: IdleWakes::default(),
            turns: 0,
            chain: Some(Chain::default()),
            arrived: 0,
            left: asked.len(),
            busy: 0,
        };
        for (id, why) in admission::refused(topology, asked) {
            engine.refuse(id, why);
        }
        engine.refuse_for_lack_of_cpus(Placement::Spread);
        engine
    }

    /// Runs until every job has ended.
    ///
    /// # Errors
    /// Returns an error of the cluster or of the journal, and [`ClusterError::Stuck`] if jobs wait and no further event can let one
    /// of them start. Fails if an
    /// event contradicts the state of the run, and if the policy fails, asks to be woken in the past, or is woken again and again and
    /// does nothing.
    pub fn run(
        &mut self,
        cluster: &mut dyn Cluster,
        policy: &mut dyn Policy,
        journal: &mut dyn Journal,
    ) -> Result<(), ClusterError> {
        if !journal.needs_hashes() {
            self.chain = None;
        }
        while self.left > 0 {
            let events = self.next(cluster)?;
            let now = cluster.now();
            for happened in &events {
                self.apply(now, happened)
                    .with_context(|| format!("the cluster reported at {now}: {happened}"))?;
            }
            let decision = policy.decide(&self.view_of_policy());
            if let Some(failure) = policy.failure() {
                return Err(failure.into());
            }
            let turn = self.act(events, decision, cluster)?;
            journal.record(Turn { explain: policy.explanations(), ..turn }, &self.view())?;
        }
        Ok(())
    }

    /// Lets the policy know the costs of switches and the legal plans of jobs.
    pub fn knowing(mut self, known: PolicyContext<'a>) -> Engine<'a> {
        self.known = known;
        self
    }

    /// Refuses to admit the rigid jobs for which an empty cluster would not have the CPUs under this placement. Callers do this
    /// before the run begins.
    pub fn refuse_for_lack_of_cpus(&mut self, placement: Placement) {
        let lacking = admission::lacking_cpus(self.topology, self.asked, &self.occupancy, placement);
        lacking.into_iter().for_each(|(id, why)| self.refuse(id, why));
    }

    /// Refuses to admit a job, for this reason. Callers do this before the run begins.
    pub fn refuse(&mut self, id: JobId, why: String) {
        let job = &mut self.jobs[id.0 as usize];
        if !matches!(job.state, State::Ended { .. }) {
            let at = self.asked[id.0 as usize].arrival;
            job.state = State::Ended { at, how: Ending::Failed(ErrorKind::Unsupported, why.into()) };
            self.left -= 1;
        }
    }

    /// The view that the policy receives: it ends at the jobs that have arrived.
    fn view_of_policy(&self) -> View<'_> {
        let view = self.view();
        View { asked: &self.asked[..self.arrived], jobs: &self.jobs[..self.arrived], ..view }
    }

    /// The present state, with all jobs of the run.
    pub fn view(&self) -> View<'_> {
        View {
            now: self.now,
            topology: self.topology,
            sharing: &self.settings.sharing,
            suspension: self.settings.suspension,
            jobs_per_device: self.settings.most_on_a_device(),
            placement: self.settings.placement,
            virtual_cluster: None,
            asked: self.asked,
            jobs: &self.jobs,
            occupancy: &self.occupancy,
            changes: &self.changes,
            model: &*self.model,
            known: self.known,
        }
    }

    /// The outcomes of all jobs, in the order of the trace.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        outcomes::outcomes(self.asked, &self.jobs, &self.packing, &self.shares, self.now, self.arrived)
    }

    /// The jobs that were admitted, each with the time at which it ended. `None` if it has not.
    pub fn ends(&self) -> impl Iterator<Item = (&'a JobRequest, Option<Nanos>)> {
        let jobs = self.asked.iter().zip(&self.jobs).filter(|(_, job)| outcomes::is_admitted(job));
        jobs.map(|(asked, job)| (asked, outcomes::end(&job.state)))
    }

    /// The number of jobs that have arrived and have not ended.
    fn waiting(&self) -> usize {
        let ended = |job: &&Job| matches!(job.state, State::Ended { .. });
        self.arrived - self.jobs[..self.arrived].iter().filter(ended).count()
    }

    fn next(&self, cluster: &mut dyn Cluster) -> Result<Vec<ClusterEvent>, ClusterError> {
        let stuck = || ClusterError::Stuck { waiting: self.waiting() };
        let all_have_arrived = self.arrived == self.asked.len();
        // A lost device may come back. Only the cluster knows whether it will.
        let all_are_there = self.occupancy.present() == self.topology.devices();
        let only_the_policy_can_change = self.busy == 0 && all_have_arrived && all_are_there;
        if only_the_policy_can_change && (self.wake_at.is_none() || self.idle_wakes.are_stuck()) {
            return Err(stuck());
        }
        match cluster.next(self.wake_at) {
            Err(ClusterError::Nothing) => Err(stuck()),
            next => next,
        }
    }

    /// Checks, applies and records the actions of a decision, in order.
    fn act(
        &mut self,
        events: Vec<ClusterEvent>,
        decision: Decision,
        cluster: &mut dyn Cluster,
    ) -> Result<Turn, ClusterError> {
        let Decision { actions, wake_at, reason } = decision;
        if let Some(at) = wake_at.filter(|at| *at <= self.now) {
            return Err(
                anyhow!("the policy asks to be woken at {at}, which is not after {}", self.now).into()
            );
        }
        self.changes.clear();
        let view_hash = self.chain.map(|chain| chain.to_string()).unwrap_or_default();
        let (mut applied, mut refused) = (Vec::new(), Vec::new());
        // Devices whose job does not leave, because its pause or stop was refused.
        let mut stays = BTreeMap::new();
        for action in actions {
            let checked = self.check(&action).and_then(|()| self.check_left(&action, &stays));
            match checked.and_then(|()| cluster.apply(&action).map_err(|error| error.why)) {
                Ok(()) => {
                    self.done(&action);
                    applied.push(action);
                }
                Err(why) => {
                    if let Action::Pause { job } | Action::Stop { job, .. } | Action::End { job } = action {
                        let state = self.jobs.get(job.0 as usize).map(|job| &job.state);
                        let devices = state.and_then(kept).map_or(&[][..], |placed| &placed.devices);
                        stays.extend(devices.iter().map(|device| (*device, job)));
                    }
                    if (action.job().0 as usize) < self.arrived {
                        self.changes.push(Change::Refused(action.job()));
                    }
                    refused.push(Refused { action, why });
                }
            }
        }
        let is_idle = events == [ClusterEvent::Deadline] && applied.is_empty();
        self.idle_wakes.count(self.now, is_idle, !refused.is_empty())?;
        if let Some(chain) = &mut self.chain {
            chain.done(&applied);
        }
        self.wake_at = wake_at;
        self.turns += 1;
        Ok(Turn {
            turn: self.turns - 1,
            at_ns: self.now,
            model_version: self.model.version(),
            events,
            actions: applied,
            refused,
            wake_at_ns: wake_at,
            reason,
            explain: BTreeMap::new(),
            view_hash,
        })
    }

    /// The jobs on these devices, paused ones included. A job on several of them occurs once for each device.
    fn all_there(&self, devices: &[DeviceId]) -> impl Iterator<Item = JobId> {
        devices.iter().flat_map(move |device| {
            let paused = self.paused_on.get(device).into_iter().flatten();
            self.occupancy.kept_by(*device).iter().chain(paused).copied()
        })
    }

    /// The other jobs that hold memory of these devices.
    fn others_in_memory(&self, id: JobId, devices: &[DeviceId]) -> BTreeSet<JobId> {
        let holds = |other: &JobId| match paused(&self.jobs[other.0 as usize].state) {
            None => true,
            Some(on) => {
                let pausing = self.asked[other.0 as usize].pausing;
                !pausing.frees(self.topology.device(on[0]), self.settings.suspension)
            }
        };
        self.all_there(devices).filter(|other| *other != id && holds(other)).collect()
    }

    fn fit(&self, one: JobId, other: JobId) -> bool {
        !self.do_not_fit.contains(&(one.min(other), one.max(other)))
    }
}
