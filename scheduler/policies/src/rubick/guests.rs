//! Guests: best-effort jobs that wait and are started on the devices of another job, where the model knows the times of both together
//! and they are a gain.
//!
//! A guest runs under the plan that it asks for. It is no part of a round: its host is given and loses devices as if it were alone.
//! Before the host changes, its guest is stopped, and the host changes in a later round. When the host ends, the guest keeps the
//! devices, and is a job as any other.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    cluster::{Action, JobId},
    job::Phase,
    occupancy::Draft,
    topology::DeviceId,
    view::{Change, View},
};
use formats::trace::Class;
use schema::sharing::Sharing;

use super::{contender::Contender, floor::Floor};
use crate::kit::{gain::Gain, moves::Moves};

/// The guests, each with its host.
#[derive(Debug, Default)]
pub(super) struct Guests {
    hosts: BTreeMap<JobId, JobId>,
    /// Pairs that did not fit, or were refused. The smaller number is first.
    apart: BTreeSet<(JobId, JobId)>,
}

fn pair(one: JobId, other: JobId) -> (JobId, JobId) {
    (one.min(other), one.max(other))
}

impl Guests {
    /// Updates the guests after the changes of a view.
    pub(super) fn refresh(&mut self, view: &View<'_>) {
        for change in view.changes {
            match *change {
                Change::DoNotFit(one, other) => drop(self.apart.insert(pair(one, other))),
                Change::Refused(job) => {
                    self.apart.extend(self.hosts.get(&job).map(|host| pair(job, *host)));
                }
                _ => {}
            }
        }
        self.hosts.retain(|guest, host| {
            let on = |job: &JobId| view.job(*job).placed().filter(|placed| !placed.phase.has_left());
            on(guest).zip(on(host)).is_some_and(|(guest, host)| guest.devices == host.devices)
        });
    }

    pub(super) fn jobs(&self) -> BTreeSet<JobId> {
        self.hosts.keys().copied().collect()
    }

    pub(super) fn host_of(&self, guest: JobId) -> Option<JobId> {
        self.hosts.get(&guest).copied()
    }

    /// The guests of these jobs.
    pub(super) fn of(&self, hosts: &[JobId]) -> Vec<JobId> {
        self.hosts.iter().filter(|(_, host)| hosts.contains(host)).map(|(guest, _)| *guest).collect()
    }

    /// Starts jobs that the round leaves without devices beside jobs that it leaves as they are: in order of arrival, each beside the
    /// job with which the gain is largest. A host keeps its guarantee. `decided` are the actions of the round, and `moves` those that
    /// are under way, which take cores.
    pub(super) fn invite(
        &mut self,
        view: &View<'_>,
        floor: &Floor,
        (decided, moves): (&[Action], &Moves),
    ) -> Vec<Action> {
        if view.jobs_per_device < 2 || *view.sharing == Sharing::Alone {
            return Vec::new();
        }
        let mut draft = view.draft();
        moves.hold(&mut draft);
        for action in decided {
            if let Action::Start { devices, cpus, .. } = action {
                draft.take_cpus(devices, *cpus);
            }
        }
        let starts: BTreeSet<JobId> = decided.iter().map(Action::job).collect();
        let waits = |job: &&Contender| {
            let asked = view.request(job.job);
            let is_left = job.before.is_none() && !starts.contains(&job.job);
            is_left && asked.class == Class::BestEffort && asked.takes_no_checkpoint.is_none()
        };
        let mut hosts: Vec<&Contender> =
            floor.jobs.iter().filter(|job| self.may_have_a_guest(view, job)).collect();
        let mut actions = Vec::new();
        for guest in floor.jobs.iter().filter(waits) {
            let gains = hosts
                .iter()
                .enumerate()
                .filter_map(|(number, host)| Some((self.gain(view, &draft, [guest, host])?, number)));
            let best = gains.max_by(|(a, number), (b, other)| a.total_cmp(b).then(other.cmp(number)));
            let Some((_, number)) = best else { continue };
            let host = hosts.remove(number).job;
            let asked = view.request(guest.job);
            let devices = view.job(host).placed().map_or(Vec::new(), |placed| placed.devices.clone());
            draft.take_cpus(&devices, asked.cpus);
            self.hosts.insert(guest.job, host);
            actions.push(Action::Start { job: guest.job, devices, cpus: asked.cpus, plan: asked.plan });
        }
        actions
    }

    /// Whether a job runs alone on its devices, and the round leaves it as it is.
    fn may_have_a_guest(&self, view: &View<'_>, job: &Contender) -> bool {
        let placed = view.job(job.job).placed().filter(|placed| placed.phase == Phase::Running);
        let is_alone =
            |devices: &[DeviceId]| devices.iter().all(|device| view.occupancy.kept_by(*device) == [job.job]);
        !job.has_changed() && placed.is_some_and(|placed| is_alone(&placed.devices))
    }

    /// The sum of the normalised throughputs of both, if it is a sure gain and the host keeps its guarantee.
    fn gain(&self, view: &View<'_>, draft: &Draft<'_>, [guest, host]: [&Contender; 2]) -> Option<f64> {
        let devices = &view.job(host.job).placed()?.devices;
        let asked = view.request(guest.job);
        let may = !self.apart.contains(&pair(guest.job, host.job))
            && asked.devices as usize == devices.len()
            && view.occupancy.pool_of(devices[0]) == guest.curve.pool
            && draft.has_cpus(devices, asked.cpus);
        let gain = may.then(|| Gain::predict(view, [host.job, guest.job]))?.filter(Gain::is_sure)?;
        (host.speed() * gain.throughputs[0] >= host.guarantee).then_some(gain.sum)
    }
}
