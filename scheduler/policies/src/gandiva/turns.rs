//! Turns: which groups run until the next turn (weighted round robin on each device, Gandiva, section 3.2.2).
//!
//! Turns begin at multiples of the quantum. At each, the groups are given their devices in order of priority, and then of the time for
//! which they ran there over their weights, the least first. A group has all its devices or none. Between turns a group goes on, and
//! those that come wait, unless their devices are free or their priority is higher. A group that cannot be suspended now goes on in any
//! case.
//!
//! The weight of a pack is that of its members together. A group in whose slice less than half a quantum has passed, because its start
//! took long, goes on through the next turn.

use std::{cmp::Reverse, collections::BTreeSet};

use engine::{
    cluster::{Action, JobId},
    job::Phase,
    topology::DeviceId,
    view::View,
};
use record::suspension::Suspension;
use schema::units::Nanos;

use super::{
    Gandiva,
    place::cpus,
    residents::{Group, is_up, waits},
};
use crate::kit::{can_suspend, search::Standing};

impl Gandiva {
    /// The jobs that are to run now, without those that are to end.
    pub(super) fn choose(&self, view: &View<'_>, is_turn: bool, ended: &BTreeSet<JobId>) -> BTreeSet<JobId> {
        let mut groups = self.residents.groups(view);
        groups.retain(|group| group.members.iter().all(|job| !ended.contains(job)));
        groups.retain(|group| !self.has(group, Standing::Held) || self.has_to_stay(view, group));
        // Of equal priority, the best members of searches come first, and then those that go on.
        groups.sort_by_cached_key(|group| {
            let has_to_stay = self.has_to_stay(view, group);
            let is_favoured = self.has(group, Standing::Favoured);
            let goes_on = self.keeps_devices(view, group, is_turn);
            (!has_to_stay, Reverse(group.priority), !is_favoured, !goes_on, group.key())
        });
        let mut taken: BTreeSet<DeviceId> = BTreeSet::new();
        let mut chosen = BTreeSet::new();
        // The cores of those that run are there for those that are chosen.
        let mut draft = view.draft();
        for (job, _) in self.residents.iter().filter(|(job, _)| is_up(view, *job)) {
            if let Some(placed) = view.job(job).placed() {
                draft.give_back(job, &placed.devices, placed.cpus);
            }
        }
        for group in groups {
            let cpus = cpus(view, &group.members);
            if group.devices.iter().all(|device| !taken.contains(device))
                && draft.has_cpus(&group.devices, cpus)
                && !self.is_skipped(view, &group)
            {
                draft.take_cpus(&group.devices, cpus);
                taken.extend(&group.devices);
                chosen.extend(group.members);
            }
        }
        chosen
    }

    /// Whether a member of the group has this standing in its search.
    fn has(&self, group: &Group, standing: Standing) -> bool {
        group.members.iter().any(|job| self.searches.standing(*job) == standing)
    }

    /// Whether a group has its devices and keeps them.
    fn keeps_devices(&self, view: &View<'_>, group: &Group, is_turn: bool) -> bool {
        let up = |job: &JobId| is_up(view, *job);
        if !group.members.iter().any(up) {
            return false;
        }
        let half = Nanos(self.settings.quantum.0 / 2);
        let is_new = |job: &JobId| {
            let placed = view.job(*job).placed();
            placed.is_some_and(|placed| placed.phase != Phase::Running || view.now - placed.since < half)
        };
        !is_turn
            || self.is_on_trial(view, group.first)
            || group.members.iter().filter(|job| up(job)).any(is_new)
    }

    /// Whether a group has its devices and cannot be suspended now: one of its jobs never can, or is on its way back to them.
    fn has_to_stay(&self, view: &View<'_>, group: &Group) -> bool {
        let comes = |job: JobId| match view.job(job).placed().map(|placed| placed.phase) {
            Some(Phase::Resuming) => true,
            // A program may train before its first event arrives, so that its stop is refused.
            Some(Phase::Starting) => view.request(job).takes_no_checkpoint.is_some(),
            _ => false,
        };
        let mut up = group.members.iter().filter(|job| is_up(view, **job));
        up.any(|job| comes(*job) || !can_suspend(view, *job))
    }

    /// Whether a group has no turn, because an action on one of its jobs was refused since the last one.
    fn is_skipped(&self, view: &View<'_>, group: &Group) -> bool {
        let is_out = |job: &JobId| self.refused.contains(job) || self.is_barred(*job);
        group.members.iter().any(|job| is_out(job) && !is_up(view, *job))
    }

    /// Makes the actions after which the chosen jobs run on the devices of their residence, and no others run. Those that leave come
    /// first.
    pub(super) fn pursue(
        &self,
        view: &View<'_>,
        chosen: &BTreeSet<JobId>,
        ended: &BTreeSet<JobId>,
    ) -> Vec<Action> {
        let (mut leave, mut come) = (Vec::new(), Vec::new());
        for (job, resident) in self.residents.iter().filter(|(job, _)| !ended.contains(job)) {
            let is_chosen = chosen.contains(&job);
            if waits(view, job) {
                if is_chosen {
                    let (devices, plan, cpus) =
                        (resident.devices.clone(), resident.plan, view.request(job).cpus);
                    come.push(Action::Start { job, devices, cpus, plan });
                }
                continue;
            }
            let Some(placed) = view.job(job).placed() else { continue };
            let is_there = placed.devices == resident.devices && placed.plan == resident.plan;
            let stop = Action::Stop { job, checkpoint: true };
            match placed.phase {
                Phase::Running | Phase::Paused | Phase::Resuming if !is_there => leave.push(stop),
                Phase::Starting if !is_there || !is_chosen => leave.push(stop),
                Phase::Running if !is_chosen => leave.push(match view.suspension {
                    Suspension::Checkpoint => stop,
                    _ => Action::Pause { job },
                }),
                Phase::Paused if is_chosen => come.push(Action::Resume { job }),
                _ => {}
            }
        }
        leave.into_iter().chain(come).collect()
    }
}
