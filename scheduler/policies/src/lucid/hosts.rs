//! Indolent packing: the running jobs that a waiting job may join, and the choice among them.
//!
//! A job may join one that runs alone on as many devices, all of one node, if
//!
//! * both have a class and the scores of the classes add up to at most `score`,
//! * its priority is at most twice that of the other, so that a short job is not slowed down by a long one,
//! * the model, if it knows the times of both together, predicts a sum of throughputs above `least-gain`,
//! * such jobs have not lost throughput together or failed to fit into memory, and their measured peaks are together at most the memory
//!   of a device,
//! * one of them takes checkpoints, so that the pack can be undone, and the node has the cores that it asks for.
//!
//! If the model does not know the times of both together, the classes decide alone.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use engine::{
    cluster::JobId,
    occupancy::{Draft, PoolId},
    view::View,
};
use model::PackingClass;

use super::{Common, settings::Pick};
use crate::kit::{
    belief::{self, Length},
    gain::Gain,
    kinds::Kind,
    packs::{alone_on, can_leave},
    ranking::Need,
};

/// How many times the priority of a running job that of the job that joins it may be.
const LONGER: u64 = 2;

/// The jobs that run alone, by what a search asks for first.
#[derive(Default)]
pub(super) struct Hosts {
    alone: BTreeMap<Place, BTreeMap<Kind, BTreeSet<JobId>>>,
    place_of: HashMap<JobId, (Place, Kind)>,
    /// What the model predicts for two kinds of jobs on devices of a pool.
    gains: HashMap<(PoolId, Kind, Kind), Option<Gain>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    pool: PoolId,
    devices: u32,
    class: PackingClass,
}

/// A job that looks for a partner.
#[derive(Clone, Copy)]
pub(super) struct Seeker {
    pub(super) job: JobId,
    pub(super) need: Need,
    pub(super) kind: Kind,
    pub(super) class: PackingClass,
}

/// The job that another one joins.
pub(super) struct Partner {
    pub(super) job: JobId,
    pub(super) classes: [PackingClass; 2],
    /// `None` if the model does not know both together.
    pub(super) gain: Option<Gain>,
}

/// The reason why a job is not joined, without the jobs themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    Classes,
    Apart,
    NoGain,
    Shorter,
    NoCheckpoint,
    Cores,
    Memory,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Classes => "of classes that are too heavy together",
            Refusal::Apart => "like jobs that lost throughput together or did not fit",
            Refusal::NoGain => "predicted to gain too little together",
            Refusal::Shorter => "less than half as long",
            Refusal::NoCheckpoint => "without a checkpoint, as this one",
            Refusal::Cores => "on a node with too few cores",
            Refusal::Memory => "on devices without the memory for both",
        })
    }
}

impl Hosts {
    /// Looks at a job again. Returns whether it can be joined now and could not before.
    pub(super) fn look_at(&mut self, view: &View<'_>, common: &Common, job: JobId) -> bool {
        let place = place_of(view, common, job);
        if place == self.place_of.get(&job).copied() {
            return false;
        }
        self.remove(job);
        let Some((place, kind)) = place else { return false };
        self.alone.entry(place).or_default().entry(kind).or_default().insert(job);
        self.place_of.insert(job, (place, kind));
        true
    }

    pub(super) fn remove(&mut self, job: JobId) {
        let Some((place, kind)) = self.place_of.remove(&job) else { return };
        let Some(kinds) = self.alone.get_mut(&place) else { return };
        if let Some(jobs) = kinds.get_mut(&kind) {
            jobs.remove(&job);
            if jobs.is_empty() {
                kinds.remove(&kind);
            }
        }
        if kinds.is_empty() {
            self.alone.remove(&place);
        }
    }

    /// Forgets what was predicted, after the model has learned.
    pub(super) fn forget_gains(&mut self) {
        self.gains.clear();
    }

    /// The job that a waiting job joins.
    pub(super) fn partner(
        &mut self,
        view: &View<'_>,
        common: &Common,
        draft: &Draft<'_>,
        seeker: &Seeker,
    ) -> Option<Partner> {
        let settings = &common.settings;
        let mut best: Option<Partner> = None;
        for (place, kinds) in &self.alone {
            if !place.suits(seeker) || !fit_together(common, place.class, seeker) {
                continue;
            }
            for (&kind, jobs) in kinds {
                if common.packs.are_apart(kind, seeker.kind) {
                    continue;
                }
                let accepts = |host: &&JobId| refused_by(view, common, draft, **host, seeker).is_none();
                let Some(&job) = jobs.iter().find(accepts) else { continue };
                let predicted = self.gains.entry((place.pool, kind, seeker.kind));
                let gain = *predicted.or_insert_with(|| Gain::predict(view, [job, seeker.job]));
                if gain.is_some_and(|gain| gain.sum <= settings.least_gain) {
                    continue;
                }
                let found = Partner { job, classes: [place.class, seeker.class], gain };
                if best.as_ref().is_none_or(|best| found.is_before(best, settings.pick)) {
                    best = Some(found);
                }
            }
        }
        best
    }

    /// The numbers of jobs that run alone on as many devices and are not joined, by the reason.
    pub(super) fn refusals(
        &self,
        view: &View<'_>,
        common: &Common,
        seeker: &Seeker,
    ) -> BTreeMap<Refusal, usize> {
        let draft = view.draft();
        let mut counts = BTreeMap::new();
        let why = |place: &Place, kind: Kind, host: JobId| {
            if !fit_together(common, place.class, seeker) {
                return Some(Refusal::Classes);
            }
            if common.packs.are_apart(kind, seeker.kind) {
                return Some(Refusal::Apart);
            }
            let gain = Gain::predict(view, [host, seeker.job]);
            let gains_little = gain.is_some_and(|gain| gain.sum <= common.settings.least_gain);
            gains_little.then_some(Refusal::NoGain).or_else(|| refused_by(view, common, &draft, host, seeker))
        };
        for (place, kinds) in self.alone.iter().filter(|(place, _)| place.suits(seeker)) {
            for (kind, host) in kinds.iter().flat_map(|(kind, jobs)| jobs.iter().map(|job| (*kind, *job))) {
                if let Some(refusal) = why(place, kind, host) {
                    *counts.entry(refusal).or_default() += 1;
                }
            }
        }
        counts
    }
}

impl Place {
    fn suits(&self, seeker: &Seeker) -> bool {
        self.devices == seeker.need.devices && seeker.need.allows(self.pool)
    }
}

impl Partner {
    fn is_before(&self, other: &Partner, pick: Pick) -> bool {
        let score = |of: &Partner| of.classes.iter().map(|class| class.score()).sum::<u32>();
        let loss = |of: &Partner| of.gain.map_or(f64::INFINITY, |gain| -gain.sum);
        let by_gain = match pick {
            Pick::First => std::cmp::Ordering::Equal,
            Pick::Best => loss(self).total_cmp(&loss(other)).then(score(self).cmp(&score(other))),
        };
        by_gain.then(self.job.cmp(&other.job)).is_lt()
    }
}

/// The place of a job that runs alone on devices of one node and may be joined.
fn place_of(view: &View<'_>, common: &Common, job: JobId) -> Option<(Place, Kind)> {
    let (pool, placement) = alone_on(view, job)?;
    let &[devices] = &placement[..] else { return None };
    Some((Place { pool, devices, class: common.class_of(job)? }, common.kind_of(job)))
}

fn fit_together(common: &Common, class: PackingClass, seeker: &Seeker) -> bool {
    class.score() + seeker.class.score() <= common.settings.score
}

/// The reason why a job of a kind that suits is not joined.
fn refused_by(
    view: &View<'_>,
    common: &Common,
    draft: &Draft<'_>,
    host: JobId,
    seeker: &Seeker,
) -> Option<Refusal> {
    let Length(own) = common.estimates.of(view, seeker.job);
    let Length(of_host) = common.estimates.of(view, host);
    let cores = view.request(seeker.job).cpus;
    let devices = || view.job(host).placed().map_or(&[][..], |placed| &placed.devices);
    if own.0 > of_host.0.saturating_mul(LONGER) {
        Some(Refusal::Shorter)
    } else if !can_leave(view, host) && !can_leave(view, seeker.job) {
        Some(Refusal::NoCheckpoint)
    } else if !draft.has_cpus(devices(), cores) {
        Some(Refusal::Cores)
    } else if !belief::fit_in_memory(view, devices(), &[host, seeker.job]) {
        Some(Refusal::Memory)
    } else {
        None
    }
}
