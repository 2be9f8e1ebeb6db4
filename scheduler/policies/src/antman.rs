//! AntMan: guaranteed jobs, which run as if alone, and best-effort jobs, which fill what they leave (Xiao et al., OSDI 2020, where
//! best-effort jobs are called opportunistic).
//!
//! Guaranteed jobs get what they ask for, in order of arrival; one that does not fit holds up those behind it. They take free devices,
//! or else devices of best-effort jobs (`antman/place.rs`). These stay there as second jobs if they may share, and are stopped with a
//! checkpoint if not: the last to arrive first, and no more than are needed. Best-effort jobs also get what they ask for. In order of
//! arrival, each that fits is started on free devices, or else on devices of one guaranteed job, of the one that is predicted to lose
//! least.
//!
//! Two jobs may share if the model knows the times of their steps together, if they have not failed to fit in memory together, and
//! if the guaranteed job is predicted to keep its speed beside the other at the lowest share. The reports of the guaranteed job are
//! compared with its predicted speed alone. If it is below `keep` of that, the other is throttled, to half its share of the time at
//! each step, down to `floor`. Its share rises again by a tenth, if the guaranteed job is expected to keep its speed, and at once to
//! the whole if the guaranteed job does not run or has left (`antman/watch.rs`).
//!
//! The parameters are `keep`, by default 0.95, and `floor`, by default 0.1. The paper states neither. Differences to the paper:
//!
//! * Kernels of an opportunistic job run in idle moments of the other there, operator by operator. Here it works for its share of the
//!   time, and then at full speed.
//! * Memory is not scaled: tensors do not overflow to the memory of the host when both jobs need more than the device has. Jobs that
//!   run out of memory together are not packed again, and the launch that fails is started again.
//! * There are no quotas of tenants. The class of a job decides, and a guaranteed job is never rejected.
//! * An opportunistic job goes to the device with the lowest utilisation there, here by predicted loss. A device has at most one
//!   guaranteed and one best-effort job, though several best-effort jobs may be beside a guaranteed job on several devices.
//! * The speed of a guaranteed job alone is predicted, not measured.
//! * The version in the comparison of Rubick (arXiv 2408.08586) only scales the numbers of devices of jobs, and does not share any.
//!
//! Best-effort jobs that take no checkpoint or cannot be paused, which are commands, are neither evicted nor packed. No devices are
//! shared if a device takes one job or jobs take turns, because these are not throttled. Without reports of progress, no job is
//! throttled.

mod place;
mod watch;

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Included},
};

use engine::{
    cluster::{Action, JobId},
    job::{Pausing, Placed, State},
    occupancy::Draft,
    policy::{Decision, Policy},
    topology::DeviceId,
    view::{Change, View},
};
use formats::trace::Class;

use self::watch::Watched;
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        Watch, belief, jobs_named,
        ranking::Need,
        settings::{Kind, Setting},
        start,
    },
};

pub(super) const ANTMAN: Declaration = Declaration {
    name: "antman",
    source: "AntMan, OSDI 2020",
    order: "class, then arrival",
    misfit: "holds up guaranteed jobs behind it; a best-effort job is passed",
    preemption: "guaranteed jobs stop best-effort jobs, with a checkpoint",
    packing: "a best-effort job beside a guaranteed one, throttled",
    needs: "times of steps alone and together",
    uses: &[Uses::BestEffort, Uses::Packs],
    example: "antman:keep=0.9:floor=0.05",
    settings: &[
        Setting::new(
            "keep",
            Kind::number("PART", Excluded(0.0), Excluded(1.0)),
            "0.95",
            "the part of its predicted speed alone below which the job beside a guaranteed job is throttled",
        ),
        Setting::new(
            "floor",
            Kind::number("SHARE", Excluded(0.0), Included(1.0)),
            "0.1",
            "the lowest share of the time to which a job is throttled",
        ),
    ],
    build: |values| {
        let settings = Settings { keep: values.number("keep"), floor: values.number("floor") };
        each(move || AntMan::new(settings))
    },
};

struct AntMan {
    settings: Settings,
    watch: Watch,
    /// The jobs that wait, in order of arrival.
    guaranteed: BTreeSet<JobId>,
    best_effort: BTreeSet<JobId>,
    /// The jobs that have devices and are not leaving them.
    placed: BTreeSet<JobId>,
    /// Pairs of jobs that do not share devices, because they did not fit or a start was refused. The smaller number is first.
    apart: BTreeSet<(JobId, JobId)>,
    /// Jobs that the last decision started, with those beside which it did.
    tried: Vec<(JobId, JobId)>,
    watched: Watched,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Settings {
    /// The part of its speed alone that a guaranteed job keeps.
    keep: f64,
    /// The lowest share of the time to which a best-effort job is throttled.
    floor: f64,
}

/// A decision in the making.
struct Making<'a> {
    draft: Draft<'a>,
    actions: Vec<Action>,
    reasons: Vec<String>,
    /// The jobs that leave.
    evicted: Vec<JobId>,
    /// The devices that were given to a job.
    given: BTreeSet<DeviceId>,
}

impl AntMan {
    fn new(settings: Settings) -> AntMan {
        AntMan {
            settings,
            watch: Watch::default(),
            guaranteed: BTreeSet::new(),
            best_effort: BTreeSet::new(),
            placed: BTreeSet::new(),
            apart: BTreeSet::new(),
            tried: Vec::new(),
            watched: Watched::default(),
        }
    }

    fn refresh(&mut self, view: &View<'_>) {
        for change in view.changes {
            match *change {
                Change::DoNotFit(one, other) => drop(self.apart.insert(pair(one, other))),
                Change::Refused(job) if holds(view, job).is_none() => {
                    let with = self.tried.iter().filter(|(started, _)| *started == job);
                    self.apart.extend(with.map(|&(one, other)| pair(one, other)));
                }
                _ => {}
            }
        }
        self.tried.clear();
        for job in self.watch.due(view) {
            let waiting = match view.request(job).class {
                Class::Guaranteed => &mut self.guaranteed,
                Class::BestEffort => &mut self.best_effort,
            };
            match view.job(job).state {
                State::Waiting { .. } => waiting.insert(job),
                _ => waiting.remove(&job),
            };
            match holds(view, job) {
                Some(_) => self.placed.insert(job),
                None => self.placed.remove(&job),
            };
        }
    }

    /// Starts guaranteed jobs in order of arrival, until one does not fit.
    fn start_guaranteed(&mut self, view: &View<'_>, making: &mut Making<'_>) {
        let mut started = Vec::new();
        for &job in &self.guaranteed {
            let need = Need::of(view, job);
            let is_present = |pool| need.allows(pool) && view.occupancy.present_in(pool) >= need.devices;
            // Lost devices may never come back.
            if !view.pools().any(is_present) {
                continue;
            }
            let Some(found) = self.place(view, making, job) else { break };
            for &leaves in &found.evicted {
                let placed = holds(view, leaves);
                making.draft.give_back(
                    leaves,
                    placed.map_or(&[], |placed| &placed.devices),
                    placed.and_then(|placed| placed.cpus),
                );
                making.actions.push(Action::Stop { job: leaves, checkpoint: true });
            }
            if !found.evicted.is_empty() {
                making.reasons.push(format!("without {}", jobs_named(view, &found.evicted)));
            }
            making.evicted.extend(&found.evicted);
            self.tried.extend(found.beside.iter().map(|other| (job, *other)));
            making.give(view, job, found.devices);
            started.push(job);
        }
        if !started.is_empty() {
            making.reasons.insert(0, format!("guaranteed: {}", jobs_named(view, &started)));
        }
    }

    /// Starts the best-effort jobs that fit, in order of arrival.
    fn start_best_effort(&mut self, view: &View<'_>, making: &mut Making<'_>) {
        let (mut started, mut too_large) = (Vec::new(), BTreeSet::new());
        for &job in &self.best_effort {
            let need = Need::of(view, job);
            let free = match too_large.contains(&need) {
                true => None,
                false => making.draft.take_with(need.devices, need.pool, need.cpus),
            };
            if let Some(devices) = free {
                making.actions.push(start(view, job, devices));
                started.push(job);
                continue;
            }
            too_large.insert(need);
            if let Some((host, devices)) = self.beside(view, making, job) {
                let names = [job, host].map(|job| &view.request(job).name);
                making.reasons.push(format!("{} beside {}", names[0], names[1]));
                self.tried.push((job, host));
                making.give(view, job, devices);
            }
        }
        if !started.is_empty() {
            making.reasons.push(format!("best effort: {}", jobs_named(view, &started)));
        }
    }

    /// Whether a best-effort job may share devices with a guaranteed one, as far as that does not depend on their times.
    fn may_share(&self, view: &View<'_>, guest: JobId, host: JobId) -> bool {
        let asked = view.request(guest);
        let can_leave = asked.takes_no_checkpoint.is_none();
        let can_rest = !matches!(asked.pausing, Pausing::Freezes(_));
        let is_shared = view.jobs_per_device >= 2 && !view.sharing.takes_turns();
        is_shared && can_leave && can_rest && !self.apart.contains(&pair(guest, host))
    }

    /// The part of its speed alone that a guaranteed job is predicted to keep on these devices, beside jobs at their full rate. `None`
    /// if that is not known, if they are known not to fit in memory, or if it is too little even beside jobs at the lowest share. Each guest is with its devices.
    fn keeps(
        &self,
        view: &View<'_>,
        (host, devices): (JobId, &[DeviceId]),
        guests: &[(JobId, &[DeviceId])],
    ) -> Option<f64> {
        for (guest, devices) in guests {
            belief::step_on(view, *guest, devices, &[host])?;
            belief::fit_in_memory(view, devices, &[host, *guest]).then_some(())?;
        }
        let mut jobs: Vec<JobId> = guests.iter().map(|(guest, _)| *guest).collect();
        jobs.sort_unstable();
        let alone = belief::step_on(view, host, devices, &[])?;
        let keeps = alone.step_ns / belief::step_on(view, host, devices, &jobs)?.step_ns;
        (1.0 - self.settings.floor * (1.0 - keeps) >= self.settings.keep).then_some(keeps)
    }
}

impl Making<'_> {
    /// Starts a job on these devices.
    fn give(&mut self, view: &View<'_>, job: JobId, devices: Vec<DeviceId>) {
        self.draft.hold(&devices);
        self.draft.take_cpus(&devices, view.request(job).cpus);
        self.given.extend(&devices);
        self.actions.push(start(view, job, devices));
    }
}

impl Policy for AntMan {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.refresh(view);
        let mut making = Making {
            draft: view.draft(),
            actions: Vec::new(),
            reasons: Vec::new(),
            evicted: Vec::new(),
            given: BTreeSet::new(),
        };
        self.start_guaranteed(view, &mut making);
        self.start_best_effort(view, &mut making);
        self.throttle(view, &mut making);
        self.watch.decided(&making.actions);
        Decision { actions: making.actions, wake_at: None, reason: making.reasons.join("; ") }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        for (waiting, class) in [(&self.guaranteed, "guaranteed"), (&self.best_effort, "best-effort")] {
            if waiting.contains(&job) {
                let place = waiting.range(..=job).count();
                return format!(
                    "it is number {place} of {} {class} jobs that wait, by arrival",
                    waiting.len()
                );
            }
        }
        let Some(placed) = holds(view, job) else { return String::new() };
        let others = others_on(view, job, &placed.devices);
        if others.is_empty() {
            return String::new();
        }
        let others: Vec<JobId> = others.into_iter().collect();
        format!(
            "it shares devices with {}, and may run for {:.2} of the time",
            jobs_named(view, &others),
            placed.share.get()
        )
    }
}

fn pair(one: JobId, other: JobId) -> (JobId, JobId) {
    (one.min(other), one.max(other))
}

/// The placement of a job that has devices and is not leaving them.
fn holds<'a>(view: &'a View<'_>, job: JobId) -> Option<&'a Placed> {
    view.job(job).placed().filter(|placed| !placed.phase.has_left())
}

/// The other jobs that hold these devices.
fn others_on(view: &View<'_>, job: JobId, devices: &[DeviceId]) -> BTreeSet<JobId> {
    let there = devices.iter().flat_map(|device| view.occupancy.kept_by(*device));
    there.copied().filter(|other| *other != job).collect()
}
