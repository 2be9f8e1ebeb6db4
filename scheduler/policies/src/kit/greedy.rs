//! Greedy preemptive assignment. All jobs, running or not, are considered in the order of a key. A job gets devices if those that
//! the jobs before it leave are enough; otherwise it is skipped. A running job that gets no devices is stopped. A running job is not
//! moved to other devices to make room for another.
//!
//! A decision does not walk over all jobs. It starts from the result of the last decision, the running jobs, and changes only what
//! the event requires:
//!
//! * A waiting job can have the free devices and those of the running jobs behind it (`greedy/room.rs`). If jobs are spread, it
//!   displaces the last running jobs of a pool. If they are consolidated, it displaces those of a node, of the node where they are
//!   furthest behind (`greedy/index.rs`), or of several nodes if the job is larger than one.
//! * Of the waiting jobs that need the same number of devices, of the same type, only the first is examined: if it does not fit,
//!   none does.
//! * Only jobs whose devices are needed are displaced. They are then considered for the devices that are left, in order.
//!
//! The time of a turn thus grows with the numbers of devices that jobs need, and with the logarithms of the length of the queue and
//! of the number of nodes.

mod index;
mod room;

use std::collections::BTreeSet;

use engine::{
    cluster::{Action, JobId},
    job::{Phase, State},
    occupancy::PoolId,
    policy::Decision,
    topology::NodeId,
    view::{Change, View},
};

use self::room::{Place, Room};
use crate::kit::{
    Watch, jobs_named,
    ranking::{Need, Ranking},
    start,
};

/// The jobs that wait and those that can be stopped, in order of a key; the smallest comes first. A job in a switch is not
/// considered until the switch has ended. A running job that takes no checkpoint is never stopped, because it would lose all its
/// steps.
pub(crate) struct Greedy<K> {
    watch: Watch,
    waiting: Ranking<K>,
    /// `None` before the first turn.
    room: Option<Room<K>>,
}

/// The role in which a job is considered: to be started, or to keep its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Waiting,
    Running,
}

/// The first job in order that fits: a displaced one that keeps its devices, or a waiting one in a place.
enum Next<K> {
    Keeps(K, JobId),
    Starts(JobId, Place),
}

impl<K> Default for Greedy<K> {
    fn default() -> Greedy<K> {
        Greedy { watch: Watch::default(), waiting: Ranking::default(), room: None }
    }
}

impl<K: Ord + Copy> Greedy<K> {
    /// Examines the job again at the next turn, even if it has not changed.
    pub(crate) fn watch(&mut self, job: JobId) {
        self.watch.add(job);
    }

    /// Takes out the jobs that have changed. Returns each with the role in which the caller has to [`Greedy::put`] it back, and
    /// `None` for a job that is not considered.
    pub(crate) fn due(&mut self, view: &View<'_>) -> Vec<(JobId, Option<Looks>)> {
        let mut due = self.watch.due(view);
        let room = self.room.get_or_insert_with(|| Room::new(view));
        for change in view.changes {
            if let Change::Lost(device) | Change::Back(device) = *change {
                room.device_changed(view, device);
                due.extend(view.occupancy.kept_by(device));
            }
        }
        let looks = |job: JobId| {
            self.waiting.remove(job);
            room.update(view, job);
            let looks = match &view.job(job).state {
                State::Waiting { .. } => Some(Looks::Waiting),
                State::Placed(placed) => (placed.phase == Phase::Running
                    && view.request(job).takes_no_checkpoint.is_none())
                .then_some(Looks::Running),
                State::Ended { .. } => None,
            };
            (job, looks)
        };
        due.into_iter().map(looks).collect()
    }

    pub(crate) fn put(&mut self, view: &View<'_>, job: JobId, looks: Looks, key: K) {
        match looks {
            Looks::Waiting => self.waiting.put(job, Need::of(view, job), key),
            Looks::Running => {
                if let Some(room) = &mut self.room {
                    room.may_displace(job, key);
                }
            }
        }
    }

    /// Updates the keys of running jobs whose keys change as time passes. If no job waits, no key matters and no key is computed.
    pub(crate) fn renew(&mut self, keys: impl Iterator<Item = (JobId, K)>) {
        if let Some(room) = self.room.as_mut().filter(|_| !self.waiting.is_empty()) {
            room.renew(keys);
        }
    }

    /// Explains the place of a waiting job. `order` names the key.
    pub(crate) fn explain(&self, view: &View<'_>, job: JobId, order: &str) -> String {
        let Some((place, all)) = self.waiting.position(job) else { return String::new() };
        let need = Need::of(view, job);
        let free: u32 =
            view.pools().filter(|pool| need.allows(*pool)).map(|pool| view.occupancy.free_in(pool)).sum();
        format!(
            "it is number {place} of {all} waiting jobs, by {order}; it needs {}, {free} are free, and running jobs behind it do not \
             leave enough",
            need.devices
        )
    }

    /// Decides which jobs stop and which start. `as_running` makes the key of a waiting job comparable with those of running jobs.
    pub(crate) fn decide(&mut self, view: &View<'_>, as_running: impl Fn(K) -> K, why: &str) -> Decision {
        let mut room = self.room.take().unwrap_or_else(|| Room::new(view));
        room.refresh(view);
        let mut displaced = BTreeSet::new();
        let mut granted: Vec<(JobId, Place)> = Vec::new();
        while let Some(next) = self.next(view, &as_running, &mut room, &displaced) {
            match next {
                Next::Keeps(key, job) => {
                    displaced.remove(&(key, job));
                    room.keep(key, job);
                }
                Next::Starts(job, place) => {
                    displaced.extend(room.take(&place, Need::of(view, job).cpus));
                    self.waiting.remove(job);
                    granted.push((job, place));
                }
            }
        }
        let is_by_pool = room.is_by_pool();
        self.room = Some(room);
        self.act(view, is_by_pool, &granted, displaced.into_iter().map(|(_, job)| job).collect(), why)
    }

    /// Of a running and a waiting job with the same key, the running one comes first.
    fn next(
        &self,
        view: &View<'_>,
        as_running: impl Fn(K) -> K,
        room: &mut Room<K>,
        displaced: &BTreeSet<(K, JobId)>,
    ) -> Option<Next<K>> {
        let keeps = displaced.iter().find(|(_, job)| room.has_room_for(*job)).copied();
        let heads = self.waiting.heads().map(|(need, key, job)| (as_running(key), job, need));
        let mut heads: Vec<(K, JobId, Need)> = heads.collect();
        heads.sort_unstable();
        for (key, job, need) in heads {
            if keeps.is_some_and(|(first, _)| first <= key) {
                break;
            }
            if let Some(place) = room.place(view, need, key) {
                return Some(Next::Starts(job, place));
            }
        }
        keeps.map(|(key, job)| Next::Keeps(key, job))
    }

    fn act(
        &mut self,
        view: &View<'_>,
        is_by_pool: bool,
        granted: &[(JobId, Place)],
        stopped: Vec<JobId>,
        why: &str,
    ) -> Decision {
        let mut draft = view.draft();
        for &job in &stopped {
            // The room has counted the CPUs.
            draft.give_back(job, view.job(job).placed().map_or(&[], |placed| &placed.devices), None);
        }
        let mut actions: Vec<Action> =
            stopped.iter().map(|&job| Action::Stop { job, checkpoint: true }).collect();
        for (job, place) in granted {
            let mut devices = Vec::new();
            for &(bin, count) in place {
                devices.extend(match is_by_pool {
                    true => {
                        let taken = draft.take_in(PoolId(bin.0 as u16), count);
                        taken.expect("as many are free as were counted")
                    }
                    false => draft.take_on(NodeId(bin.0), count),
                });
            }
            actions.push(start(view, *job, devices));
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
