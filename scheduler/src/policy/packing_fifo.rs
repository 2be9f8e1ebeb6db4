//! First in, first out, with packing: the packing of Gandiva (Xiao et al., OSDI 2018) on an overloaded cluster, as the smallest
//! addition to FIFO.
//!
//! The policy is strict FIFO until the head of the queue does not fit. It then starts the head beside a running job that has the
//! same number of devices for itself, if the model predicts a gain. The sum of the normalised throughputs of the two (step time
//! alone over step time together) must exceed 1, the sum of time slicing without loss, by more than the half-width of its
//! confidence interval. If the model has no prediction or no interval, the jobs are not packed; a reason says so where an interval
//! is missing or too wide. Of several candidates, the one with the largest sum is chosen, and of equals the first in the trace. At
//! most two jobs share a device, and none if `--jobs-per-device` is 1.
//!
//! The prediction is then compared with the measurement: with the steps of each job while both run, from its first report of
//! progress on. Reports count whole steps, so that a job may have done almost one step more. If the sum is at most 1 even with that
//! step, the later job is stopped with a checkpoint, or the first one if the later takes none. Jobs like these two (the same
//! workload, batch, plan, and numbers of devices and cores) are not packed again. Jobs that did not fit in memory together are not
//! packed again either, and two jobs that both take no checkpoint are never packed. Gandiva profiles by trial; this policy asks the
//! model first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schema::{plan::Plan, units::Nanos};

use super::{
    Decision, Policy,
    gain::{Gain, SEATS},
    queue::{Misfit, Queue},
    ranking::Need,
    start,
};
use crate::{
    cluster::{Action, JobId},
    job::{Job, Payload, Phase},
    occupancy::{Draft, PoolId},
    view::{Change, View},
};

pub(super) struct PackingFifo {
    queue: Queue<()>,
    kinds: HashMap<Alike, Kind>,
    /// Running jobs that have their devices for themselves.
    alone: BTreeMap<PlacedKind, BTreeSet<JobId>>,
    placed_of: HashMap<JobId, PlacedKind>,
    packs: Vec<Pack>,
    /// Pairs of kinds that are not packed, because they lost throughput or did not fit. The smaller kind is first.
    apart: BTreeSet<(Kind, Kind)>,
    /// Pairs of kinds of which a reason has said that their gain is not sure.
    unsure: BTreeSet<(Kind, Kind)>,
}

/// The properties of a job that determine its behaviour in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Alike {
    what: Payload,
    plan: Option<Plan>,
    devices: u32,
    cpus: Option<u16>,
    step_ns: Option<u64>,
}

/// The number of a kind: jobs that are [`Alike`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind(usize);

/// The kind and the placement of a running job, which determine its predicted gain in a pack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlacedKind {
    kind: Kind,
    pool: PoolId,
    /// The number of devices on each node.
    placement: Vec<u32>,
}

/// Two jobs on the same devices. The one that was started first is first.
#[derive(Clone, Debug)]
struct Pack {
    members: [Member; SEATS],
}

#[derive(Clone, Debug)]
struct Member {
    job: JobId,
    alone_ns: f64,
    /// The steps and the times of two reports: the first since both jobs run, and the last.
    reports: Option<[(u64, Nanos); 2]>,
}

impl Default for PackingFifo {
    fn default() -> PackingFifo {
        PackingFifo {
            queue: Queue::new(Misfit::Blocks),
            kinds: HashMap::new(),
            alone: BTreeMap::new(),
            placed_of: HashMap::new(),
            packs: Vec::new(),
            apart: BTreeSet::new(),
            unsure: BTreeSet::new(),
        }
    }
}

impl Policy for PackingFifo {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.refresh(view);
        let mut reasons = Vec::new();
        let mut actions = self.unpack(view, &mut reasons);
        let mut draft = view.draft();
        let started = self.queue.start(view, &mut draft);
        if !started.is_empty() {
            reasons.push(format!("{} first in the queue", started.len()));
        }
        actions.extend(started);
        let may_pack = view.jobs_per_device as usize >= SEATS;
        while let Some(head) = self.queue.head(view).filter(|_| may_pack) {
            let Some((beside, gain)) = self.partner(view, &draft, head, &mut reasons) else { break };
            let devices = view.job(beside).placed().map(|placed| placed.devices.clone()).unwrap_or_default();
            draft.take_cpus(&devices, view.asked_by(head).cpus);
            actions.push(start(view, head, devices));
            reasons.push(format!(
                "{} beside {}: {:.3} ± {:.3} times taking turns",
                view.asked_by(head).name,
                view.asked_by(beside).name,
                gain.sum,
                gain.half_width
            ));
            self.queue.took(head);
            self.pack([beside, head], gain);
        }
        Decision { actions, wake_at: None, reason: reasons.join("; ") }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let of_job = self.packs.iter().find(|pack| pack.jobs().contains(&job));
        let Some(pack) = of_job else { return self.queue.explain(view, job, "arrival") };
        let beside = pack.jobs().into_iter().filter(|other| *other != job);
        let names: Vec<&str> = beside.map(|other| &*view.asked_by(other).name).collect();
        let measured = pack.measured_at_most();
        let measured = measured.map(|sum| format!("; {sum:.3} times taking turns at most, as measured"));
        format!("it is packed with {}{}", names.join(", "), measured.unwrap_or_default())
    }
}

impl PackingFifo {
    fn refresh(&mut self, view: &View<'_>) {
        for change in view.changes {
            match *change {
                Change::DoNotFit(one, other) => self.keep_apart(view, [one, other]),
                Change::Refused(job) => {
                    let of_job =
                        self.packs.iter().find(|pack| pack.members[1].job == job && !pack.holds(view));
                    if let Some(jobs) = of_job.map(Pack::jobs) {
                        self.keep_apart(view, jobs);
                    }
                }
                Change::Progressed(job) => self.add_report(view, job),
                _ => {}
            }
        }
        let due = self.queue.refresh(view, |_| ());
        // A pack ends when one of its jobs has left. The other job then has its devices for itself.
        let (packs, over) = std::mem::take(&mut self.packs).into_iter().partition(|pack| pack.holds(view));
        self.packs = packs;
        let freed = over.iter().flat_map(|pack: &Pack| pack.members.iter().map(|member| member.job));
        for job in freed.chain(due) {
            self.not_alone(job);
            if let Some((pool, placement)) = alone_on(view, job) {
                let placed = PlacedKind { kind: self.kind(view, job), pool, placement };
                self.alone.entry(placed.clone()).or_default().insert(job);
                self.placed_of.insert(job, placed);
            }
        }
    }

    fn not_alone(&mut self, job: JobId) {
        let Some(placed) = self.placed_of.remove(&job) else { return };
        if let Some(alone) = self.alone.get_mut(&placed) {
            alone.remove(&job);
            if alone.is_empty() {
                self.alone.remove(&placed);
            }
        }
    }

    fn add_report(&mut self, view: &View<'_>, job: JobId) {
        for pack in self.packs.iter_mut().filter(|pack| pack.both_run(view)) {
            for member in pack.members.iter_mut().filter(|member| member.job == job) {
                let now = (view.job(job).steps, view.job(job).steps_at);
                member.reports = Some([member.reports.map_or(now, |[first, _]| first), now]);
            }
        }
    }

    /// Stops one job of each pack whose measured throughput shows no gain.
    fn unpack(&mut self, view: &View<'_>, reasons: &mut Vec<String>) -> Vec<Action> {
        let mut actions = Vec::new();
        let lose =
            |pack: &Pack| pack.measured_at_most().filter(|sum| *sum <= 1.0).map(|sum| (pack.jobs(), sum));
        for (jobs, sum) in self.packs.iter().filter_map(lose).collect::<Vec<_>>() {
            let [first, later] = jobs;
            let [leaves, stays] = if can_leave(view, later) { [later, first] } else { jobs };
            actions.push(Action::Stop { job: leaves, checkpoint: true });
            let names = [leaves, stays].map(|job| &view.asked_by(job).name);
            reasons.push(format!("{} no longer beside {}: measured {sum:.3} at most", names[0], names[1]));
            self.keep_apart(view, jobs);
            self.queue.watch(leaves);
        }
        actions
    }

    /// The running job with the largest predicted gain beside this one. `None` if no job has one. If a gain is predicted and may be
    /// none, a reason says so, once for each pair of kinds.
    fn partner(
        &mut self,
        view: &View<'_>,
        draft: &Draft<'_>,
        head: JobId,
        reasons: &mut Vec<String>,
    ) -> Option<(JobId, Gain)> {
        let kind = self.kind(view, head);
        let with = |(other, jobs): (&PlacedKind, &BTreeSet<JobId>)| {
            let has_cpus = |job: &&JobId| {
                let devices = view.job(**job).placed().map_or(&[][..], |placed| &placed.devices);
                draft.has_cpus(devices, view.asked_by(head).cpus)
            };
            let job = *jobs.iter().find(has_cpus)?;
            let alike = view.asked_by(job).devices == view.asked_by(head).devices;
            let alike = alike && Need::of(view, head).allows(other.pool);
            let can_end = can_leave(view, job) || can_leave(view, head);
            if !alike || !can_end || self.apart.contains(&pair(kind, other.kind)) {
                return None;
            }
            Some((job, Gain::predict(view, [job, head])?))
        };
        let better = |(job, gain): &(JobId, Gain), (other_job, other): &(JobId, Gain)| {
            gain.sum.total_cmp(&other.sum).then(other_job.cmp(job))
        };
        let found: Vec<(JobId, Gain)> = self.alone.iter().filter_map(with).collect();
        let (sure, unsure): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, gain)| gain.is_sure());
        for (beside, gain) in unsure.into_iter().filter(|(_, gain)| gain.sum > 1.0) {
            let kinds = pair(kind, self.kind(view, beside));
            if self.unsure.insert(kinds) {
                reasons.push(gain.why_not(view, head, beside));
            }
        }
        sure.into_iter().max_by(better)
    }

    fn pack(&mut self, jobs: [JobId; SEATS], gain: Gain) {
        for job in jobs {
            self.queue.watch(job);
            self.not_alone(job);
        }
        let member = |seat: usize| Member { job: jobs[seat], alone_ns: gain.alone_ns[seat], reports: None };
        self.packs.push(Pack { members: [member(0), member(1)] });
    }

    fn keep_apart(&mut self, view: &View<'_>, jobs: [JobId; SEATS]) {
        let [one, other] = jobs.map(|job| self.kind(view, job));
        self.apart.insert(pair(one, other));
    }

    fn kind(&mut self, view: &View<'_>, job: JobId) -> Kind {
        let asked = view.asked_by(job);
        let alike = Alike {
            what: asked.what.clone(),
            plan: asked.plan,
            devices: asked.devices,
            cpus: asked.cpus,
            step_ns: asked.step_ns,
        };
        let next = Kind(self.kinds.len());
        *self.kinds.entry(alike).or_insert(next)
    }
}

impl Pack {
    fn jobs(&self) -> [JobId; SEATS] {
        [self.members[0].job, self.members[1].job]
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
    fn measured_at_most(&self) -> Option<f64> {
        let at_most = |member: &Member| {
            let [(first, from), (last, to)] = member.reports?;
            let time_ns = to.saturating_sub(from).0;
            (time_ns > 0).then(|| member.alone_ns * (last.saturating_sub(first) + 1) as f64 / time_ns as f64)
        };
        Some(at_most(&self.members[0])? + at_most(&self.members[1])?)
    }
}

fn pair(one: Kind, other: Kind) -> (Kind, Kind) {
    (one.min(other), one.max(other))
}

fn runs(job: &Job) -> bool {
    job.placed().is_some_and(|placed| placed.phase == Phase::Running)
}

/// Whether the job can be stopped with a checkpoint, which ends its pack.
fn can_leave(view: &View<'_>, job: JobId) -> bool {
    view.asked_by(job).takes_no_checkpoint.is_none()
}

/// The pool and the placement of a running job that has its devices for itself. `None` for other jobs.
fn alone_on(view: &View<'_>, job: JobId) -> Option<(PoolId, Vec<u32>)> {
    let devices = &view.job(job).placed()?.devices;
    let is_alone = devices.iter().all(|device| view.occupancy.kept_by(*device) == [job]);
    let pool = view.occupancy.pool_of(*devices.first()?);
    (is_alone && runs(view.job(job))).then(|| (pool, view.topology.placement(devices)))
}
