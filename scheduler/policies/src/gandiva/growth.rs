//! Growing and shrinking (Gandiva, section 3.2.2): an elastic job takes the free devices of its node, and gives them back as soon as a
//! job needs them.
//!
//! A job that has one node or less for itself doubles its devices when others there have been free for `idle`, no job waits, and none
//! is suspended, or takes what is free if that is less. It becomes more data parallel; everything else of its plan stays. Its rate is
//! compared with that before, and it shrinks if it is slower. A job grows only when its rate is known. When a job comes, and a node has
//! enough devices for it once the jobs there that have grown give some back, they do so before any device is shared. They give back what
//! the job lacks and no more than their plans need. No job grows under `cuda-checkpoint`, which suspends jobs of one process alone.

use engine::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
    view::View,
};
use record::suspension::Suspension;
use schema::{plan::Plan, units::Nanos};

use super::{
    Gandiva,
    place::{Candidate, has_cores},
    residents::{Resident, is_up},
    trials::nodes_of,
};
use crate::kit::{belief, elastic::Freedom};

impl Gandiva {
    /// Notes since when devices are free.
    pub(super) fn note_free(&mut self, view: &View<'_>) {
        self.free_since.resize(view.topology.devices() as usize, None);
        for device in (0..view.topology.devices()).map(DeviceId) {
            let is_free = self.residents.on(device).is_empty() && !view.occupancy.is_lost(device);
            let since = &mut self.free_since[device.0 as usize];
            *since = is_free.then(|| since.unwrap_or(view.now));
        }
    }

    /// Lets one job of each node grow.
    pub(super) fn grow(&mut self, view: &View<'_>, reasons: &mut Vec<String>) {
        // With several processes, it could no longer be suspended.
        if view.suspension == Suspension::CudaCheckpoint {
            return;
        }
        let elastic =
            |job: &JobId| view.request(*job).elastic && view.request(*job).takes_no_checkpoint.is_none();
        let jobs: Vec<JobId> = self.residents.iter().map(|(job, _)| job).filter(elastic).collect();
        let mut grown: Vec<NodeId> = Vec::new();
        for job in jobs {
            let Some(resident) = self.residents.get(job) else { continue };
            let [node] = nodes_of(view, &resident.devices)[..] else { continue };
            let count = resident.devices.len();
            let is_alone = resident.devices.iter().all(|device| self.residents.on(*device).len() == 1);
            let before = self.rates.alone(job, count, self.settings.reports);
            let (Some(before), true) = (before, is_alone && !grown.contains(&node)) else { continue };
            let is_there = view.job(job).placed().is_some_and(|placed| placed.devices == resident.devices);
            if self.trials.has_moved(job) || !is_there || !is_up(view, job) {
                continue;
            }
            let idle = |device: &DeviceId| {
                self.free_since[device.0 as usize].is_some_and(|since| view.now - since >= self.settings.idle)
            };
            let mut free: Vec<DeviceId> = self.free_on(view, node).filter(idle).take(count).collect();
            let is_open = |wanted: &usize| !self.trials.slower.contains(&(job, vec![node], *wanted));
            // Twice as many are tried though the model may not know their time.
            let plan_for = |wanted: usize| {
                let plan = plan_on(view, job, node, wanted as u32)?;
                (wanted == 2 * count || is_known(view, job, node, plan)).then_some((wanted, plan))
            };
            let numbers = (count + 1..=count + free.len()).rev().filter(is_open);
            let Some((wanted, plan)) = numbers.filter_map(plan_for).next() else { continue };
            free.truncate(wanted - count);
            let from = (resident.devices.clone(), resident.plan);
            let mut devices = resident.devices.clone();
            devices.extend(free);
            devices.sort_unstable();
            if !has_cores(view, &[job], &devices) {
                continue;
            }
            reasons.push(format!("{} grows from {count} to {wanted} devices", view.request(job).name));
            self.residents.relocate(view, job, devices, Some(plan));
            self.trials.moved(job, from, before);
            grown.push(node);
        }
    }

    /// Shrinks jobs that have grown, if a job then finds free devices on one of these nodes. Each gives back as few devices as its plans
    /// allow, and keeps at least those that it asked for.
    pub(super) fn shrink_for(
        &mut self,
        view: &View<'_>,
        job: JobId,
        candidates: &[Candidate],
        reasons: &mut Vec<String>,
    ) -> bool {
        let needed = view.request(job).devices as usize;
        let grown = self.grown(view);
        for candidate in candidates {
            let there = grown.iter().filter(|(node, ..)| *node == candidate.node);
            let there: Vec<(JobId, usize)> = there.map(|(_, other, spare)| (*other, *spare)).collect();
            let mut free = self.free_on(view, candidate.node).count();
            if there.is_empty() || free + there.iter().map(|(_, spare)| spare).sum::<usize>() < needed {
                continue;
            }
            for (other, spare) in there {
                if free >= needed {
                    break;
                }
                let asked = view.request(other);
                let Some(resident) = self.residents.get(other) else { continue };
                let (count, least) = (resident.devices.len(), asked.devices as usize);
                let most = count - spare.min(needed - free);
                let plan_for = |number: usize| {
                    let plan = plan_on(view, other, candidate.node, number as u32)?;
                    is_known(view, other, candidate.node, plan).then_some((number, plan))
                };
                let narrower = (least + 1..=most).rev().find_map(plan_for);
                let (number, plan) =
                    narrower.map_or((least, asked.plan), |(number, plan)| (number, Some(plan)));
                free += count - number;
                let kept = resident.devices[..number].to_vec();
                reasons.push(format!("{} shrinks to {number} devices", asked.name));
                self.residents.relocate(view, other, kept, plan);
                self.trials.forget_move(other);
            }
            return true;
        }
        false
    }

    /// The jobs that have more devices than they asked for, each with its node and the number of those that it can give back.
    fn grown(&self, view: &View<'_>) -> Vec<(NodeId, JobId, usize)> {
        let grown = |(job, resident): (JobId, &Resident)| {
            let spare = resident.devices.len().saturating_sub(view.request(job).devices as usize);
            (spare > 0).then(|| (view.topology.node_of(resident.devices[0]), job, spare))
        };
        self.residents.iter().filter_map(grown).collect()
    }

    /// The time at which the next device has been free for long enough, if a job might grow then.
    pub(super) fn next_growth(&self, view: &View<'_>) -> Option<Nanos> {
        let is_elastic = |(job, _): (JobId, _)| view.request(job).elastic;
        if !self.settings.grows || !self.residents.iter().any(is_elastic) {
            return None;
        }
        let times = self.free_since.iter().flatten().map(|since| *since + self.settings.idle);
        times.filter(|at| *at > view.now).min()
    }
}

/// The plan of a job with as many devices of a node, all of them data parallel beyond its own.
fn plan_on(view: &View<'_>, job: JobId, node: NodeId, devices: u32) -> Option<Plan> {
    let asked = view.request(job);
    let device_type = &view.topology.nodes()[node.0 as usize].device_type;
    let freedom = Freedom { plans: false, ..Freedom::ALL };
    let is_wanted = |plan: &Plan| plan.ranks() == devices && freedom.allows(asked, *plan);
    if asked.max_devices.is_some_and(|most| devices > most) {
        return None;
    }
    view.plans(job)
        .filter(|legal| legal.device_type == device_type)
        .map(|legal| legal.plan)
        .filter(is_wanted)
        .min_by_key(|plan| (Some(plan.zero) != asked.plan.map(|own| own.zero), *plan))
}

/// Whether the time of a job under a plan is known on a node, or no time of the job is, not even under the plan that it asks for.
fn is_known(view: &View<'_>, job: JobId, node: NodeId, plan: Plan) -> bool {
    let device_type = &view.topology.nodes()[node.0 as usize].device_type;
    belief::step(view, job).is_none() || belief::step_under(view, job, plan, device_type).is_some()
}
