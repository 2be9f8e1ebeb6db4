//! The questions of a program. The model of the view answers them, which built-in policies ask, too.

use std::collections::BTreeSet;

use anyhow::anyhow;
use formats::exec::{StepAnswer, StepQuestion};
use schema::plan::Plan;

use engine::{cluster::JobId, job::Payload, topology::DeviceId, view::View};
use policies::kit::belief;

/// The answers to the questions of a line, in their order.
///
/// # Errors
/// Returns the number of the first question that asks for what cannot be, its field, and what to write instead.
pub(super) fn answer(view: &View<'_>, questions: &[StepQuestion]) -> anyhow::Result<Vec<StepAnswer>> {
    let all = questions.len();
    let numbered = |(number, question)| {
        predict(view, question).map_err(|error| anyhow!("question {number} of {all}: {error}"))
    };
    (1..).zip(questions).map(numbered).collect()
}

fn predict(view: &View<'_>, question: &StepQuestion) -> Result<StepAnswer, String> {
    let StepQuestion { job, devices, plan, share, beside } = question;
    check_job(view, "job", *job)?;
    check_devices(view, devices)?;
    let under = (*job, plan_on(view, *job, devices, *plan)?);
    let beside = match beside {
        Some(named) => co_runners(view, *job, named)?,
        None => belief::holders(view, *job, devices),
    };
    let step = belief::step_if(view, under, devices, &beside).map(|step| step.times(1.0 / share.get()));
    Ok(StepAnswer {
        step_ns: step.map(|step| step.step_ns),
        step_ns_ci: step.and_then(|step| step.step_ns_ci),
        memory_bytes: belief::peak_if(view, under, devices),
    })
}

/// Checks that a job has arrived.
pub(super) fn check_job(view: &View<'_>, field: &str, job: JobId) -> Result<(), String> {
    match view.jobs.len() {
        arrived if (job.0 as usize) < arrived => Ok(()),
        arrived => Err(format!(
            "`{field}` names job {}, and {arrived} jobs have arrived, with numbers from 0; name one of them",
            job.0
        )),
    }
}

fn check_devices(view: &View<'_>, devices: &[DeviceId]) -> Result<(), String> {
    let Some(first) = devices.first() else {
        return Err("`devices` is empty; name the device of each rank".into());
    };
    let all = view.topology.devices();
    if let Some(unknown) = devices.iter().find(|device| device.0 >= all) {
        return Err(format!(
            "`devices` names device {}, and the cluster has {all}, with numbers from 0; name some of them",
            unknown.0
        ));
    }
    let mut named = BTreeSet::new();
    if let Some(twice) = devices.iter().find(|device| !named.insert(**device)) {
        return Err(format!("`devices` names device {} twice; name each device once", twice.0));
    }
    let (topology, kind) = (view.topology, view.topology.type_of(*first));
    match devices.iter().find(|device| topology.type_of(**device) != kind) {
        Some(other) => Err(format!(
            "`devices` names devices of types {kind} and {}; name devices of one type",
            topology.type_of(*other)
        )),
        None => Ok(()),
    }
}

/// The plan of a question, which is by default the present one of the job.
fn plan_on(
    view: &View<'_>,
    job: JobId,
    devices: &[DeviceId],
    plan: Option<Plan>,
) -> Result<Option<Plan>, String> {
    if let (Payload::Command(_), Some(plan)) = (&view.request(job).what, plan) {
        return Err(format!("`plan` is {plan}, and job {} is a command; leave `plan` out", job.0));
    }
    let (plan, named) = (plan.or_else(|| belief::plan_of(view, job)), devices.len());
    match plan.filter(|plan| plan.ranks() as usize != named) {
        Some(plan) => Err(format!(
            "`devices` names {named} devices, and {plan} takes {}; name as many, or give `plan` another value",
            plan.ranks()
        )),
        None => Ok(plan),
    }
}

fn co_runners(view: &View<'_>, job: JobId, named: &[JobId]) -> Result<Vec<JobId>, String> {
    let mut beside = BTreeSet::new();
    for other in named {
        check_job(view, "beside", *other)?;
        if *other == job {
            return Err(format!("`beside` names job {}, of which it is asked; name other jobs", job.0));
        }
        if !beside.insert(*other) {
            return Err(format!("`beside` names job {} twice; name each job once", other.0));
        }
    }
    Ok(beside.into_iter().collect())
}
