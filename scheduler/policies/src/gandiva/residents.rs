//! Residents: the jobs that have devices to run on, whether they run, are suspended there, or have not started yet.
//!
//! A device may have several residents, which take turns. Some of them may be a group that runs together: a pack. A job alone is a group
//! of one. All members of a group have the same devices.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use engine::{
    cluster::JobId,
    job::{Phase, Placed, State},
    topology::{DeviceId, NodeId},
    view::View,
};
use schema::{plan::Plan, units::Nanos};

use super::trials::nodes_of;

/// A job with devices to run on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resident {
    /// The devices on which it is to run, in the order of ranks.
    pub(super) devices: Vec<DeviceId>,
    pub(super) plan: Option<Plan>,
    /// The time in seconds for which it ran on its node, over the weight of its group. A resident that comes begins with the least of those
    /// with which it shares a device, or a node whose cores it asks for, so that it catches up nothing. On free devices it begins with the
    /// most of its node. A resident that moves to catch up keeps its time.
    pub(super) served_s: f64,
    /// The time up to which `served_s` is counted, if it runs.
    counted: Option<Nanos>,
    /// The first member of its group.
    pub(super) group: JobId,
}

/// The residents of all devices.
#[derive(Debug, Default)]
pub(super) struct Residents {
    of: BTreeMap<JobId, Resident>,
    /// By device.
    on: Vec<BTreeSet<JobId>>,
    /// The number of devices of the job that came to a node when it was empty. `None` for a node without residents.
    affinity: Vec<Option<u32>>,
    groups: BTreeMap<JobId, BTreeSet<JobId>>,
}

/// A group of residents that run together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) first: JobId,
    pub(super) members: Vec<JobId>,
    pub(super) devices: Vec<DeviceId>,
    /// The largest of its members.
    pub(super) priority: i32,
    pub(super) served_s: f64,
}

impl Group {
    /// The order in which groups are given turns.
    pub(super) fn key(&self) -> (Reverse<i32>, u64, JobId) {
        // A time is not negative, so that the order of its bits is that of its value.
        (Reverse(self.priority), self.served_s.to_bits(), self.first)
    }
}

impl Residents {
    pub(super) fn prepare(&mut self, view: &View<'_>) {
        if self.on.is_empty() {
            self.on = vec![BTreeSet::new(); view.topology.devices() as usize];
            self.affinity = vec![None; view.topology.nodes().len()];
        }
    }

    pub(super) fn has(&self, job: JobId) -> bool {
        self.of.contains_key(&job)
    }

    pub(super) fn get(&self, job: JobId) -> Option<&Resident> {
        self.of.get(&job)
    }

    /// In the order of jobs.
    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, &Resident)> {
        self.of.iter().map(|(job, resident)| (*job, resident))
    }

    pub(super) fn on(&self, device: DeviceId) -> &BTreeSet<JobId> {
        &self.on[device.0 as usize]
    }

    pub(super) fn affinity(&self, node: NodeId) -> Option<u32> {
        self.affinity[node.0 as usize]
    }

    /// Makes a job that is not one yet a resident of these devices.
    pub(super) fn add(&mut self, view: &View<'_>, job: JobId, devices: Vec<DeviceId>, plan: Option<Plan>) {
        let on_nodes = || {
            let nodes = nodes_of(view, &devices).into_iter();
            nodes.flat_map(|node| devices_of(view, node)).collect::<Vec<_>>()
        };
        // Jobs that ask for cores take turns with those of their nodes.
        let takes_cores = view.request(job).cpus.is_some() && view.occupancy.counts_cpus();
        let near = if takes_cores { on_nodes() } else { devices.clone() };
        let beside = near.iter().flat_map(|device| self.on(*device)).map(|other| self.of[other].served_s);
        let served_s = beside.min_by(f64::total_cmp).unwrap_or_else(|| {
            let there = on_nodes().into_iter().flat_map(|device| self.on(device));
            there.map(|other| self.of[other].served_s).max_by(f64::total_cmp).unwrap_or(0.0)
        });
        for device in &devices {
            let node = view.topology.node_of(*device).0 as usize;
            self.affinity[node].get_or_insert(view.request(job).devices);
            self.on[device.0 as usize].insert(job);
        }
        self.groups.insert(job, BTreeSet::from([job]));
        self.of.insert(job, Resident { devices, plan, served_s, counted: None, group: job });
    }

    pub(super) fn remove(&mut self, view: &View<'_>, job: JobId) -> Option<Resident> {
        self.separate(job);
        let resident = self.of.remove(&job)?;
        self.groups.remove(&job);
        for device in &resident.devices {
            self.on[device.0 as usize].remove(&job);
        }
        for device in &resident.devices {
            let node = view.topology.node_of(*device);
            if devices_of(view, node).all(|device| self.on(device).is_empty()) {
                self.affinity[node.0 as usize] = None;
            }
        }
        Some(resident)
    }

    /// Gives a resident other devices, or another plan.
    pub(super) fn relocate(
        &mut self,
        view: &View<'_>,
        job: JobId,
        devices: Vec<DeviceId>,
        plan: Option<Plan>,
    ) {
        if self.remove(view, job).is_some() {
            self.add(view, job, devices, plan);
        }
    }

    /// Gives a resident other devices, on which it catches up with the others there, by at most this time in seconds.
    pub(super) fn relocate_behind(
        &mut self,
        view: &View<'_>,
        job: JobId,
        devices: Vec<DeviceId>,
        most_s: f64,
    ) {
        let Some(before) = self.remove(view, job) else { return };
        self.add(view, job, devices, before.plan);
        if let Some(resident) = self.of.get_mut(&job) {
            let least_s = resident.served_s;
            resident.served_s = before.served_s.max(least_s - most_s).min(least_s);
        }
    }

    /// The time of the resident of a device that has got the least of it. No time for a device without residents.
    pub(super) fn least_served(&self, device: DeviceId) -> Nanos {
        let served = self.on(device).iter().map(|job| self.of[job].served_s);
        Nanos::from_secs_f64(served.min_by(f64::total_cmp).unwrap_or(0.0))
    }

    /// Puts a resident into the group of another one with the same devices.
    pub(super) fn join(&mut self, job: JobId, host: JobId) {
        self.separate(job);
        let first = self.of[&host].group;
        let served_s = self.of[&first].served_s;
        self.groups.remove(&job);
        if let Some(members) = self.groups.get_mut(&first) {
            members.insert(job);
        }
        if let Some(resident) = self.of.get_mut(&job) {
            (resident.group, resident.served_s) = (first, served_s);
        }
    }

    /// Makes a resident a group of its own.
    pub(super) fn separate(&mut self, job: JobId) {
        let Some(first) = self.of.get(&job).map(|resident| resident.group) else { return };
        let Some(mut members) = self.groups.remove(&first).filter(|members| members.len() > 1) else {
            self.groups.insert(job, BTreeSet::from([job]));
            return;
        };
        members.remove(&job);
        let next = members.iter().next().copied().unwrap_or(job);
        for member in &members {
            if let Some(resident) = self.of.get_mut(member) {
                resident.group = next;
            }
        }
        self.groups.insert(next, members);
        self.groups.insert(job, BTreeSet::from([job]));
        if let Some(resident) = self.of.get_mut(&job) {
            resident.group = job;
        }
    }

    /// The members of the group of a job, in order.
    pub(super) fn members(&self, job: JobId) -> impl Iterator<Item = JobId> {
        let first = self.of.get(&job).map(|resident| resident.group);
        first.and_then(|first| self.groups.get(&first)).into_iter().flatten().copied()
    }

    /// All groups, in the order of their first members.
    pub(super) fn groups(&self, view: &View<'_>) -> Vec<Group> {
        let group = |(first, members): (&JobId, &BTreeSet<JobId>)| {
            let of = &self.of[first];
            let served = members.iter().map(|member| self.of[member].served_s);
            let priorities = members.iter().map(|member| view.request(*member).priority);
            Group {
                first: *first,
                members: members.iter().copied().collect(),
                devices: of.devices.clone(),
                priority: priorities.max().unwrap_or(0),
                served_s: served.min_by(f64::total_cmp).unwrap_or(0.0),
            }
        };
        self.groups.iter().map(group).collect()
    }

    /// Counts the time for which residents ran since the last decision. A job that is to be held still runs until the end of its step,
    /// which counts as well.
    pub(super) fn count(&mut self, view: &View<'_>) {
        let weight = |job: &JobId| f64::from(view.request(*job).weight);
        let weights: BTreeMap<JobId, f64> =
            self.groups.iter().map(|(first, members)| (*first, members.iter().map(weight).sum())).collect();
        for (job, resident) in &mut self.of {
            if let Some(counted) = resident.counted {
                let weight = weights.get(&resident.group).copied().unwrap_or(1.0);
                resident.served_s += (view.now - counted).as_secs_f64() / weight;
            }
            let runs = |placed: &&Placed| matches!(placed.phase, Phase::Running | Phase::Pausing);
            resident.counted = view.job(*job).placed().filter(runs).map(|_| view.now);
        }
    }

    /// Whether a device has residents that are not of one group, so that they take turns.
    pub(super) fn is_contended(&self, device: DeviceId) -> bool {
        let mut groups = self.on(device).iter().map(|job| self.of[job].group);
        groups.next().is_some_and(|first| groups.any(|group| group != first))
    }
}

/// All devices of a node.
pub(super) fn devices_of(view: &View<'_>, node: NodeId) -> impl Iterator<Item = DeviceId> {
    let first = view.topology.nodes()[node.0 as usize].first.0;
    (first..first + view.occupancy.devices_of(node)).map(DeviceId)
}

/// Whether a job runs, or is on its way to.
pub(super) fn is_up(view: &View<'_>, job: JobId) -> bool {
    view.job(job).placed().is_some_and(|placed| !placed.phase.has_left())
}

/// Whether a job waits for devices, as far as the engine is concerned.
pub(super) fn waits(view: &View<'_>, job: JobId) -> bool {
    matches!(view.job(job).state, State::Waiting { .. })
}
