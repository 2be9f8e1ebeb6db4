//! Devices for guaranteed jobs, some of which best-effort jobs have, and devices beside guaranteed jobs.

use std::collections::BTreeMap;

use super::{AntMan, Making, holds, others_on};
use crate::kit::ranking::Need;
use engine::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
    view::View,
};
use formats::trace::Class;
use record::placement::Placement;

/// Devices for a guaranteed job.
pub(super) struct Found {
    pub(super) devices: Vec<DeviceId>,
    /// The best-effort jobs that have to leave.
    pub(super) evicted: Vec<JobId>,
    /// Those that stay beside it.
    pub(super) beside: Vec<JobId>,
}

impl AntMan {
    /// Finds devices for a guaranteed job: free ones, or else those of best-effort jobs that stay beside it, or else those of as few
    /// others as possible, which leave. Of these, the last to arrive leave first.
    pub(super) fn place(&self, view: &View<'_>, making: &Making<'_>, job: JobId) -> Option<Found> {
        if let Some(found) = self.attempt(view, making, job, &[], &[]) {
            return Some(found);
        }
        let there: Vec<JobId> =
            self.placed.iter().copied().filter(|other| is_best_effort(view, *other)).collect();
        let is_there = |other: &JobId| !making.evicted.contains(other);
        let stays = |other: &JobId| is_there(other) && self.may_stay(view, making, *other, job);
        let stay: Vec<JobId> = there.iter().copied().filter(stays).collect();
        let one = stay.iter().map(std::slice::from_ref);
        let several = (2..=stay.len()).map(|count| &stay[..count]);
        if let Some(found) = one.chain(several).find_map(|stay| self.attempt(view, making, job, stay, &[])) {
            return Some(found);
        }
        let can_leave = |other: &JobId| view.request(*other).takes_no_checkpoint.is_none();
        let leave: Vec<JobId> =
            there.iter().rev().copied().filter(|other| is_there(other) && can_leave(other)).collect();
        let without = |evicted: &[JobId]| {
            let stays = |other: &JobId| !evicted.contains(other);
            let stay: Vec<JobId> = stay.iter().copied().filter(stays).collect();
            self.attempt(view, making, job, &stay, evicted)
                .or_else(|| self.attempt(view, making, job, &[], evicted))
        };
        without(&leave)?;
        let enough = (1..=leave.len()).find(|count| without(&leave[..*count]).is_some())?;
        let mut evicted = leave[..enough].to_vec();
        // Those that were there first stay, where others are enough.
        for other in leave[..enough].iter().rev() {
            let fewer: Vec<JobId> = evicted.iter().copied().filter(|of| of != other).collect();
            if without(&fewer).is_some() {
                evicted = fewer;
            }
        }
        without(&evicted)
    }

    /// Takes devices where these jobs stay and those leave. `None` if they are not enough, or a job cannot stay.
    fn attempt(
        &self,
        view: &View<'_>,
        making: &Making<'_>,
        job: JobId,
        stay: &[JobId],
        leave: &[JobId],
    ) -> Option<Found> {
        let mut draft = making.draft.clone();
        for (jobs, leaves) in [(stay, false), (leave, true)] {
            for &other in jobs {
                let placed = holds(view, other)?;
                draft.give_back(other, &placed.devices, placed.cpus.filter(|_| leaves));
            }
        }
        let need = Need::of(view, job);
        let devices = draft.take_with(need.devices, need.pool, need.cpus)?;
        let mut beside: Vec<(JobId, &[DeviceId])> = Vec::new();
        for &other in stay {
            let its = &holds(view, other)?.devices;
            match its.iter().filter(|device| devices.contains(device)).count() {
                0 => {}
                shared if shared == its.len() => beside.push((other, its)),
                _ => return None,
            }
        }
        if !beside.is_empty() {
            self.keeps(view, (job, &devices), &beside)?;
        }
        let beside = beside.into_iter().map(|(other, _)| other).collect();
        Some(Found { devices, evicted: leave.to_vec(), beside })
    }

    /// Whether a best-effort job that has its devices for itself may stay there beside a guaranteed one.
    fn may_stay(&self, view: &View<'_>, making: &Making<'_>, guest: JobId, host: JobId) -> bool {
        holds(view, guest).is_some_and(|placed| {
            let is_alone = others_on(view, guest, &placed.devices).is_empty();
            let is_given = placed.devices.iter().any(|device| making.given.contains(device));
            let is_within = placed.devices.len() <= view.request(host).devices as usize;
            is_alone && !is_given && is_within && self.may_share(view, guest, host)
        })
    }

    /// The guaranteed job that is predicted to keep most of its speed beside a best-effort one, with devices there.
    pub(super) fn beside(
        &self,
        view: &View<'_>,
        making: &Making<'_>,
        guest: JobId,
    ) -> Option<(JobId, Vec<DeviceId>)> {
        let need = Need::of(view, guest);
        let mut best: Option<(f64, JobId, Vec<DeviceId>)> = None;
        for &host in self.placed.iter().filter(|host| !is_best_effort(view, **host)) {
            let Some(placed) = holds(view, host).filter(|_| self.may_share(view, guest, host)) else {
                continue;
            };
            if !need.allows(view.occupancy.pool_of(placed.devices[0])) {
                continue;
            }
            let is_open = |device: &DeviceId| {
                view.occupancy.kept_by(*device) == [host]
                    && !view.occupancy.is_lost(*device)
                    && !making.given.contains(device)
            };
            let open = placed.devices.iter().copied().filter(is_open).collect();
            let Some(devices) = some_of(view, open, need.devices) else { continue };
            if !making.draft.has_cpus(&devices, need.cpus) {
                continue;
            }
            // Jobs that leave in this decision are still there in the view.
            let there = others_on(view, host, &placed.devices).into_iter();
            let there = there.filter(|other| !making.evicted.contains(other));
            let there = there.filter_map(|other| Some((other, &*holds(view, other)?.devices)));
            let guests: Vec<_> = there.chain([(guest, &*devices)]).collect();
            let keeps = self.keeps(view, (host, &placed.devices), &guests);
            let Some(keeps) = keeps else { continue };
            if best.as_ref().is_none_or(|(most, ..)| keeps > *most) {
                best = Some((keeps, host, devices));
            }
        }
        best.map(|(_, host, devices)| (host, devices))
    }
}

fn is_best_effort(view: &View<'_>, job: JobId) -> bool {
    view.request(job).class == Class::BestEffort
}

/// So many of these devices, on as few nodes as possible. `None` if they are too few, or on more nodes than the placement allows.
fn some_of(view: &View<'_>, open: Vec<DeviceId>, count: u32) -> Option<Vec<DeviceId>> {
    let pool = view.occupancy.pool_of(*open.first()?);
    let mut by_node: BTreeMap<NodeId, Vec<DeviceId>> = BTreeMap::new();
    for device in open {
        by_node.entry(view.topology.node_of(device)).or_default().push(device);
    }
    let mut nodes: Vec<Vec<DeviceId>> = by_node.into_values().collect();
    let mut found: Vec<DeviceId> = Vec::new();
    let mut used = 0;
    while found.len() < count as usize {
        let left = count as usize - found.len();
        let fitting =
            (0..nodes.len()).filter(|node| nodes[*node].len() >= left).min_by_key(|node| nodes[*node].len());
        let node = fitting.or_else(|| (0..nodes.len()).max_by_key(|node| nodes[*node].len()))?;
        found.extend(nodes.remove(node).into_iter().take(left));
        used += 1;
    }
    let is_allowed = view.placement == Placement::Spread
        || view.occupancy.fewest_nodes(pool, count).is_some_and(|fewest| used <= fewest);
    is_allowed.then_some(found)
}
