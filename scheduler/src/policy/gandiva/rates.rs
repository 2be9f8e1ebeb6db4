//! The rates at which jobs do their steps, from their own reports, and the comparison of two rates.
//!
//! A rate holds for conditions: the devices, the plan, and the jobs that run beside the job there. Conditions come again when jobs take
//! turns, and their reports count together. A sample is the time of a step between two reports of one stretch in which the job ran
//! without a break; a stretch begins with its first report, because the first steps after a start are slower. The rate is the geometric
//! mean of the last samples, and its interval that of Student's t for independent samples, and at least one step over all of them,
//! because reports count whole steps.

use std::collections::{BTreeMap, VecDeque};

use schema::{plan::Plan, units::Nanos};
use statistics::launches::between_launches;

use crate::{
    cluster::JobId,
    job::Phase,
    topology::DeviceId,
    view::{Change, View},
};

/// Samples that are kept, so that a rate is not of the distant past.
const SAMPLES: usize = 20;
/// A report of fewer steps since the last sample is added to the next, because it counts whole steps.
const STEPS: u64 = 5;

/// The conditions under which a job runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Conditions {
    pub(super) devices: Vec<DeviceId>,
    pub(super) plan: Option<Plan>,
    /// In ascending order.
    pub(super) beside: Vec<JobId>,
}

/// A rate relative to another, or the sum of such, with the half-width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) value: f64,
    pub(super) half_width: f64,
}

/// Steps per second, with the relative half-width of the 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) per_s: f64,
    pub(super) relative: f64,
    pub(super) samples: usize,
}

#[derive(Debug, Default)]
struct Samples {
    /// The steps and the time of each.
    of: VecDeque<(u64, Nanos)>,
}

/// The last report of a stretch: its conditions, the time since which the job runs, the steps, and the time of the report.
#[derive(Debug)]
struct Mark {
    conditions: Conditions,
    since: Nanos,
    steps: u64,
    at: Nanos,
}

#[derive(Debug, Default)]
pub(super) struct Rates {
    marks: BTreeMap<JobId, Mark>,
    of: BTreeMap<JobId, BTreeMap<Conditions, Samples>>,
}

impl Conditions {
    pub(super) fn new(
        devices: &[DeviceId],
        plan: Option<Plan>,
        beside: impl IntoIterator<Item = JobId>,
    ) -> Conditions {
        let mut beside: Vec<JobId> = beside.into_iter().collect();
        beside.sort_unstable();
        Conditions { devices: devices.to_vec(), plan, beside }
    }

    /// The present conditions of a job, with the time since which they hold. `None` if the job or one beside it does not run.
    pub(super) fn of(view: &View<'_>, job: JobId) -> Option<(Conditions, Nanos)> {
        let placed = view.job(job).placed().filter(|placed| placed.phase == Phase::Running)?;
        let mut since = placed.since;
        let mut beside = Vec::new();
        for device in &placed.devices {
            for other in view.occupancy.kept_by(*device).iter().filter(|other| **other != job) {
                let other_placed =
                    view.job(*other).placed().filter(|placed| placed.phase == Phase::Running)?;
                since = since.max(other_placed.since);
                beside.push(*other);
            }
        }
        beside.sort_unstable();
        beside.dedup();
        Some((Conditions::new(&placed.devices, placed.plan, beside), since))
    }
}

impl Rates {
    /// Adds the reports among the changes of a view. Returns the jobs that have a new sample.
    pub(super) fn refresh(&mut self, view: &View<'_>) -> Vec<JobId> {
        let mut sampled = Vec::new();
        for change in view.changes {
            match *change {
                Change::Progressed(job) if self.add_report(view, job) => sampled.push(job),
                Change::Ended(job) => {
                    self.marks.remove(&job);
                    self.of.remove(&job);
                }
                _ => {}
            }
        }
        sampled
    }

    fn add_report(&mut self, view: &View<'_>, job: JobId) -> bool {
        let Some((conditions, since)) = Conditions::of(view, job) else {
            self.marks.remove(&job);
            return false;
        };
        let (steps, at) = (view.job(job).steps, view.job(job).steps_at);
        // A report that came together with another change may be of the time before.
        let begins = at > since;
        match self.marks.get_mut(&job) {
            Some(mark) if mark.conditions == conditions && mark.since == since => {
                let (done, passed) = (steps.saturating_sub(mark.steps), at.saturating_sub(mark.at));
                if done < STEPS || passed == Nanos::ZERO {
                    return false;
                }
                (mark.steps, mark.at) = (steps, at);
                let samples = self.of.entry(job).or_default().entry(conditions).or_default();
                samples.of.push_back((done, passed));
                if samples.of.len() > SAMPLES {
                    samples.of.pop_front();
                }
                true
            }
            _ => {
                self.marks.remove(&job);
                if begins {
                    self.marks.insert(job, Mark { conditions, since, steps, at });
                }
                false
            }
        }
    }

    /// The rate of a job under these conditions. `None` with fewer than two samples.
    pub(super) fn of(&self, job: JobId, conditions: &Conditions) -> Option<Rate> {
        let samples = &self.of.get(&job)?.get(conditions)?.of;
        let each: Vec<f64> =
            samples.iter().map(|(steps, passed)| *steps as f64 / passed.as_secs_f64()).collect();
        let interval = between_launches(&each)?;
        let steps: u64 = samples.iter().map(|(steps, _)| steps).sum();
        let relative = ((interval.hi / interval.lo).ln() / 2.0).max(1.0 / steps as f64);
        Some(Rate { per_s: interval.estimate, relative, samples: samples.len() })
    }

    /// The rate of a job alone on its devices, on whichever of these numbers of devices it ran last: the first of its conditions
    /// without other jobs that has as many samples.
    pub(super) fn alone(&self, job: JobId, devices: usize, least: usize) -> Option<Rate> {
        let is_alone =
            |conditions: &&Conditions| conditions.beside.is_empty() && conditions.devices.len() == devices;
        let known =
            self.of.get(&job)?.keys().filter(is_alone).filter_map(|conditions| self.of(job, conditions));
        known.filter(|rate| rate.samples >= least).max_by_key(|rate| rate.samples)
    }
}

impl Rate {
    /// This rate over another of the same job.
    pub(super) fn over(&self, before: &Rate) -> Ratio {
        let value = self.per_s / before.per_s;
        Ratio { value, half_width: value * self.relative.hypot(before.relative) }
    }
}

impl Ratio {
    /// The sum of independent ratios.
    pub(super) fn sum(ratios: impl IntoIterator<Item = Ratio>) -> Ratio {
        let zero = Ratio { value: 0.0, half_width: 0.0 };
        ratios.into_iter().fold(zero, |sum, ratio| Ratio {
            value: sum.value + ratio.value,
            half_width: sum.half_width.hypot(ratio.half_width),
        })
    }

    /// Whether the value is below another one by more than the half-width.
    pub(super) fn is_below(&self, other: f64) -> bool {
        self.value + self.half_width < other
    }

    pub(super) fn is_above(&self, other: f64) -> bool {
        self.value - self.half_width > other
    }
}
