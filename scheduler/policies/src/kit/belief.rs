//! The estimates of a policy: the questions about step times that it asks the model of its view.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use engine::{
    cluster::JobId,
    job::{JobRequest, Placed},
    topology::{DeviceId, Node},
    view::View,
};
use model::{Classified, JobKey, PackingClasses, PredictRequest, Prediction, UseAlone};
use schema::{plan::Plan, units::Nanos};

/// The length or the remaining time of a job. An unknown length is larger than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Length(pub(crate) Nanos);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Length::UNKNOWN => f.write_str("not known"),
            Length(time) => write!(f, "{time}"),
        }
    }
}

impl Length {
    pub(crate) const UNKNOWN: Length = Length(Nanos(u64::MAX));

    /// The length of a job: the number of its steps times the time of a step alone.
    pub(crate) fn of(view: &View<'_>, job: JobId) -> Length {
        let length = view.request(job).steps.zip(step(view, job));
        length.map_or(Length::UNKNOWN, |(steps, step)| Length::of_steps(steps, step))
    }

    pub(crate) fn of_steps(steps: u64, step: Prediction) -> Length {
        Length(Nanos((steps as f64 * step.step_ns).round() as u64))
    }

    /// The sum of this length and a time. An unknown length stays unknown.
    pub(crate) fn plus(self, time: Nanos) -> Length {
        Length(Nanos(self.0.0.saturating_add(time.0)))
    }
}

/// The time of a step of a job alone, on the number of devices that it asks for and on as few nodes as possible. They have the type
/// that it asks for, or that of the first node that it may use.
pub fn step(view: &View<'_>, job: JobId) -> Option<Prediction> {
    let asked = view.request(job);
    alone(view, job, (asked.plan, asked.devices), asked.device_type.as_deref())
}

/// The time of a step of a job alone under a plan, on these numbers of devices of each node, with these cores for each rank.
pub(crate) fn step_in(
    view: &View<'_>,
    (job, plan): (JobId, Option<Plan>),
    placement: &[u32],
    device_type: &str,
    cpus: Option<u16>,
) -> Option<Prediction> {
    ask(view, (job, plan, cpus), placement, device_type, &[])
}

/// The time of a step of a job alone under the plan that it asks for, on nodes like this one, with these cores for each rank.
pub(crate) fn step_with(view: &View<'_>, job: JobId, node: &Node, cpus: u16) -> Option<Prediction> {
    let asked = view.request(job);
    let placement = node.few_like_it(asked.devices);
    step_in(view, (job, asked.plan), &placement, &node.device_type, Some(cpus))
}

/// The same under another plan, on the devices of that plan and of this type.
pub fn step_under(view: &View<'_>, job: JobId, plan: Plan, device_type: &str) -> Option<Prediction> {
    alone(view, job, (Some(plan), plan.ranks()), Some(device_type))
}

/// What a job was measured to use alone, on the devices that it asks for or the first that it may use. `None` if it was not measured.
pub(crate) fn use_alone(view: &View<'_>, job: JobId) -> Option<UseAlone> {
    of_classes(view, job, |classes, subject| classes.use_alone(subject))
}

/// The class of a job and the reason for it, on the same devices.
pub(crate) fn classified(view: &View<'_>, job: JobId) -> Option<Classified> {
    of_classes(view, job, |classes, subject| classes.class(subject))
}

fn of_classes<T>(
    view: &View<'_>,
    job: JobId,
    ask: impl FnOnce(&dyn PackingClasses, &JobKey<'_>) -> Option<T>,
) -> Option<T> {
    let asked = view.request(job);
    let workload = asked.what.workload();
    let is_wanted =
        |node: &&Node| asked.device_type.as_ref().is_none_or(|wanted| *wanted == node.device_type);
    let node = view.topology.nodes_for(&asked.virtual_cluster).find(is_wanted)?;
    let subject = asked.subject(&workload, asked.plan, view.topology, &node.device_type);
    ask(view.known.classes?, &subject)
}

fn alone(
    view: &View<'_>,
    job: JobId,
    (plan, devices): (Option<Plan>, u32),
    device_type: Option<&str>,
) -> Option<Prediction> {
    let asked = view.request(job);
    let is_wanted = |node: &&Node| device_type.is_none_or(|wanted| wanted == node.device_type);
    let node = view.topology.nodes_for(&asked.virtual_cluster).find(is_wanted)?;
    ask(view, (job, plan, asked.cpus), &node.few_like_it(devices), &node.device_type, &[])
}

/// The time of a step of a job on these devices, alone or beside jobs that share them. Jobs on devices are asked about under their
/// present plans.
pub(crate) fn step_on(
    view: &View<'_>,
    job: JobId,
    devices: &[DeviceId],
    beside: &[JobId],
) -> Option<Prediction> {
    step_if(view, (job, plan_of(view, job)), devices, beside)
}

/// The same under another plan.
pub fn step_if(
    view: &View<'_>,
    (job, plan): (JobId, Option<Plan>),
    devices: &[DeviceId],
    beside: &[JobId],
) -> Option<Prediction> {
    let device_type = view.topology.type_of(*devices.first()?);
    let cpus = view.request(job).cpus;
    ask(view, (job, plan, cpus), &view.topology.placement(devices), device_type, beside)
}

/// The time of a step of a job as it is placed now, under its plan and with its cores there, beside the other jobs on its devices.
pub(crate) fn step_placed(view: &View<'_>, job: JobId, placed: &Placed) -> Option<Prediction> {
    let beside = holders(view, job, &placed.devices);
    let device_type = view.topology.type_of(*placed.devices.first()?);
    let placement = view.topology.placement(&placed.devices);
    ask(view, (job, placed.plan, placed.cpus), &placement, device_type, &beside)
}

/// The other jobs that hold these devices, in order.
pub fn holders(view: &View<'_>, job: JobId, devices: &[DeviceId]) -> Vec<JobId> {
    let holders = devices.iter().flat_map(|device| view.occupancy.kept_by(*device));
    let others: BTreeSet<JobId> = holders.copied().filter(|other| *other != job).collect();
    others.into_iter().collect()
}

/// The time of a step of a job under the plan that it asks for, on these numbers of devices of each node, alone or beside a job that
/// shares them.
pub(crate) fn step_beside(
    view: &View<'_>,
    job: JobId,
    placement: &[u32],
    device_type: &str,
    beside: Option<JobId>,
) -> Option<Prediction> {
    let asked = view.request(job);
    ask(view, (job, asked.plan, asked.cpus), placement, device_type, beside.as_slice())
}

/// The plan of a job on its devices, or the one that it asks for.
pub fn plan_of(view: &View<'_>, job: JobId) -> Option<Plan> {
    view.job(job).placed().map_or(view.request(job).plan, |placed| placed.plan)
}

/// Whether these jobs fit into the memory of the devices together, as far as the memory of the devices and the peaks of the jobs alone are
/// known. Jobs that have no devices are taken under the plans that they ask for.
pub(crate) fn fit_in_memory(view: &View<'_>, devices: &[DeviceId], jobs: &[JobId]) -> bool {
    let nodes =
        devices.iter().map(|device| &view.topology.nodes()[view.topology.node_of(*device).0 as usize]);
    let Some(memory) = nodes.filter_map(|node| node.facts.device_memory_bytes).min() else { return true };
    jobs.iter().map(|job| peak(view, *job, devices).unwrap_or(0)).sum::<u64>() <= memory
}

/// The peak of memory of a job alone, where it is, or else on so many of these devices as it asks for.
fn peak(view: &View<'_>, job: JobId, devices: &[DeviceId]) -> Option<u64> {
    let placed = view.job(job).placed();
    let own = placed.map_or(devices, |placed| &placed.devices);
    let own =
        if placed.is_none() { own.get(..view.request(job).devices as usize).unwrap_or(own) } else { own };
    measured_peak(view, (job, plan_of(view, job)), own).or_else(|| use_alone(view, job)?.peak_memory_bytes)
}

/// The peak of memory that a job was measured to need on a device alone, under a plan on these devices, or else under this plan on any.
pub fn peak_if(view: &View<'_>, (job, plan): (JobId, Option<Plan>), devices: &[DeviceId]) -> Option<u64> {
    measured_peak(view, (job, plan), devices).or_else(|| {
        let request = view.request(job);
        let (workload, device_type) = (request.what.workload(), view.topology.type_of(*devices.first()?));
        let subject = request.subject(&workload, plan, view.topology, device_type);
        view.known.classes?.use_alone(&subject)?.peak_memory_bytes
    })
}

fn measured_peak(view: &View<'_>, (job, plan): (JobId, Option<Plan>), devices: &[DeviceId]) -> Option<u64> {
    let device_type = view.topology.type_of(*devices.first()?);
    let (subject, placement) = ((job, plan, view.request(job).cpus), view.topology.placement(devices));
    with_question(view, subject, (&placement, device_type), &[], |question| {
        view.model.peak_memory_bytes(question)
    })
}

fn ask(
    view: &View<'_>,
    job: (JobId, Option<Plan>, Option<u16>),
    placement: &[u32],
    device_type: &str,
    beside: &[JobId],
) -> Option<Prediction> {
    with_question(view, job, (placement, device_type), beside, |question| view.model.predict(question))
}

fn with_question<T>(
    view: &View<'_>,
    (job, plan, cpus): (JobId, Option<Plan>, Option<u16>),
    (placement, device_type): (&[u32], &str),
    beside: &[JobId],
    answer: impl FnOnce(&PredictRequest<'_>) -> T,
) -> T {
    let asked = view.request(job);
    let workload = asked.what.workload();
    let others: Vec<&JobRequest> = beside.iter().map(|other| view.request(*other)).collect();
    let workloads: Vec<Cow<'_, str>> = others.iter().map(|other| other.what.workload()).collect();
    let mut co_runners: Vec<JobKey<'_>> = Vec::new();
    for (other, workload) in others.iter().zip(&workloads) {
        co_runners.push(other.subject(workload, plan_of(view, other.id), view.topology, device_type));
    }
    answer(&PredictRequest {
        job: asked.subject(&workload, plan, view.topology, device_type),
        placement,
        device_type,
        cpus,
        co_runners: &co_runners,
        sharing: view.sharing,
        neighbours: &[],
    })
}
