//! Introspection: each pack, move and growth is compared with the rates before it, and undone if it is worse (Gandiva, section 3.2.2).
//!
//! Worse means by more than the interval of the comparison, which the paper does not have: without it, noise undoes half of the actions
//! that change nothing. What is undone is remembered and not tried again: kinds of jobs that are not packed, and devices on which a job
//! was slower. A pack is watched as long as it lasts.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    cluster::JobId,
    topology::{DeviceId, NodeId},
    view::View,
};
use schema::{plan::Plan, units::Nanos};

use super::{
    Gandiva,
    rates::{Conditions, Rate, Ratio},
};

/// The packs and moves that are compared with what was before.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// By the job that joined a group last.
    packs: BTreeMap<JobId, PackTrial>,
    moves: BTreeMap<JobId, MoveTrial>,
    /// Jobs, and the nodes and the number of devices with which they were slower.
    pub(super) slower: BTreeSet<(JobId, Vec<NodeId>, usize)>,
    /// Jobs that were slower after a swap, and trade no more.
    pub(super) slower_after_swap: BTreeSet<JobId>,
}

/// A job that joined a group.
#[derive(Debug)]
struct PackTrial {
    /// The sum of normalised throughputs of the members if the job and the group took turns.
    in_turns: f64,
    /// The end of the time in which the group does not end its slice, so that it is measured.
    until: Nanos,
    is_kept: bool,
}

/// A job that has other devices than before.
#[derive(Debug)]
struct MoveTrial {
    from: (Vec<DeviceId>, Option<Plan>),
    before: Rate,
    /// The job that traded devices with it.
    partner: Option<Partner>,
}

/// The other job of a swap.
#[derive(Clone, Debug)]
pub(super) struct Partner {
    pub(super) job: JobId,
    pub(super) before: (Vec<DeviceId>, Option<Plan>),
    pub(super) after: Vec<DeviceId>,
}

impl Trials {
    pub(super) fn forget(&mut self, job: JobId) {
        self.packs.remove(&job);
        self.moves.remove(&job);
        self.slower.retain(|(other, ..)| *other != job);
        self.slower_after_swap.remove(&job);
    }

    /// Begins to compare the rate of a job on its next devices with that before.
    pub(super) fn moved(&mut self, job: JobId, from: (Vec<DeviceId>, Option<Plan>), before: Rate) {
        self.moves.insert(job, MoveTrial { from, before, partner: None });
    }

    /// Lets a job that was moved, and its partner in the swap, go back together.
    pub(super) fn traded(&mut self, job: JobId, partner: Partner) {
        if let Some(trial) = self.moves.get_mut(&job) {
            trial.partner = Some(partner);
        }
    }

    pub(super) fn forget_move(&mut self, job: JobId) {
        self.moves.remove(&job);
    }

    pub(super) fn has_moved(&self, job: JobId) -> bool {
        self.moves.contains_key(&job)
    }
}

impl Gandiva {
    /// Whether the slice of a group does not end, because the group was just made.
    pub(super) fn is_on_trial(&self, view: &View<'_>, job: JobId) -> bool {
        let members = self.residents.members(job);
        members
            .filter_map(|member| self.trials.packs.get(&member))
            .any(|pack| !pack.is_kept && view.now < pack.until)
    }

    /// Puts a job into the group of another one.
    pub(super) fn pack(&mut self, view: &View<'_>, job: JobId, host: JobId, before: f64) {
        let count = self.residents.members(host).count() as f64;
        self.residents.join(job, host);
        let in_turns = (count * before + 1.0) / (count + 1.0);
        let until = view.now + self.settings.quantum;
        self.trials.packs.insert(job, PackTrial { in_turns, until, is_kept: false });
    }

    /// The sum of the normalised throughputs of jobs that run together, each over that alone. `None` if one is not measured yet.
    pub(super) fn together(&self, jobs: &[JobId]) -> Option<Ratio> {
        let least = self.settings.reports;
        let of = |job: &JobId| {
            let resident = self.residents.get(*job)?;
            let beside = jobs.iter().copied().filter(|other| other != job);
            let conditions = Conditions::new(&resident.devices, resident.plan, beside);
            let packed = self.rates.of(*job, &conditions).filter(|rate| rate.laps >= least)?;
            Some(packed.over(&self.rates.alone(*job, resident.devices.len(), least)?))
        };
        let each: Option<Vec<Ratio>> = jobs.iter().map(of).collect();
        Some(Ratio::sum(each?))
    }

    /// Judges the packs and moves of jobs of which a lap was added.
    pub(super) fn judge(&mut self, view: &View<'_>, lapped: &[JobId], reasons: &mut Vec<String>) {
        let mut judged = BTreeSet::new();
        for &job in lapped {
            judged
                .extend(self.residents.members(job).filter(|member| self.trials.packs.contains_key(member)));
            self.judge_move(view, job, reasons);
        }
        for joined in judged {
            self.judge_pack(view, joined, reasons);
        }
    }

    fn judge_pack(&mut self, view: &View<'_>, joined: JobId, reasons: &mut Vec<String>) {
        let members: Vec<JobId> = self.residents.members(joined).collect();
        let Some(sum) = self.together(&members) else { return };
        let Some(pack) = self.trials.packs.get_mut(&joined) else { return };
        // A member that has left leaves two, which would take turns without loss.
        if members.len() == 2 {
            pack.in_turns = 1.0;
        }
        let name = |job: &JobId| view.request(*job).name.clone();
        let others: Vec<JobId> = members.iter().copied().filter(|other| *other != joined).collect();
        let beside = others.iter().map(name).collect::<Vec<_>>().join(" and ");
        let Ratio { value, half_width } = sum;
        if sum.is_below(pack.in_turns) {
            let than = format!("{value:.3} ± {half_width:.3} of {:.3} in turns", pack.in_turns);
            reasons.push(format!("{} no longer beside {beside}: {than}", name(&joined)));
            self.unpack(view, joined);
        } else if sum.is_above(pack.in_turns) && !pack.is_kept {
            pack.is_kept = true;
            let than = format!("{value:.3} ± {half_width:.3} times {:.3} in turns", pack.in_turns);
            reasons.push(format!("{} stays beside {beside}: {than}", name(&joined)));
        }
    }

    /// Separates a job from its group, and packs such jobs never again.
    pub(super) fn unpack(&mut self, view: &View<'_>, joined: JobId) {
        let others: Vec<JobId> = self.residents.members(joined).filter(|other| *other != joined).collect();
        for other in others {
            self.kinds.keep_apart(view, [joined, other]);
        }
        self.residents.separate(joined);
        self.trials.packs.remove(&joined);
    }

    /// Removes the records of packs of which one job is left.
    pub(super) fn drop_lone_packs(&mut self) {
        let residents = &self.residents;
        self.trials.packs.retain(|joined, _| residents.members(*joined).count() > 1);
    }

    fn judge_move(&mut self, view: &View<'_>, job: JobId, reasons: &mut Vec<String>) {
        let Some(trial) = self.trials.moves.get(&job) else { return };
        let Some(resident) = self.residents.get(job) else { return };
        let now = Conditions::new(&resident.devices, resident.plan, []);
        let Some(after) = self.rates.of(job, &now).filter(|rate| rate.laps >= self.settings.reports) else {
            return;
        };
        let ratio = after.over(&trial.before);
        let name = &view.request(job).name;
        let Ratio { value, half_width } = ratio;
        if !ratio.is_below(1.0) {
            if ratio.is_above(1.0) || after.laps >= 2 * self.settings.reports {
                reasons.push(format!(
                    "{name} stays on its devices: {value:.3} ± {half_width:.3} times as fast as before"
                ));
                self.trials.moves.remove(&job);
            }
            return;
        }
        let ((devices, plan), partner) = (trial.from.clone(), trial.partner.clone());
        let (nodes, count) = (nodes_of(view, &resident.devices), resident.devices.len());
        self.trials.slower.insert((job, nodes, count));
        if partner.is_some() {
            self.trials.slower_after_swap.insert(job);
        }
        self.trials.moves.remove(&job);
        // A partner that has moved or grown since is no longer part of the swap.
        let is_where_it_went = |partner: &Partner| {
            self.residents.get(partner.job).is_some_and(|resident| resident.devices == partner.after)
        };
        let partner = partner.filter(is_where_it_went);
        let leaves =
            |other: &JobId| *other == job || partner.as_ref().is_some_and(|partner| partner.job == *other);
        let is_open = |device: &DeviceId| {
            !view.occupancy.is_lost(*device) && self.residents.on(*device).iter().all(leaves)
        };
        let of_partner = partner.iter().flat_map(|partner| &partner.before.0);
        let goes_back = devices.iter().chain(of_partner).all(is_open);
        let what = if goes_back { "goes back" } else { "stays, because the devices before are taken" };
        reasons.push(format!("{name} {what}: {value:.3} ± {half_width:.3} times as fast as before"));
        if goes_back {
            self.residents.relocate(view, job, devices, plan);
            if let Some(Partner { job, before: (devices, plan), .. }) = partner {
                self.residents.relocate(view, job, devices, plan);
                self.trials.moves.remove(&job);
            }
        }
    }

    /// What is known of the pack of a job.
    pub(super) fn explain_pack(&self, view: &View<'_>, job: JobId) -> Option<String> {
        let members: Vec<JobId> = self.residents.members(job).collect();
        let others: Vec<&str> =
            members.iter().filter(|other| **other != job).map(|other| &*view.request(*other).name).collect();
        if others.is_empty() {
            return None;
        }
        let sum = match self.together(&members) {
            Some(Ratio { value, half_width }) => {
                format!("{value:.3} ± {half_width:.3} times the throughput of one")
            }
            None => "not measured yet".to_owned(),
        };
        Some(format!("it is packed with {}, {sum}", others.join(" and ")))
    }
}

/// The nodes of some devices, in order.
pub(super) fn nodes_of(view: &View<'_>, devices: &[DeviceId]) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = devices.iter().map(|device| view.topology.node_of(*device)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
