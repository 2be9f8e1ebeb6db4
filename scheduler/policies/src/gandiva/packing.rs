//! Packing by trial (Gandiva, section 3.2.2): where jobs take turns, one that is suspended joins a group that runs, the one that keeps
//! its devices least busy first.
//!
//! It is measured before and after: the sum of normalised throughputs of a group is compared with that of the same jobs in turns
//! (`trials.rs`). Each job therefore has to have run alone first, for as many reports as an estimate needs. Jobs are of the same number of
//! devices and of the same priority. Their memory together fits, as far as it is known, and so do their cores. If the device of the group is another one, the job
//! moves there, if that takes no longer than a quantum.

use engine::{cluster::JobId, job::Phase, view::View};

use super::{
    Gandiva,
    place::has_cores,
    residents::{Group, is_up, waits},
};
use crate::kit::{
    belief::{self, use_alone},
    search::Standing,
};

/// The part of the time in which a job keeps its devices busy, in millionths. Jobs of which it is not known come last.
type Busy = u64;

impl Gandiva {
    /// Packs jobs that are suspended, each with at most one group.
    pub(super) fn begin_packs(&mut self, view: &View<'_>, reasons: &mut Vec<String>) {
        if view.jobs_per_device < 2 {
            return;
        }
        let groups = self.residents.groups(view);
        let by_busy =
            |groups: &mut Vec<(Busy, &Group)>| groups.sort_by_key(|(busy, group)| (*busy, group.first));
        let busy = |group: &Group| -> Busy {
            group.members.iter().map(|job| busy(view, *job)).fold(0, u64::saturating_add)
        };
        let mut suspended: Vec<(Busy, &Group)> = groups
            .iter()
            .filter(|group| group.members.len() == 1 && self.can_be_packed(view, group.first))
            .map(|group| (busy(group), group))
            .collect();
        by_busy(&mut suspended);
        let mut hosts: Vec<(Busy, &Group)> = groups
            .iter()
            .filter(|group| self.can_host(view, group))
            .map(|group| (busy(group), group))
            .collect();
        by_busy(&mut hosts);
        let mut used = vec![false; hosts.len()];
        for (_, guest) in &suspended {
            let job = guest.first;
            let fits = |(place, (_, host)): &(usize, &(Busy, &Group))| {
                !used[*place] && host.first != job && self.may_join(view, guest, host)
            };
            // The devices that the job has already are looked at first, because it has not to move there.
            let order =
                |(place, (_, host)): &(usize, &(Busy, &Group))| (host.devices != guest.devices, *place);
            let Some((place, (_, host))) = hosts.iter().enumerate().filter(fits).min_by_key(order) else {
                continue;
            };
            let before = match host.members.len() {
                1 => 1.0,
                _ => self.together(&host.members).map_or(1.0, |sum| sum.value),
            };
            used[place] = true;
            let names: Vec<&str> = host.members.iter().map(|member| &*view.request(*member).name).collect();
            reasons.push(format!("tries {} beside {}", view.request(job).name, names.join(" and ")));
            if host.devices != guest.devices {
                let plan = self.residents.get(job).and_then(|resident| resident.plan);
                self.residents.relocate(view, job, host.devices.clone(), plan);
            }
            self.pack(view, job, host.first, before);
        }
    }

    /// Whether a job is suspended and was measured alone.
    fn can_be_packed(&self, view: &View<'_>, job: JobId) -> bool {
        let is_suspended =
            waits(view, job) || view.job(job).placed().is_some_and(|placed| placed.phase == Phase::Paused);
        is_suspended && self.is_known_alone(job) && self.searches.standing(job) == Standing::Free
    }

    /// Whether a group runs where others wait for a turn, and was measured.
    fn can_host(&self, view: &View<'_>, group: &Group) -> bool {
        let is_known = match group.members.len() {
            1 => self.is_known_alone(group.first),
            _ => self.together(&group.members).is_some(),
        };
        is_known
            && group
                .members
                .iter()
                .all(|job| is_up(view, *job) && self.searches.standing(*job) == Standing::Free)
            && !self.is_on_trial(view, group.first)
            && group.members.len() < view.jobs_per_device as usize
            && group.devices.iter().any(|device| self.residents.is_contended(*device))
    }

    fn is_known_alone(&self, job: JobId) -> bool {
        let devices = self.residents.get(job).map_or(0, |resident| resident.devices.len());
        self.rates.alone(job, devices, self.settings.reports).is_some()
    }

    fn may_join(&self, view: &View<'_>, guest: &Group, host: &Group) -> bool {
        let job = guest.first;
        let is_there = host.devices == guest.devices;
        let is_alike = guest.priority == host.priority
            && guest.devices.len() == host.devices.len()
            && view.topology.placement(&guest.devices) == view.topology.placement(&host.devices)
            && view.topology.type_of(guest.devices[0]) == view.topology.type_of(host.devices[0]);
        is_alike
            && (is_there || self.may_move_to_gain(view, job))
            && fit(view, job, host)
            && has_cores(view, &[&host.members[..], &[job]].concat(), &host.devices)
            && host.members.iter().all(|member| match (self.kind_of.get(&job), self.kind_of.get(member)) {
                (Some(one), Some(other)) => !self.kinds.are_apart(*one, *other),
                _ => false,
            })
    }
}

fn busy(view: &View<'_>, job: JobId) -> Busy {
    use_alone(view, job).map_or(u64::MAX, |used| (used.busy * 1e6) as u64)
}

/// Whether the peaks of memory of a job and a group add up to at most the memory of a device, as far as they are known.
fn fit(view: &View<'_>, job: JobId, host: &Group) -> bool {
    belief::fit_in_memory(view, &host.devices, &[&host.members[..], &[job]].concat())
}
