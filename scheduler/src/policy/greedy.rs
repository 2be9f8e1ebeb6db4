//! Devices go to jobs in an order, running or not: each gets them that fits in what those before it leave, and none waits for one that
//! does not fit. A running job that gets none is stopped.
//!
//! The walk over all jobs that this means is not made. Who runs now is who got devices at the last turn, and of that only as much
//! changes as the event asks for:
//!
//! * the devices left to a waiting job are those that are free and those of the running jobs behind it, so only as many of these are
//!   looked at as it wants devices, from the last on;
//! * of waiting jobs that want equally many, none fits where the first does not, so only the first is looked at;
//! * who is given devices takes them from the last of those that run; these are offered what is left, in order.
//!
//! A turn thus costs numbers of devices that jobs want, and the logarithm of the queue.

use std::collections::BTreeMap;

use super::{
    Decision, Watch, jobs_named,
    ranking::{Ranking, SortedJobs},
    start,
};
use crate::{
    cluster::{Action, JobId},
    job::{Phase, State},
    occupancy::{Draft, PoolId},
    view::View,
};

/// Jobs by a key: the smaller is the first to be given devices. A job that is being started or is on its way off its devices is left
/// alone until that is over, and so is one that takes no checkpoint and would lose all it has done.
pub(super) struct Greedy<K> {
    watch: Watch,
    waiting: Ranking<K>,
    running: BTreeMap<PoolId, SortedJobs<K>>,
}

/// What a job is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    Waiting,
    Running,
}

/// The first in order of those that fit.
struct Next<K> {
    key: K,
    /// Of equals, the one that runs stays.
    looks: Looks,
    job: JobId,
    pool: PoolId,
}

impl<K> Default for Greedy<K> {
    fn default() -> Greedy<K> {
        Greedy { watch: Watch::default(), waiting: Ranking::default(), running: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Greedy<K> {
    /// Looks at the job again at the next turn, though nothing happened to it.
    pub(super) fn watch(&mut self, job: JobId) {
        self.watch.add(job);
    }

    /// Takes out the jobs that something happened to, and says which of them are to be [`Greedy::put`] back and as what. Those that
    /// neither wait nor run are nothing.
    pub(super) fn due(&mut self, view: &View<'_>) -> Vec<(JobId, Option<Looks>)> {
        let due = self.watch.due(view);
        let looks = |job: JobId| {
            self.waiting.remove(job);
            self.running.values_mut().for_each(|running| running.remove(job));
            let looks = match &view.job(job).state {
                State::Waiting { .. } => Some(Looks::Waiting),
                State::Placed(placed) => (placed.phase == Phase::Running
                    && view.asked_by(job).takes_no_checkpoint.is_none())
                .then_some(Looks::Running),
                State::Ended { .. } => None,
            };
            (job, looks)
        };
        due.into_iter().map(looks).collect()
    }

    pub(super) fn put(&mut self, view: &View<'_>, job: JobId, looks: Looks, key: K) {
        match looks {
            Looks::Waiting => self.waiting.put(job, view.asked_by(job).devices, key),
            Looks::Running => {
                let device = view.job(job).placed().and_then(|placed| placed.devices.first());
                if let Some(pool) = device.map(|device| view.occupancy.pool_of(*device)) {
                    self.running.entry(pool).or_default().put(job, key);
                }
            }
        }
    }

    /// Who is to be stopped and started. `as_running` makes the key of a waiting job comparable with those of running ones.
    pub(super) fn decide(&mut self, view: &View<'_>, as_running: impl Fn(K) -> K, why: &str) -> Decision {
        let mut free: BTreeMap<PoolId, u32> =
            view.occupancy.pools().map(|pool| (pool, view.occupancy.free_in(pool))).collect();
        let mut displaced: BTreeMap<(K, JobId), PoolId> = BTreeMap::new();
        let mut granted: Vec<(JobId, PoolId)> = Vec::new();
        while let Some(next) = self.next(view, &as_running, &free, &displaced) {
            let Next { key, looks, job, pool } = next;
            let left = free.entry(pool).or_default();
            if looks == Looks::Running {
                displaced.remove(&(key, job));
                self.running.entry(pool).or_default().put(job, key);
                *left -= leaves_free(view, job);
                continue;
            }
            let wanted = view.asked_by(job).devices;
            let running = self.running.entry(pool).or_default();
            while *left < wanted {
                let Some((key, last)) = running.backwards().next() else { break };
                running.remove(last);
                displaced.insert((key, last), pool);
                *left += leaves_free(view, last);
            }
            *left -= wanted;
            self.waiting.remove(job);
            granted.push((job, pool));
        }
        self.act(view, &granted, displaced.into_keys().map(|(_, job)| job).collect(), why)
    }

    fn next(
        &self,
        view: &View<'_>,
        as_running: impl Fn(K) -> K,
        free: &BTreeMap<PoolId, u32>,
        displaced: &BTreeMap<(K, JobId), PoolId>,
    ) -> Option<Next<K>> {
        let waiting = self.waiting.heads().filter_map(|(wanted, key, job)| {
            let key = as_running(key);
            let pool = self.room(view, free, wanted, key)?;
            Some(Next { key, looks: Looks::Waiting, job, pool })
        });
        let back = displaced.iter().find(|((_, job), pool)| leaves_free(view, *job) <= free[*pool]);
        let back = back.map(|(&(key, job), &pool)| Next { key, looks: Looks::Running, job, pool });
        waiting.chain(back).min_by_key(|next| (next.key, next.looks == Looks::Waiting, next.job))
    }

    /// The first pool with that many devices free, or else the first that has them with those of running jobs behind the key.
    fn room(&self, view: &View<'_>, free: &BTreeMap<PoolId, u32>, wanted: u32, key: K) -> Option<PoolId> {
        let at_once = free.iter().find(|(_, free)| **free >= wanted);
        let found = at_once.or_else(|| {
            free.iter().find(|(pool, free)| {
                let running = self.running.get(pool).into_iter().flat_map(SortedJobs::backwards);
                let mut behind = running.take_while(|(other, _)| *other > key);
                let mut room = **free;
                behind.any(|(_, job)| {
                    room += leaves_free(view, job);
                    room >= wanted
                })
            })
        });
        found.map(|(pool, _)| *pool)
    }

    fn act(
        &mut self,
        view: &View<'_>,
        granted: &[(JobId, PoolId)],
        stopped: Vec<JobId>,
        why: &str,
    ) -> Decision {
        let mut draft = Draft::new(view.occupancy);
        for &job in &stopped {
            draft.give_back(job, view.job(job).placed().map_or(&[], |placed| &placed.devices));
        }
        let mut actions: Vec<Action> =
            stopped.iter().map(|&job| Action::Stop { job, checkpoint: true }).collect();
        for &(job, pool) in granted {
            let devices = draft.take_in(pool, view.asked_by(job).devices);
            actions.push(start(view, job, devices.expect("as many are free as were counted")));
        }
        self.watch.decided(&actions);
        let started: Vec<JobId> = granted.iter().map(|(job, _)| *job).collect();
        let reason = match (&*started, &*stopped) {
            ([], []) => String::new(),
            (started, []) => format!("{why}: {}", jobs_named(view, started)),
            (started, stopped) => {
                format!("{why}: {} instead of {}", jobs_named(view, started), jobs_named(view, stopped))
            }
        };
        Decision { actions, wake_at: None, reason }
    }
}

/// Devices that are free once the job has left: those that no other job keeps.
fn leaves_free(view: &View<'_>, job: JobId) -> u32 {
    let devices = view.job(job).placed().map_or(&[][..], |placed| &placed.devices);
    let alone = |device| view.occupancy.kept_by(device) == [job] && !view.occupancy.is_lost(device);
    devices.iter().filter(|device| alone(**device)).count() as u32
}
