//! A stand-in for Horus (Yeung et al., "Horus: Interference-aware and prediction-based scheduling in deep learning systems", IEEE TPDS 2022), of
//! which there is no public code.
//!
//! Horus predicts the utilisation of a job from the graph of its computation, and places it on the device with the smallest cost,
//! which grows with the utilisations there, if its memory fits. The stand-in is FIFO. If the head of the queue does not fit on free
//! devices, it is started beside a running job that has as many devices for itself, if the shares of time for which the two
//! keep a device busy add up to at most 1, and their memory to at most that of a device, if it is known. Of several such jobs, the one
//! with the smallest sum is chosen, and of equals the first in the trace. At most two jobs share a device.
//!
//! There are no parameters. The utilisations are those that were measured of jobs alone, in a fitted model (`sched fit
//! --interference`), where Horus predicts them; of a job without, nothing is packed. Nothing is measured of a pack, and it
//! stays until one of its jobs ends. Jobs that did not fit in memory together are not packed again, and two jobs that both take no
//! checkpoint are never packed.

use std::collections::BTreeSet;

use engine::{
    cluster::JobId,
    occupancy::Draft,
    policy::{Decision, Policy},
    view::View,
};
use model::UseAlone;

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        belief::use_alone,
        gain::SEATS,
        packs::{Pack, Packs, alone_on, can_leave},
        queue::{Misfit, Queue},
        ranking::Need,
        start,
    },
};

pub(super) const HORUS: Declaration = Declaration {
    name: "horus-stand-in",
    source: "Horus, TPDS 2022",
    order: "arrival",
    misfit: "holds up all jobs behind it",
    preemption: "no",
    packing: "two jobs whose busy times of a device, each alone, add up to at most all of the time",
    needs: "what jobs use alone",
    uses: &[Uses::Packs, Uses::UseAlone],
    example: "horus-stand-in",
    settings: &[],
    build: |_| each(Horus::default),
};

struct Horus {
    queue: Queue<()>,
    packs: Packs,
    /// Running jobs that have their devices for themselves.
    alone: BTreeSet<JobId>,
}

impl Default for Horus {
    fn default() -> Horus {
        Horus { queue: Queue::new(Misfit::Blocks), packs: Packs::default(), alone: BTreeSet::new() }
    }
}

impl Horus {
    fn refresh(&mut self, view: &View<'_>) {
        let over = self.packs.refresh(view);
        let due = self.queue.refresh(view, |_| ());
        for job in over.iter().flat_map(Pack::jobs).chain(due) {
            match alone_on(view, job) {
                Some(_) => self.alone.insert(job),
                None => self.alone.remove(&job),
            };
        }
    }

    /// The running job beside which devices are busy for the smallest share of time, and that share.
    fn partner(&mut self, view: &View<'_>, draft: &Draft<'_>, head: JobId) -> Option<(JobId, f64)> {
        let (need, own, kind) = (Need::of(view, head), use_alone(view, head)?, self.packs.kind(view, head));
        let mut best: Option<(JobId, f64)> = None;
        for &other in &self.alone {
            let Some(devices) = view.job(other).placed().map(|placed| &placed.devices) else { continue };
            let is_alike = view.request(other).devices == need.devices
                && need.allows(view.occupancy.pool_of(devices[0]))
                && draft.has_cpus(devices, view.request(head).cpus)
                && (can_leave(view, other) || can_leave(view, head));
            let other_kind = self.packs.kind(view, other);
            if !is_alike || self.packs.are_apart(kind, other_kind) {
                continue;
            }
            let Some(of_other) = use_alone(view, other) else { continue };
            let node = &view.topology.nodes()[view.topology.node_of(devices[0]).0 as usize];
            let busy = own.busy + of_other.busy;
            let is_less = best.is_none_or(|(_, least)| busy < least);
            if busy <= 1.0 && is_less && fits(node.facts.device_memory_bytes, [own, of_other]) {
                best = Some((other, busy));
            }
        }
        best
    }
}

/// Whether the peaks of two jobs fit into the memory of a device. An unknown memory holds them, and an unknown peak fits in none that
/// is known.
fn fits(memory_bytes: Option<u64>, jobs: [UseAlone; SEATS]) -> bool {
    let Some(memory) = memory_bytes else { return true };
    let peaks: Option<Vec<u64>> = jobs.iter().map(|job| job.peak_memory_bytes).collect();
    peaks.is_some_and(|peaks| peaks.iter().sum::<u64>() <= memory)
}

impl Policy for Horus {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.refresh(view);
        let mut draft = view.draft();
        let (mut actions, mut reasons) = (Vec::new(), Vec::new());
        let may_pack = view.jobs_per_device as usize >= SEATS;
        loop {
            let started = self.queue.start(view, &mut draft);
            if !started.is_empty() {
                reasons.push(format!("{} first in the queue", started.len()));
            }
            actions.extend(started);
            let Some(head) = self.queue.head(view).filter(|_| may_pack) else { break };
            let Some((other, busy)) = self.partner(view, &draft, head) else { break };
            let devices = view.job(other).placed().map(|placed| placed.devices.clone()).unwrap_or_default();
            draft.take_cpus(&devices, view.request(head).cpus);
            actions.push(start(view, head, devices));
            let [name, beside] = [head, other].map(|job| &view.request(job).name);
            reasons.push(format!("{name} beside {beside}: busy {:.0} % of the time", busy * 100.0));
            self.queue.took(head);
            self.queue.watch(other);
            self.alone.remove(&other);
            self.packs.add([other, head], [None; SEATS]);
        }
        Decision { actions, wake_at: None, reason: reasons.join("; ") }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let Some(pack) = self.packs.of(job) else { return self.queue.explain(view, job, "arrival") };
        let names: Vec<&str> = pack.beside(job).map(|other| &*view.request(other).name).collect();
        format!("it is packed with {}", names.join(", "))
    }
}
