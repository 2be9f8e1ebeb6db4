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
//! packed again either, two jobs whose measured peaks are together above the memory of a device are not packed at all, and two
//! jobs that both take no checkpoint are never packed. Gandiva profiles by trial; this policy asks the
//! model first.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{
    cluster::JobId,
    occupancy::{Draft, PoolId},
    policy::{Decision, Policy},
    view::View,
};

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        gain::{Gain, SEATS},
        kinds::Kind,
        packs::{Pack, Packs, alone_on, can_leave},
        queue::{Misfit, Queue},
        ranking::Need,
        start,
    },
};

pub(super) const PACKING_FIFO: Declaration = Declaration {
    name: "packing-fifo",
    source: "Gandiva, OSDI 2018",
    order: "arrival",
    misfit: "holds up all jobs behind it",
    preemption: "only to undo a pack",
    packing: "two jobs",
    needs: "times of steps alone and together, with intervals",
    uses: &[Uses::Packs, Uses::Together],
    example: "packing-fifo",
    settings: &[],
    build: |_| each(PackingFifo::default),
};

struct PackingFifo {
    queue: Queue<()>,
    packs: Packs,
    /// Running jobs that have their devices for themselves.
    alone: BTreeMap<PlacedKind, BTreeSet<JobId>>,
    placed_of: HashMap<JobId, PlacedKind>,
    /// Pairs of kinds of which a reason has said that their gain is not sure. The smaller kind is first.
    unsure: BTreeSet<(Kind, Kind)>,
}

/// The kind and the placement of a running job, which determine its predicted gain in a pack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlacedKind {
    kind: Kind,
    pool: PoolId,
    /// The number of devices on each node.
    placement: Vec<u32>,
}

impl Default for PackingFifo {
    fn default() -> PackingFifo {
        PackingFifo {
            queue: Queue::new(Misfit::Blocks),
            packs: Packs::default(),
            alone: BTreeMap::new(),
            placed_of: HashMap::new(),
            unsure: BTreeSet::new(),
        }
    }
}

impl Policy for PackingFifo {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.refresh(view);
        let mut reasons = Vec::new();
        let mut actions = self.packs.undo(view, &mut reasons);
        actions.iter().for_each(|action| self.queue.watch(action.job()));
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
            draft.take_cpus(&devices, view.request(head).cpus);
            actions.push(start(view, head, devices));
            reasons.push(format!(
                "{} beside {}: {:.3} ± {:.3} times taking turns",
                view.request(head).name,
                view.request(beside).name,
                gain.sum,
                gain.half_width
            ));
            self.queue.took(head);
            self.pack([beside, head], gain);
        }
        Decision { actions, wake_at: None, reason: reasons.join("; ") }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let Some(pack) = self.packs.of(job) else { return self.queue.explain(view, job, "arrival") };
        let names: Vec<&str> = pack.beside(job).map(|other| &*view.request(other).name).collect();
        let measured = pack.measured_at_most();
        let measured = measured.map(|sum| format!("; {sum:.3} times taking turns at most, as measured"));
        format!("it is packed with {}{}", names.join(", "), measured.unwrap_or_default())
    }
}

impl PackingFifo {
    fn refresh(&mut self, view: &View<'_>) {
        let over = self.packs.refresh(view);
        let due = self.queue.refresh(view, |_| ());
        // A pack ends when one of its jobs has left. The other job then has its devices for itself.
        for job in over.iter().flat_map(Pack::jobs).chain(due) {
            self.not_alone(job);
            if let Some((pool, placement)) = alone_on(view, job) {
                let placed = PlacedKind { kind: self.packs.kind(view, job), pool, placement };
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

    /// The running job with the largest predicted gain beside this one. `None` if no job has one. If a gain is predicted and may be
    /// none, a reason says so, once for each pair of kinds.
    fn partner(
        &mut self,
        view: &View<'_>,
        draft: &Draft<'_>,
        head: JobId,
        reasons: &mut Vec<String>,
    ) -> Option<(JobId, Gain)> {
        let kind = self.packs.kind(view, head);
        let with = |(other, jobs): (&PlacedKind, &BTreeSet<JobId>)| {
            let has_cpus = |job: &&JobId| {
                let devices = view.job(**job).placed().map_or(&[][..], |placed| &placed.devices);
                draft.has_cpus(devices, view.request(head).cpus)
            };
            let job = *jobs.iter().find(has_cpus)?;
            let alike = view.request(job).devices == view.request(head).devices;
            let alike = alike && Need::of(view, head).allows(other.pool);
            let can_end = can_leave(view, job) || can_leave(view, head);
            if !alike || !can_end || self.packs.are_apart(kind, other.kind) {
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
            let other = self.packs.kind(view, beside);
            if self.unsure.insert((kind.min(other), kind.max(other))) {
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
        self.packs.add(jobs, gain.alone_ns.map(Some));
    }
}
