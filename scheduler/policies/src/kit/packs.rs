//! Packs: two jobs that share their devices, and what is measured of them.
//!
//! The steps of each job of a pack are counted while both run, from its first report of progress on. Reports count whole steps, so that
//! a job may have done almost one step more. A pack loses if the sum of the normalised throughputs, that is, the speeds over those
//! alone, is at most 1 even with that step: jobs that take turns without loss have as much.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{
    cluster::{Action, JobId},
    job::{Job, Phase},
    occupancy::PoolId,
    view::{Change, View},
};
use schema::units::Nanos;

use crate::kit::{
    gain::SEATS,
    kinds::{Kind, Kinds},
};

/// Two jobs on the same devices. The one that was started first is first.
#[derive(Clone, Debug)]
pub(crate) struct Pack {
    members: [Member; SEATS],
}

#[derive(Clone, Debug)]
struct Member {
    job: JobId,
    /// The time of a step alone. `None` if it is not known, so that the pack is not measured.
    alone_ns: Option<f64>,
    /// The steps and the times of two reports: the first since both jobs run, and the last.
    reports: Option<[(u64, Nanos); 2]>,
}

/// The packs of a run.
#[derive(Debug, Default)]
pub(crate) struct Packs {
    kinds: Kinds,
    packs: BTreeMap<usize, Pack>,
    /// The number of the pack of each job that has one.
    of_job: HashMap<JobId, usize>,
    next: usize,
    /// The packs of which the last decision stopped a job.
    undone: BTreeSet<usize>,
}

impl Packs {
    /// Updates packs after the changes of a view. Returns the packs that are over, because a job has left its devices.
    pub(crate) fn refresh(&mut self, view: &View<'_>) -> Vec<Pack> {
        let mut changed = std::mem::take(&mut self.undone);
        for change in view.changes {
            match *change {
                Change::DoNotFit(one, other) => self.kinds.keep_apart(view, [one, other]),
                Change::Refused(job) => {
                    let pack = self.of(job).filter(|pack| pack.members[1].job == job && !pack.holds(view));
                    if let Some(jobs) = pack.map(Pack::jobs) {
                        self.kinds.keep_apart(view, jobs);
                    }
                }
                Change::Progressed(job) => self.add_report(view, job),
                _ => {}
            }
            changed.extend(change.job().and_then(|job| self.of_job.get(&job)));
        }
        let over = changed.into_iter().filter(|number| !self.packs[number].holds(view));
        over.collect::<Vec<_>>().into_iter().filter_map(|number| self.remove(number)).collect()
    }

    fn remove(&mut self, number: usize) -> Option<Pack> {
        let pack = self.packs.remove(&number)?;
        for job in pack.jobs() {
            self.of_job.remove(&job);
        }
        Some(pack)
    }

    /// Packs two jobs. The one whose devices they share is first. Each has its time of a step alone, if it is known.
    pub(crate) fn add(&mut self, jobs: [JobId; SEATS], alone_ns: [Option<f64>; SEATS]) {
        let member = |seat: usize| Member { job: jobs[seat], alone_ns: alone_ns[seat], reports: None };
        self.packs.insert(self.next, Pack { members: [member(0), member(1)] });
        self.of_job.extend(jobs.map(|job| (job, self.next)));
        self.next += 1;
    }

    /// The pack of a job.
    pub(crate) fn of(&self, job: JobId) -> Option<&Pack> {
        self.packs.get(self.of_job.get(&job)?)
    }

    pub(crate) fn kind(&mut self, view: &View<'_>, job: JobId) -> Kind {
        self.kinds.of(view, job)
    }

    /// Whether jobs of these kinds are not packed, because such jobs lost throughput or did not fit.
    pub(crate) fn are_apart(&self, one: Kind, other: Kind) -> bool {
        self.kinds.are_apart(one, other)
    }

    fn add_report(&mut self, view: &View<'_>, job: JobId) {
        let Some(pack) = self.of_job.get(&job).and_then(|number| self.packs.get_mut(number)) else { return };
        if !pack.both_run(view) {
            return;
        }
        for member in pack.members.iter_mut().filter(|member| member.job == job) {
            let now = (view.job(job).steps, view.job(job).steps_at);
            member.reports = Some([member.reports.map_or(now, |[first, _]| first), now]);
        }
    }

    /// Stops one job of each pack whose measured throughput shows no gain: the one that was started later, or the other if the later
    /// takes no checkpoint. Jobs like these two are not packed again.
    pub(crate) fn undo(&mut self, view: &View<'_>, reasons: &mut Vec<String>) -> Vec<Action> {
        let lose =
            |pack: &Pack| pack.measured_at_most().filter(|sum| *sum <= 1.0).map(|sum| (pack.jobs(), sum));
        let reported = view.changes.iter().filter_map(|change| match change {
            Change::Progressed(job) => self.of_job.get(job),
            _ => None,
        });
        let reported: BTreeSet<usize> = reported.copied().collect();
        let mut actions = Vec::new();
        for number in reported {
            let Some((jobs, sum)) = self.packs.get(&number).and_then(lose) else { continue };
            self.undone.insert(number);
            let [first, later] = jobs;
            let [leaves, stays] = if can_leave(view, later) { [later, first] } else { jobs };
            actions.push(Action::Stop { job: leaves, checkpoint: true });
            let names = [leaves, stays].map(|job| &view.request(job).name);
            reasons.push(format!("{} no longer beside {}: measured {sum:.3} at most", names[0], names[1]));
            self.kinds.keep_apart(view, jobs);
        }
        actions
    }
}

impl Pack {
    pub(crate) fn jobs(&self) -> [JobId; SEATS] {
        [self.members[0].job, self.members[1].job]
    }

    /// The jobs besides this one.
    pub(crate) fn beside(&self, job: JobId) -> impl Iterator<Item = JobId> {
        self.jobs().into_iter().filter(move |other| *other != job)
    }

    /// Whether both jobs hold their devices: they are starting, running or resuming.
    fn holds(&self, view: &View<'_>) -> bool {
        self.jobs()
            .into_iter()
            .all(|job| view.job(job).placed().is_some_and(|placed| !placed.phase.has_left()))
    }

    fn both_run(&self, view: &View<'_>) -> bool {
        self.jobs().into_iter().all(|job| runs(view.job(job)))
    }

    /// The largest sum of normalised throughputs that agrees with the reports. `None` until each job has reported at two different
    /// times.
    pub(crate) fn measured_at_most(&self) -> Option<f64> {
        let at_most = |member: &Member| {
            let [(first, from), (last, to)] = member.reports?;
            let time_ns = to.saturating_sub(from).0;
            (time_ns > 0)
                .then_some(member.alone_ns? * (last.saturating_sub(first) + 1) as f64 / time_ns as f64)
        };
        Some(at_most(&self.members[0])? + at_most(&self.members[1])?)
    }
}

fn runs(job: &Job) -> bool {
    job.placed().is_some_and(|placed| placed.phase == Phase::Running)
}

/// Whether the job can be stopped with a checkpoint, which ends its pack.
pub(crate) fn can_leave(view: &View<'_>, job: JobId) -> bool {
    view.request(job).takes_no_checkpoint.is_none()
}

/// The pool and the placement of a running job that has its devices for itself. `None` for other jobs.
pub(crate) fn alone_on(view: &View<'_>, job: JobId) -> Option<(PoolId, Vec<u32>)> {
    let devices = &view.job(job).placed()?.devices;
    let is_alone = devices.iter().all(|device| view.occupancy.kept_by(*device) == [job]);
    let pool = view.occupancy.pool_of(*devices.first()?);
    (is_alone && runs(view.job(job))).then(|| (pool, view.topology.placement(devices)))
}
