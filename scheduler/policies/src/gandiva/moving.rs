//! Migration (Gandiva, section 3.2.2): jobs are given other devices, and go on there from a checkpoint.
//!
//! * A suspended job moves where its devices would be less loaded: to free devices, or to those of fewer others. With `migrate=off` it
//!   moves within its nodes only, as the paper resumes a job on any devices of its server. On one node, devices may
//!   have a load that differs by one job for ever. A job with less service than the jobs on other devices of this load
//!   then takes turns there and catches up, so that the jobs of a node get equal shares. The job joins the jobs with the most service. It
//!   moves if the difference in service is at least one quantum, and the restart takes at most the share `moves` of the difference.
//! * A job on more nodes than it needs moves to one that has room.
//! * The jobs of a node of which at least three of four devices are free move to nodes with fewer free devices.
//!
//! A move of the last two kinds, or to equally loaded devices, gains little at once. A job makes one only if all its restarts, this one
//! included, take at most `moves` of the time since its first start. A move to less loaded devices may instead take up to a quantum. A job
//! whose cost of a restart is not known does not move once it has started, and one that has not started moves for nothing. A job does
//! not go back to devices with which it was slower.

use std::cmp::Reverse;

use engine::{
    cluster::JobId,
    job::Phase,
    topology::{DeviceId, NodeId},
    view::View,
};
use record::suspension::Suspension;

use super::{
    Gandiva,
    place::{Load, has_cores},
    residents::{Group, devices_of, is_up},
    trials::nodes_of,
};
use crate::kit::{can_suspend, elastic::restart_s};

/// A node is emptied if at least this part of its devices is free.
const FRAGMENTED: (u32, u32) = (3, 4);

impl Gandiva {
    /// Moves jobs. Those that become suspended or wait take part in the next turn on their new devices.
    pub(super) fn migrate(&mut self, view: &View<'_>, is_turn: bool, reasons: &mut Vec<String>) {
        self.balance(view, reasons);
        if is_turn && self.settings.migrates {
            self.gather(view, reasons);
            self.swap(view, reasons);
            self.defragment(view, reasons);
        }
    }

    /// Moves suspended jobs to devices with a smaller load.
    fn balance(&mut self, view: &View<'_>, reasons: &mut Vec<String>) {
        let contended =
            |group: &Group| group.devices.iter().any(|device| self.residents.is_contended(*device));
        let mut groups = self.residents.groups(view);
        groups.retain(|group| group.members.len() == 1 && !is_up(view, group.first) && contended(group));
        groups.sort_by_cached_key(Group::key);
        for group in groups {
            let job = group.first;
            if !self.may_move_to_gain(view, job) {
                continue;
            }
            let here =
                group.devices.iter().map(|device| self.load(view, *device, job)).max().unwrap_or_default();
            let Some((there, devices)) = self.least_loaded(view, &group) else { continue };
            let lags = there == here && self.lags(view, &group, &devices) && self.may_move(view, job);
            if there < here || lags {
                self.relocate(view, job, (devices, lags), reasons);
            }
        }
    }

    /// The least loaded other devices for a job, on its own node if the devices of others are not less loaded. Of equally loaded devices,
    /// the devices whose jobs have got most of the time.
    fn least_loaded(&self, view: &View<'_>, group: &Group) -> Option<(Load, Vec<DeviceId>)> {
        let job = group.first;
        let (own_nodes, count) = (nodes_of(view, &group.devices), group.devices.len());
        let pool = view.occupancy.pool_of(group.devices[0]);
        let on_node = |node: NodeId| {
            let is_open = |device: &DeviceId| {
                !group.devices.contains(device)
                    && !view.occupancy.is_lost(*device)
                    && self.residents.on(*device).iter().all(|other| can_suspend(view, *other))
            };
            let ordered = |device: DeviceId| {
                let served = Reverse(self.residents.least_served(device));
                (self.load(view, device, job), served, device)
            };
            let mut open: Vec<_> = devices_of(view, node).filter(is_open).map(ordered).collect();
            open.sort_unstable();
            open.truncate(count);
            let load = open.last().filter(|_| open.len() == count)?.0;
            let mut devices: Vec<DeviceId> = open.into_iter().map(|(.., device)| device).collect();
            devices.sort_unstable();
            let is_slower = self.trials.slower.contains(&(job, vec![node], count));
            (!is_slower && has_cores(view, &[job], &devices)).then_some((
                load,
                !own_nodes.contains(&node),
                node,
                devices,
            ))
        };
        let is_near = |node: &NodeId| self.settings.migrates || own_nodes.contains(node);
        let found = view.occupancy.nodes_in(pool).filter(is_near).filter_map(on_node).min();
        found.map(|(load, _, _, devices)| (load, devices))
    }

    /// Whether a job lags behind all jobs on these devices of its node by enough service to pay for a restart.
    fn lags(&self, view: &View<'_>, group: &Group, devices: &[DeviceId]) -> bool {
        let lag_s = self.lag_s(view, group.first);
        let others = devices.iter().flat_map(|device| self.residents.on(*device));
        let ahead = |other: &JobId| {
            self.residents.get(*other).is_some_and(|other| other.served_s - group.served_s >= lag_s)
        };
        let mut others = others.peekable();
        nodes_of(view, devices) == nodes_of(view, &group.devices)
            && others.peek().is_some()
            && others.all(ahead)
    }

    /// Moves jobs that are on more nodes than they need to one node with room.
    fn gather(&mut self, view: &View<'_>, reasons: &mut Vec<String>) {
        for group in self.residents.groups(view) {
            if self.may_move(view, group.first)
                && let Some(devices) = self.room_for(view, &group)
            {
                self.relocate(view, group.first, (devices, false), reasons);
            }
        }
    }

    /// The devices of the fullest node with room for a job that is on several nodes and could be on one.
    fn room_for(&self, view: &View<'_>, group: &Group) -> Option<Vec<DeviceId>> {
        let (count, pool) = (group.devices.len(), view.occupancy.pool_of(group.devices[0]));
        let is_spread = group.members.len() == 1 && nodes_of(view, &group.devices).len() > 1;
        if !is_spread || view.occupancy.fewest_nodes(pool, count as u32) != Some(1) {
            return None;
        }
        let nodes = view.occupancy.nodes_in(pool).filter_map(|node| {
            let devices = self.open_on(view, node, group.first);
            let is_slower = self.trials.slower.contains(&(group.first, vec![node], count));
            (devices.len() >= count && !is_slower && has_cores(view, &[group.first], &devices[..count]))
                .then_some((devices.len(), node, devices))
        });
        nodes.min().map(|(_, _, devices)| devices[..count].to_vec())
    }

    /// Whether a job is on more nodes than it needs, and may move or trade once it has run for long enough.
    pub(super) fn may_gather_later(&self, view: &View<'_>) -> bool {
        let is_spread = |devices: &[DeviceId]| {
            let first = view.topology.node_of(devices[0]);
            devices.iter().any(|device| view.topology.node_of(*device) != first)
        };
        let may = self.settings.slices && self.settings.migrates && self.settings.moves > 0.0;
        may && self.residents.iter().any(|(job, resident)| {
            is_spread(&resident.devices) && self.restart_s(view, job).is_some() && {
                let pool = view.occupancy.pool_of(resident.devices[0]);
                let fewest = view.occupancy.fewest_nodes(pool, resident.devices.len() as u32);
                fewest.is_some_and(|fewest| nodes_of(view, &resident.devices).len() > fewest)
            }
        })
    }

    /// Moves the jobs of the node with the most free devices away, if most of its devices are free.
    fn defragment(&mut self, view: &View<'_>, reasons: &mut Vec<String>) {
        let free = |node: NodeId| self.free_on(view, node).count() as u32;
        let used = |node: &NodeId| self.residents.affinity(*node).is_some();
        let nodes: Vec<NodeId> =
            view.pools().flat_map(|pool| view.occupancy.nodes_in(pool)).filter(used).collect();
        let is_fragmented =
            |node: &NodeId| free(*node) * FRAGMENTED.1 >= view.occupancy.devices_of(*node) * FRAGMENTED.0;
        let Some(from) = nodes.iter().copied().filter(is_fragmented).max_by_key(|node| (free(*node), node.0))
        else {
            return;
        };
        let pool = view.occupancy.pool_of(view.topology.nodes()[from.0 as usize].first);
        let jobs: Vec<JobId> = self
            .residents
            .iter()
            .filter(|(_, of)| nodes_of(view, &of.devices) == [from])
            .map(|(job, _)| job)
            .collect();
        for job in jobs {
            let Some(resident) = self.residents.get(job) else { continue };
            let count = resident.devices.len();
            let is_other = |node: &NodeId| {
                *node != from && view.occupancy.pool_of(view.topology.nodes()[node.0 as usize].first) == pool
            };
            let fuller = |node: &NodeId| {
                let open = self.free_on(view, *node).count();
                let is_slower = self.trials.slower.contains(&(job, vec![*node], count));
                open >= count && (open as u32) < free(from) && !is_slower
            };
            let to = nodes
                .iter()
                .copied()
                .filter(is_other)
                .filter(fuller)
                .min_by_key(|node| (free(*node), node.0));
            let Some(to) =
                to.filter(|_| self.residents.members(job).count() == 1 && self.may_move(view, job))
            else {
                continue;
            };
            let devices: Vec<DeviceId> = self.free_on(view, to).take(count).collect();
            if !has_cores(view, &[job], &devices) {
                continue;
            }
            self.relocate(view, job, (devices, false), reasons);
            // Others follow at the next turns, as long as the node has the most free devices.
            return;
        }
    }

    /// The devices of a node without residents.
    pub(super) fn free_on(&self, view: &View<'_>, node: NodeId) -> impl Iterator<Item = DeviceId> {
        devices_of(view, node)
            .filter(move |device| self.residents.on(*device).is_empty() && !view.occupancy.is_lost(*device))
    }

    /// The devices of a node that are free or that this job alone has.
    fn open_on(&self, view: &View<'_>, node: NodeId, job: JobId) -> Vec<DeviceId> {
        let is_open = |device: &DeviceId| {
            !view.occupancy.is_lost(*device) && self.residents.on(*device).iter().all(|other| *other == job)
        };
        devices_of(view, node).filter(is_open).collect()
    }

    /// Gives a job other devices. A job that `lags` moves to catch up with the jobs there.
    pub(super) fn relocate(
        &mut self,
        view: &View<'_>,
        job: JobId,
        (devices, lags): (Vec<DeviceId>, bool),
        reasons: &mut Vec<String>,
    ) {
        let Some(resident) = self.residents.get(job) else { return };
        let (from, plan) = (resident.devices.clone(), resident.plan);
        let before = self.rates.alone(job, from.len(), self.settings.reports);
        let names =
            devices.iter().map(|device| view.topology.name_of(*device)).collect::<Vec<_>>().join(", ");
        reasons.push(format!("{} moves to {names}", view.request(job).name));
        if let Some(before) = before {
            self.trials.moved(job, (from, plan), before);
        }
        match lags {
            true => self.residents.relocate_behind(view, job, devices, 2.0 * self.lag_s(view, job)),
            false => self.residents.relocate(view, job, devices, plan),
        }
    }

    /// The time in seconds by which a job has to be behind the jobs on equally loaded devices before it moves there: a quantum, and so much
    /// that a restart takes at most `moves` of it. Infinite if the cost of a restart is not known.
    fn lag_s(&self, view: &View<'_>, job: JobId) -> f64 {
        let pays_s = match self.restart_s(view, job) {
            Some(cost_s) if cost_s > 0.0 => cost_s / self.settings.moves,
            Some(_) => 0.0,
            None => f64::INFINITY,
        };
        pays_s.max(self.settings.quantum.as_secs_f64())
    }

    /// Whether a job may move to devices where it has more of the time: in no more than a quantum, or as [`Gandiva::may_move`] says.
    pub(super) fn may_move_to_gain(&self, view: &View<'_>, job: JobId) -> bool {
        let is_short = |cost_s: f64| cost_s <= self.settings.quantum.as_secs_f64();
        self.may_move(view, job) || self.restart_s(view, job).is_some_and(is_short)
    }

    /// Whether the restarts of a job, one more included, take no more than `moves` of the time since its first start.
    pub(super) fn may_move(&self, view: &View<'_>, job: JobId) -> bool {
        let account = &view.job(job).account;
        let Some(first) = account.first_start else { return true };
        let age_s = view.now.saturating_sub(first).as_secs_f64();
        self.restart_s(view, job)
            .is_some_and(|cost_s| f64::from(account.starts) * cost_s <= self.settings.moves * age_s)
    }

    /// The time that it costs a job to move. `None` if it cannot be saved now, or if the time is not known.
    fn restart_s(&self, view: &View<'_>, job: JobId) -> Option<f64> {
        let is_paused = view.job(job).placed().is_some_and(|placed| placed.phase == Phase::Paused);
        // What `cuda-checkpoint` has moved to the host is saved from its device, which others may use.
        let is_out = is_paused && view.suspension == Suspension::CudaCheckpoint;
        restart_s(view, job).filter(|_| view.request(job).takes_no_checkpoint.is_none() && !is_out)
    }
}
