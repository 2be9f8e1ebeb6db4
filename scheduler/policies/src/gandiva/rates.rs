//! The rates at which jobs do their steps, from their own reports, and the comparison of two rates.
//!
//! A rate holds for conditions: the devices, the plan, and the jobs that run beside the job there. Conditions come again when jobs take
//! turns, and what was measured under them counts together. A lap is the time of at least [`STEPS`] steps between two reports in which
//! the job ran without a break. Laps begin with the first report after a start, a resumption or a change beside the job, because the
//! first steps are slower. The rate is the geometric mean of the last laps. Its interval is that of Student's t for independent laps, and
//! at least one step over all of them, because reports count whole steps.

use std::collections::{BTreeMap, VecDeque};

use engine::{
    cluster::JobId,
    job::Phase,
    topology::DeviceId,
    view::{Change, View},
};
use schema::{plan::Plan, units::Nanos};
use statistics::launches::between_launches;

/// The number of laps that are kept, so that a rate is not of the distant past.
pub(super) const LAPS: usize = 20;
/// A report of fewer steps is added to the next, because reports count whole steps.
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
    pub(super) laps: usize,
}

#[derive(Debug, Default)]
struct Laps {
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
    of: BTreeMap<JobId, BTreeMap<Conditions, Laps>>,
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
    /// Adds the reports among the changes of a view. Returns the jobs that have a new lap.
    pub(super) fn refresh(&mut self, view: &View<'_>) -> Vec<JobId> {
        let mut lapped = Vec::new();
        for change in view.changes {
            match *change {
                Change::Progressed(job) if self.add_report(view, job) => lapped.push(job),
                Change::Ended(job) => self.forget(job),
                _ => {}
            }
        }
        lapped
    }

    /// Forgets a job, and the rates of others beside it, whose conditions do not come again.
    fn forget(&mut self, job: JobId) {
        self.marks.remove(&job);
        self.of.remove(&job);
        for of in self.of.values_mut() {
            of.retain(|conditions, _| !conditions.beside.contains(&job));
        }
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
                let laps = self.of.entry(job).or_default().entry(conditions).or_default();
                laps.of.push_back((done, passed));
                if laps.of.len() > LAPS {
                    laps.of.pop_front();
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

    /// The rate of a job under these conditions. `None` with fewer than two laps.
    pub(super) fn of(&self, job: JobId, conditions: &Conditions) -> Option<Rate> {
        let laps = &self.of.get(&job)?.get(conditions)?.of;
        let each: Vec<f64> =
            laps.iter().map(|(steps, passed)| *steps as f64 / passed.as_secs_f64()).collect();
        let interval = between_launches(&each)?;
        let steps: u64 = laps.iter().map(|(steps, _)| steps).sum();
        let relative = ((interval.hi / interval.lo).ln() / 2.0).max(1.0 / steps as f64);
        Some(Rate { per_s: interval.estimate, relative, laps: laps.len() })
    }

    /// The rate of a job alone on this number of devices: of all of its conditions without other jobs, that with the most laps, if they
    /// are at least as many as `least`.
    pub(super) fn alone(&self, job: JobId, devices: usize, least: usize) -> Option<Rate> {
        let is_alone =
            |conditions: &&Conditions| conditions.beside.is_empty() && conditions.devices.len() == devices;
        let known =
            self.of.get(&job)?.keys().filter(is_alone).filter_map(|conditions| self.of(job, conditions));
        known.filter(|rate| rate.laps >= least).max_by_key(|rate| rate.laps)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_has_ended_is_forgotten_also_beside_others() {
        let mut rates = Rates::default();
        let conditions =
            |beside: &[u32]| Conditions::new(&[DeviceId(0)], None, beside.iter().map(|job| JobId(*job)));
        for (job, beside) in [(0, vec![]), (0, vec![1]), (0, vec![1, 2]), (0, vec![2]), (1, vec![0])] {
            rates.of.entry(JobId(job)).or_default().entry(conditions(&beside)).or_default();
        }
        rates.forget(JobId(1));
        let left: Vec<(JobId, Conditions)> =
            rates.of.into_iter().flat_map(|(job, of)| of.into_keys().map(move |key| (job, key))).collect();
        assert_eq!(left, [vec![], vec![2]].map(|beside| (JobId(0), conditions(&beside))));
    }
}
