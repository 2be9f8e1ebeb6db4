//! Greedy preemptive assignment. All jobs, running or not, are considered in the order of a key. A job gets devices if those that
//! the jobs before it leave are enough; otherwise it is skipped. A running job that gets no devices is stopped.
//!
//! A decision does not walk over all jobs. It starts from the result of the last decision, the running jobs, and changes only what
//! the event requires:
//!
//! * A waiting job can have the free devices and those of the running jobs behind it. Of these jobs, from the last one on, only
//!   those
//!   are examined whose devices it needs.
//! * Of the waiting jobs that need the same number of devices, only the first is examined: if it does not fit, none does.
//! * A job that gets devices displaces the last of the running jobs. The displaced jobs are then considered for the devices that
//!   are
//!   left, in order.
//!
//! The time of a turn thus grows with the numbers of devices that jobs need, and with the logarithm of the length of the queue.

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

/// The jobs that wait and those that can be stopped, in order of a key; the smallest comes first. A job in a switch is not
/// considered until the switch has ended. A running job that takes no checkpoint is never stopped, because it would lose all its
/// steps.
pub(super) struct Greedy<K> {
    watch: Watch,
    waiting: Ranking<K>,
    running: BTreeMap<PoolId, SortedJobs<K>>,
}

/// The role in which a job is considered: to be started, or to keep its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    Waiting,
    Running,
}

/// The first job in order that fits.
struct Next<K> {
    key: K,
    /// Of two jobs with the same key, the running one comes first.
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
    /// Examines the job again at the next turn, even if it has not changed.
    pub(super) fn watch(&mut self, job: JobId) {
        self.watch.add(job);
    }

    /// Takes out the jobs that have changed. Returns each with the role in which the caller has to [`Greedy::put`] it back, and
    /// `None` for a job that is not considered.
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

    /// Decides which jobs stop and which start. `as_running` makes the key of a waiting job comparable with those of running jobs.
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

    /// The first pool that has `wanted` free devices, or else the first that has them together with those of running jobs behind
    /// the key.
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

/// The number of devices that are free after the job has left: those that no other job holds and that are not lost.
fn leaves_free(view: &View<'_>, job: JobId) -> u32 {
    let devices = view.job(job).placed().map_or(&[][..], |placed| &placed.devices);
    let alone = |device| view.occupancy.kept_by(device) == [job] && !view.occupancy.is_lost(device);
    devices.iter().filter(|device| alone(**device)).count() as u32
}
