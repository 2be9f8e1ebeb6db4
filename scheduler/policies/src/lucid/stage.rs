//! The profiler stage: nodes on which a job first runs for a short time, so that its class is known before it is packed.
//!
//! Jobs of all virtual clusters go there first, the one with the fewest devices before others and then in order of arrival; if the first
//! does not fit, the others wait. A job that ends within the time is done. A job that does not is stopped, without a checkpoint, and
//! begins anew in its virtual cluster. Nothing makes up for the time that it has spent. A job that has waited for the bound before the
//! stage skips it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use engine::{
    cluster::{Action, JobId},
    job::{Phase, State},
    occupancy::PoolId,
    topology::{DeviceId, NodeId},
    view::View,
};
use schema::units::Nanos;

use super::{bounds::Bounds, settings::Settings};
use crate::kit::{belief::Length, jobs_named, packs::can_leave, start};

#[derive(Default)]
pub(super) struct Stage {
    nodes: Vec<NodeId>,
    /// The jobs that wait for the stage, by their devices.
    waiting: BTreeSet<(u32, JobId)>,
    bounds: Bounds,
    /// The jobs that were started there, each with whether it was stopped at the end of its time.
    inside: BTreeMap<JobId, bool>,
    /// The jobs that have outlived the stage.
    profiled: HashSet<JobId>,
}

impl Stage {
    pub(super) fn new(view: &View<'_>) -> Stage {
        let nodes = (0..).zip(view.topology.nodes());
        let nodes = nodes.filter(|(_, node)| node.facts.profiling).map(|(number, _)| NodeId(number));
        Stage { nodes: nodes.collect(), ..Stage::default() }
    }

    /// The nodes of the stage. Empty if the cluster has no stage.
    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Whether a job has outlived the stage.
    pub(super) fn has_profiled(&self, job: JobId) -> bool {
        self.profiled.contains(&job)
    }

    /// Whether the class of a job may be asked for.
    pub(super) fn knows(&self, settings: &Settings, job: JobId) -> bool {
        self.nodes.is_empty() || settings.is_profiling_free || self.profiled.contains(&job)
    }

    pub(super) fn is_inside(&self, job: JobId) -> bool {
        self.inside.contains_key(&job)
    }

    /// The number of a job among those that wait for the stage, and of all of them.
    pub(super) fn place_of(&self, view: &View<'_>, job: JobId) -> Option<(usize, usize)> {
        let key = (view.request(job).devices, job);
        self.waiting.contains(&key).then(|| (self.waiting.range(..=key).count(), self.waiting.len()))
    }

    /// Removes the jobs that have waited for the bound. They skip the stage, which prefers smaller jobs.
    pub(super) fn take_over(&mut self, view: &View<'_>) -> Vec<JobId> {
        self.bounds.take_over(view.now).into_iter().map(|(_, job)| job).collect()
    }

    /// The jobs that wait for the stage.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.waiting.iter().map(|(_, job)| *job)
    }

    /// The number of devices of the stage in a pool that are not lost.
    pub(super) fn present_in(&self, view: &View<'_>, pool: PoolId) -> u32 {
        let of_pool = self.nodes.iter().filter(|node| {
            let first = view.topology.nodes()[node.0 as usize].first;
            view.occupancy.pool_of(first) == pool
        });
        of_pool.map(|node| present_on(view, *node)).sum()
    }

    /// Updates the stage after a change of a job. Returns whether the job is to wait for the stage or is there.
    pub(super) fn examine(&mut self, view: &View<'_>, settings: &Settings, job: JobId) -> bool {
        let key = (view.request(job).devices, job);
        self.waiting.remove(&key);
        self.bounds.remove(job);
        match &view.job(job).state {
            State::Waiting { .. } => {
                if self.inside.remove(&job) == Some(true) {
                    self.profiled.insert(job);
                }
                let bound = Bounds::of(view, settings.bound, job);
                let goes = self.takes(view, settings, job) && bound.is_none_or(|at| at > view.now);
                if goes {
                    self.waiting.insert(key);
                    bound.into_iter().for_each(|at| self.bounds.put(job, at));
                }
                goes
            }
            State::Placed(placed) => {
                if let Some(is_stopped) = self.inside.get_mut(&job) {
                    *is_stopped &= placed.phase != Phase::Running;
                }
                self.is_inside(job)
            }
            State::Ended { .. } => {
                self.profiled.remove(&job);
                self.inside.remove(&job).is_some()
            }
        }
    }

    /// Whether a waiting job goes to the stage first.
    fn takes(&self, view: &View<'_>, settings: &Settings, job: JobId) -> bool {
        let asked = view.request(job);
        let has_room = |node: &NodeId| {
            let facts = &view.topology.nodes()[node.0 as usize];
            let enough = facts.facts.cpus.filter(|_| view.occupancy.counts_cpus()).zip(asked.cpus);
            asked.device_type.as_ref().is_none_or(|wanted| *wanted == facts.device_type)
                && present_on(view, *node) >= asked.devices
                && enough.is_none_or(|(cpus, each)| u32::from(each) * asked.devices <= cpus)
        };
        let is_new = !self.profiled.contains(&job) && asked.devices <= settings.profile_devices;
        let outlives = || Length::of(view, job) > Length(settings.profile);
        is_new && self.nodes.iter().any(has_room) && !(settings.is_profiling_free && outlives())
    }

    /// Stops the jobs whose time is over, and starts others on the devices of the stage that are free and not in `taken`. Starts none if
    /// the stage is `closed`.
    pub(super) fn decide(
        &mut self,
        view: &View<'_>,
        settings: &Settings,
        (taken, closed): (&BTreeSet<DeviceId>, bool),
        reasons: &mut Vec<String>,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let over: Vec<JobId> =
            self.ends(view, settings).filter(|(at, _)| *at <= view.now).map(|(_, job)| job).collect();
        for &job in &over {
            self.inside.insert(job, true);
            let checkpoint = settings.keeps_profiled_work && can_leave(view, job);
            actions.push(Action::Stop { job, checkpoint });
        }
        let mut started = Vec::new();
        if !closed && !self.waiting.is_empty() {
            let room = |node: &NodeId| {
                let free = view.occupancy.free_on(*node).filter(|device| !taken.contains(device));
                Room { node: *node, free: free.collect(), cpus: view.occupancy.free_cpus(*node) }
            };
            let mut rooms: Vec<Room> = self.nodes.iter().map(room).collect();
            while let Some(&(_, job)) = self.waiting.first() {
                let fitting = rooms.iter_mut().filter(|room| room.fits(view, job));
                let Some(room) = fitting.min_by_key(|room| (room.free.len(), room.node)) else { break };
                actions.push(start(view, job, room.take(view, job)));
                self.waiting.pop_first();
                self.bounds.remove(job);
                self.inside.insert(job, false);
                started.push(job);
            }
        }
        for (what, jobs) in [("has been profiled", &over), ("to be profiled", &started)] {
            if !jobs.is_empty() {
                reasons.push(format!("{what}: {}", jobs_named(view, jobs)));
            }
        }
        actions
    }

    /// The next time at which the time of a job is over.
    pub(super) fn next_end(&self, view: &View<'_>, settings: &Settings) -> Option<Nanos> {
        self.ends(view, settings).map(|(at, _)| at).min()
    }

    /// The end of the time of each job that runs.
    fn ends(&self, view: &View<'_>, settings: &Settings) -> impl Iterator<Item = (Nanos, JobId)> {
        let running = |(job, is_stopped): (&JobId, &bool)| {
            let placed = view.job(*job).placed().filter(|placed| placed.phase == Phase::Running);
            placed.filter(|_| !is_stopped).map(|placed| (placed.since + settings.profile, *job))
        };
        self.inside.iter().filter_map(running)
    }
}

/// What a decision has left of a node.
struct Room {
    node: NodeId,
    free: Vec<DeviceId>,
    cpus: Option<u32>,
}

impl Room {
    fn fits(&self, view: &View<'_>, job: JobId) -> bool {
        let asked = view.request(job);
        let device_type = &view.topology.nodes()[self.node.0 as usize].device_type;
        asked.device_type.as_ref().is_none_or(|wanted| wanted == device_type)
            && self.free.len() >= asked.devices as usize
            && self.cpus.is_none_or(|cpus| cores(view, job) <= cpus)
    }

    fn take(&mut self, view: &View<'_>, job: JobId) -> Vec<DeviceId> {
        self.cpus = self.cpus.map(|cpus| cpus - cores(view, job));
        self.free.drain(..view.request(job).devices as usize).collect()
    }
}

/// The cores that a job asks for.
fn cores(view: &View<'_>, job: JobId) -> u32 {
    view.request(job).cpus.map_or(0, |each| u32::from(each) * view.request(job).devices)
}

/// The number of devices of a node that are not lost.
fn present_on(view: &View<'_>, node: NodeId) -> u32 {
    let first = view.topology.nodes()[node.0 as usize].first.0;
    let devices = first..first + view.occupancy.devices_of(node);
    devices.filter(|device| !view.occupancy.is_lost(DeviceId(*device))).count() as u32
}
