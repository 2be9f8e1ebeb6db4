//! The queue of a virtual cluster, and the jobs that run there.
//!
//! Waiting jobs start in order of their priority, and of their devices and arrival if they are equal. With backfill, a job that does not
//! fit is passed by those that do, until it has waited for the bound: it then comes first, and holds up all jobs behind it.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    cluster::{Action, JobId},
    topology::DeviceId,
    view::View,
};
use model::PackingClass;
use schema::units::Nanos;

use super::{
    Common,
    bounds::Bounds,
    hosts::{Hosts, Partner, Refusal, Seeker},
    room::{Outside, Room},
    settings::Backfill,
};
use crate::kit::{
    belief, jobs_named,
    kinds::Kind,
    ranking::{Need, Ranking},
    start,
};

/// The time after which jobs without a partner look for one again, though no other job may be joined: a job that runs for longer than it
/// was estimated to may be joined by longer ones.
const LOOK_AGAIN: Nanos = Nanos(100 * Nanos::SECOND.0);

#[derive(Default)]
pub(super) struct Part {
    waiting: Ranking<Priority, Group>,
    /// The jobs among them that have not waited for the bound.
    bounds: Bounds,
    hosts: Hosts,
    /// Groups whose first job has found no partner.
    hopeless: BTreeSet<Group>,
    looked_at: Nanos,
    outside: Outside,
    /// Whether a job that has waited for the bound needs nodes of the stage.
    needs_stage: bool,
}

/// The order of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Priority {
    turn: Waits,
    /// The estimated time in nanoseconds times devices.
    service: u64,
    devices: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    /// For longer than the bound, since this time.
    TooLong(Nanos),
    WithinBound,
}

/// Jobs of which the first stands for all: they need the same devices and are joined by the same jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    need: Need,
    class: Option<PackingClass>,
    kind: Kind,
}

/// A decision in the making.
struct Making<'a> {
    room: Room<'a>,
    actions: Vec<Action>,
    reasons: Vec<String>,
    started: Vec<JobId>,
}

impl Part {
    /// Puts a job into the queue, or moves it there.
    pub(super) fn put(&mut self, view: &View<'_>, common: &Common, job: JobId) {
        self.remove(job);
        let turn = match Bounds::of(view, common.settings.bound, job) {
            Some(at) if at <= view.now => Waits::TooLong(at),
            Some(at) => {
                self.bounds.put(job, at);
                Waits::WithinBound
            }
            None => Waits::WithinBound,
        };
        let need = Need::of(view, job);
        let group = Group { need, class: common.class_of(job), kind: common.kind_of(job) };
        let service = common.estimates.service(view, job);
        self.hopeless.remove(&group);
        self.waiting.put(job, group, Priority { turn, service, devices: need.devices });
    }

    /// Removes a job from the queue.
    pub(super) fn remove(&mut self, job: JobId) {
        self.waiting.remove(job);
        self.bounds.remove(job);
    }

    /// Looks whether a job that is not waiting may be joined.
    pub(super) fn look_at(&mut self, view: &View<'_>, common: &Common, job: JobId) {
        if self.hosts.look_at(view, common, job) {
            let devices = view.request(job).devices;
            self.hopeless.retain(|group| group.need.devices != devices);
        }
    }

    /// A job may not be joined: it waits or has ended.
    pub(super) fn no_host(&mut self, job: JobId) {
        self.hosts.remove(job);
    }

    /// The model has learned and predicts other times.
    pub(super) fn forget_gains(&mut self) {
        self.hosts.forget_gains();
        self.hopeless.clear();
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn waiting_jobs(&self) -> Vec<JobId> {
        self.waiting.jobs()
    }

    /// Whether the stage is to start no jobs, because a job that has waited for too long needs its devices.
    pub(super) fn needs_stage(&self) -> bool {
        self.needs_stage
    }

    /// Starts jobs, on free devices and beside others.
    pub(super) fn decide(
        &mut self,
        view: &View<'_>,
        common: &mut Common,
        is_sharing: bool,
        reasons: &mut Vec<String>,
    ) -> Vec<Action> {
        self.needs_stage = false;
        self.count_waits(view.now);
        // Cores that others have left may be enough for a job beside another.
        if view.now.saturating_sub(self.looked_at) >= LOOK_AGAIN || view.occupancy.counts_cpus() {
            self.looked_at = view.now;
            self.hopeless.clear();
        }
        let is_strict = match common.settings.backfill {
            Backfill::Always => false,
            Backfill::WhileSharing => !is_sharing,
            Backfill::Never => true,
        };
        let room = Room::new(view, &common.stage);
        let mut making = Making { room, actions: Vec::new(), reasons: Vec::new(), started: Vec::new() };
        let mut pending = BTreeSet::new();
        for (group, key, job) in self.waiting.heads().collect::<Vec<_>>() {
            let is_first = is_strict || matches!(key.turn, Waits::TooLong(_));
            let may_share = is_sharing && group.class.is_some() && !self.hopeless.contains(&group);
            let is_outside = self.outside.fits(view, &common.stage, group.need);
            if is_first || may_share || making.room.fits(group.need, is_outside) {
                pending.insert((key, job, group));
            }
        }
        while let Some((key, job, group)) = pending.pop_first() {
            let joins = |part: &mut Part, common: &mut Common, making: &mut Making<'_>| {
                is_sharing && part.join(view, common, making, job, group)
            };
            let first = common.settings.shares_first && joins(self, common, &mut making);
            if first
                || self.start(view, common, &mut making, job, group.need)
                || joins(self, common, &mut making)
            {
                self.remove(job);
                pending.extend(self.waiting.head_of(group).map(|(key, job)| (key, job, group)));
                continue;
            }
            let waits_too_long = matches!(key.turn, Waits::TooLong(_));
            let holds_up = is_strict || waits_too_long;
            if holds_up && self.outside.is_present(view, &common.stage, group.need) {
                self.needs_stage = waits_too_long && !self.outside.fits(view, &common.stage, group.need);
                break;
            }
        }
        if !making.started.is_empty() {
            let jobs = jobs_named(view, &making.started);
            reasons.push(format!("least estimated service: {jobs}"));
        }
        reasons.append(&mut making.reasons);
        making.actions
    }

    /// Moves the jobs that have waited for the bound to the front.
    fn count_waits(&mut self, now: Nanos) {
        for (at, job) in self.bounds.take_over(now) {
            if let Some((group, key)) = self.waiting.place_of(job) {
                self.waiting.put(job, group, Priority { turn: Waits::TooLong(at), ..key });
            }
        }
    }

    /// Starts a job on free devices. Returns whether there are enough.
    fn start(
        &mut self,
        view: &View<'_>,
        common: &Common,
        making: &mut Making<'_>,
        job: JobId,
        need: Need,
    ) -> bool {
        let is_outside = self.outside.fits(view, &common.stage, need);
        let Some(devices) = making.room.take(need, is_outside) else { return false };
        making.actions.push(start(view, job, devices));
        making.started.push(job);
        true
    }

    /// Starts a job beside another. Returns whether there is one.
    fn join(
        &mut self,
        view: &View<'_>,
        common: &mut Common,
        making: &mut Making<'_>,
        job: JobId,
        group: Group,
    ) -> bool {
        let Some(seeker) = group.seeker(job).filter(|_| !self.hopeless.contains(&group)) else {
            return false;
        };
        let Some(partner) = self.hosts.partner(view, common, making.room.all(), &seeker) else {
            self.hopeless.insert(group);
            return false;
        };
        let host = partner.job;
        let devices = view.job(host).placed().map(|placed| placed.devices.clone()).unwrap_or_default();
        making.room.take_cpus(&devices, view.request(job).cpus);
        let alone_ns = match &partner.gain {
            Some(gain) => gain.alone_ns.map(Some),
            None => [host, job].map(|of| alone_ns(view, common, of, &devices)),
        };
        making.actions.push(start(view, job, devices));
        making.reasons.push(why_beside(view, job, &partner));
        self.hosts.remove(host);
        common.packs.add([host, job], alone_ns);
        true
    }

    /// The place of a job in the queue and the number of all, and whether it has waited for the bound.
    pub(super) fn place_of(&self, job: JobId) -> Option<(usize, usize, bool)> {
        let (_, key) = self.waiting.place_of(job)?;
        let (place, all) = self.waiting.position(job)?;
        Some((place, all, matches!(key.turn, Waits::TooLong(_))))
    }

    /// The numbers of running jobs that a waiting job does not join, by the reason. `None` if it has no class.
    pub(super) fn refusals(
        &self,
        view: &View<'_>,
        common: &Common,
        job: JobId,
    ) -> Option<BTreeMap<Refusal, usize>> {
        let (group, _) = self.waiting.place_of(job)?;
        Some(self.hosts.refusals(view, common, &group.seeker(job)?))
    }
}

impl Group {
    /// A job of the group, if it has a class.
    fn seeker(&self, job: JobId) -> Option<Seeker> {
        Some(Seeker { job, need: self.need, kind: self.kind, class: self.class? })
    }
}

/// The time of a step of a job alone on these devices, as predicted, or else as measured while it had devices for itself.
fn alone_ns(view: &View<'_>, common: &Common, job: JobId, devices: &[DeviceId]) -> Option<f64> {
    let of = view.job(job);
    let was_alone = of.placed().is_some() || (of.account.starts == 1 && common.stage.has_profiled(job));
    let predicted = belief::step_on(view, job, devices, &[]).map(|prediction| prediction.step_ns);
    predicted.or_else(|| of.measured.filter(|_| was_alone).map(|measured| measured.step_ns))
}

fn why_beside(view: &View<'_>, job: JobId, partner: &Partner) -> String {
    let [job, host] = [job, partner.job].map(|job| &view.request(job).name);
    match partner {
        Partner { gain: Some(gain), .. } => {
            format!("{job} beside {host}: {:.3} times taking turns", gain.sum)
        }
        Partner { classes: [of_host, own], .. } => format!("{job} beside {host}: {own:?} beside {of_host:?}"),
    }
}
