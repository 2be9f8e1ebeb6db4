//! What a policy uses of a run besides arrivals and devices, and what of this a run lacks. A policy without its inputs decides by less than its
//! name says: without elastic jobs, Rubick only queues.

use std::collections::HashSet;

use engine::{cluster::JobId, topology::Node, view::View};
use formats::trace::Class;
use schema::units::Nanos;

use crate::kit::{
    belief::{self, Length},
    can_suspend,
    settings::Values,
};

/// An ability of a policy that depends on what a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    /// It orders jobs by their lengths or their remaining times.
    Lengths,
    /// It orders jobs by their remaining times, and guesses those that are not known.
    Guesses,
    /// It estimates jobs by those that have ended.
    History,
    /// It stops jobs, with a checkpoint.
    Stops,
    /// It suspends jobs in the way of the run.
    Suspends,
    /// It gives elastic jobs other plans or other numbers of devices.
    Resizes,
    /// It decides in rounds of the length in the setting `every`.
    Rounds,
    /// It puts jobs on a device together.
    Packs,
    /// It packs jobs by the times of their steps together.
    Together,
    /// It packs jobs by their classes.
    Classes,
    /// It packs jobs by what they use alone.
    UseAlone,
    /// It lets best-effort jobs share devices with guaranteed ones.
    BestEffort,
    /// It gives jobs cores by their need.
    Cores,
    /// It distinguishes types of devices.
    DeviceTypes,
}

impl Uses {
    /// What a run lacks for this ability, as a sentence whose subject `it` is the policy. `None` if the run lacks nothing. The view has all jobs of the run, none of which has arrived.
    pub(crate) fn lacking(self, view: &View<'_>, values: &Values) -> Option<String> {
        let jobs = || (0..view.asked.len() as u32).map(JobId);
        let is_off = match self {
            Uses::Packs | Uses::Together | Uses::Classes => values.is_off("sharing") || values.is_off("pack"),
            Uses::Stops => {
                let grows = !values.is_off("resize") && !values.is_off("grow");
                values.is_off("preempt") && values.is_off("pack") && !grows
            }
            Uses::Resizes => values.is_off("plans") && values.is_off("resize"),
            Uses::Suspends => values.is_off("slice"),
            _ => false,
        };
        if is_off {
            return None;
        }
        match self {
            Uses::Lengths => {
                let is_unknown = |job: &JobId| Length::of(view, *job) == Length::UNKNOWN;
                let unknown = some_of(jobs().filter(is_unknown).count(), view)?;
                Some(format!("the length of {unknown} is not known; they come last, in order of arrival"))
            }
            Uses::Guesses => {
                let is_unknown = |job: &JobId| Length::of(view, *job) == Length::UNKNOWN;
                let unknown = some_of(jobs().filter(is_unknown).count(), view)?;
                Some(format!("the length of {unknown} is not known; each is taken to run as long again as it has run"))
            }
            Uses::History => view.known.history.is_empty().then(|| {
                "no history was given (--history); it estimates jobs by those of this run that have ended".into()
            }),
            Uses::Stops => {
                let is_kept = |job: &JobId| view.request(*job).takes_no_checkpoint.is_some();
                match jobs().filter(is_kept).count() {
                    all if all == view.asked.len() => Some("no job takes a checkpoint; it stops none".into()),
                    kept => Some(format!("{} take no checkpoint; it never stops them", some_of(kept, view)?)),
                }
            }
            Uses::Suspends => {
                let is_kept = |job: &JobId| !can_suspend(view, *job);
                let kept = some_of(jobs().filter(is_kept).count(), view)?;
                Some(format!("{kept} cannot be suspended by {}; they take no turns", view.suspension))
            }
            Uses::Resizes => match jobs().any(|job| view.request(job).elastic) {
                false => Some("no job is elastic; it changes no plan and no number of devices".into()),
                true => (!jobs().any(knows_another_plan(view))).then(|| {
                    "no time of an elastic job under another plan is known; it changes no plan and no number of devices"
                        .into()
                }),
            },
            Uses::Rounds => long_round(view, values.time_or_none("every")?),
            Uses::Packs => (view.jobs_per_device < 2)
                .then(|| "a device has at most one job (--jobs-per-device 1); it packs none".into()),
            Uses::Together if view.jobs_per_device < 2 => None,
            Uses::Together => (!knows_a_pair(view)).then(|| {
                "the time of no job beside another one is known; it packs none; measure pairs with `profile colocate`, and name the run \
                 with --table"
                    .into()
            }),
            Uses::Classes => (!jobs().any(|job| belief::classified(view, job).is_some())).then(|| {
                "the class of no job is known; it packs none; fit a model with `sched fit --interference` and name it with --model"
                    .into()
            }),
            Uses::UseAlone => (!jobs().any(|job| belief::use_alone(view, job).is_some()))
                .then(|| "no model says what a job uses alone; it packs none; fit one with `sched fit --interference` and name it with --model".into()),
            Uses::BestEffort => (!jobs().any(|job| view.request(job).class == Class::BestEffort))
                .then(|| "no job is best effort; jobs share no device".into()),
            Uses::Cores if !view.occupancy.counts_cpus() => {
                Some("cores are not counted; it chooses none for a job".into())
            }
            Uses::Cores => (!jobs().any(knows_cores(view)))
                .then(|| "no table has the times of a job by numbers of cores; jobs get the cores that they ask for".into()),
            Uses::DeviceTypes => (view.topology.by_type().len() < 2)
                .then(|| "all devices are of one type; it only divides time among jobs".into()),
        }
    }
}

/// The text `2 of 6 jobs`. `None` for none of them.
fn some_of(count: usize, view: &View<'_>) -> Option<String> {
    (count > 0).then(|| format!("{count} of {} jobs", view.asked.len()))
}

/// A round that takes longer than the mean job, of those whose length is known.
fn long_round(view: &View<'_>, every: Nanos) -> Option<String> {
    let lengths = (0..view.asked.len() as u32).map(|job| Length::of(view, JobId(job)));
    let known: Vec<f64> =
        lengths.filter(|length| *length != Length::UNKNOWN).map(|length| length.0.as_secs_f64()).collect();
    let mean_s = known.iter().sum::<f64>() / known.len() as f64;
    let times = every.as_secs_f64() / mean_s;
    let mean = || Nanos::from_secs_f64(mean_s);
    (times > 1.0).then(|| format!("a round of {every} is {times:.1} times the mean job of {}", mean()))
}

/// Whether the time of a step is known under a plan that a job does not ask for. Jobs of a kind are looked at once.
fn knows_another_plan<'a>(view: &'a View<'a>) -> impl FnMut(JobId) -> bool + 'a {
    let mut seen = HashSet::new();
    move |job| {
        let asked = view.request(job);
        asked.elastic
            && seen.insert(asked.kind())
            && view.plans(job).any(|legal| {
                Some(legal.plan) != asked.plan
                    && belief::step_under(view, job, legal.plan, legal.device_type).is_some()
            })
    }
}

/// Whether the times of two jobs together are known on devices of one type, of any two kinds of jobs.
fn knows_a_pair(view: &View<'_>) -> bool {
    let mut seen = HashSet::new();
    let kinds: Vec<JobId> = (0..view.asked.len() as u32)
        .map(JobId)
        .filter(|job| seen.insert(view.request(*job).kind()))
        .collect();
    let mut types = HashSet::new();
    let nodes: Vec<_> = view.topology.nodes().iter().filter(|node| types.insert(&node.device_type)).collect();
    let beside = |one: JobId, other: JobId, node: &Node| {
        let placement = node.few_like_it(view.request(one).devices);
        belief::step_beside(view, one, &placement, &node.device_type, Some(other)).is_some()
    };
    let mut pairs = kinds
        .iter()
        .enumerate()
        .flat_map(|(index, one)| kinds[index..].iter().map(move |other| (*one, *other)));
    pairs.any(|(one, other)| {
        view.request(one).devices == view.request(other).devices
            && nodes.iter().any(|node| beside(one, other, node) && beside(other, one, node))
    })
}

/// Whether the time of a step of a job is known with two numbers of cores. Jobs of a kind are looked at once.
fn knows_cores<'a>(view: &'a View<'a>) -> impl FnMut(JobId) -> bool + 'a {
    let mut seen = HashSet::new();
    move |job| {
        let asked = view.request(job);
        let largest = view.topology.nodes_for(&asked.virtual_cluster).max_by_key(|node| node.facts.cpus);
        seen.insert((asked.kind(), &*asked.virtual_cluster))
            && largest.is_some_and(|node| {
                let most = u16::try_from(node.facts.cpus.unwrap_or_default()).unwrap_or(u16::MAX);
                let known = |cpus: &u16| belief::step_with(view, job, node, *cpus).is_some();
                (1..=most).filter(known).nth(1).is_some()
            })
    }
}
