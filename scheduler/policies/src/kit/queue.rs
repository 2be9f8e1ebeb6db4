//! A queue of waiting jobs that start in order and run to their end.

use std::collections::BTreeSet;

use engine::{
    cluster::{Action, JobId},
    job::State,
    occupancy::Draft,
    policy::Decision,
    view::View,
};

use crate::kit::{
    Watch, jobs_named,
    ranking::{Need, Ranking},
    start,
};

/// The effect of a job that does not fit on the jobs behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// Jobs behind it wait.
    Blocks,
    /// Backfill: a job that fits starts before it, without limit.
    IsPassed,
}

/// Waiting jobs in order of a key, and of arrival for equal keys. The key of a job changes only with what is known of it.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    watch: Watch,
    waiting: Ranking<K>,
    misfit: Misfit,
}

impl<K: Ord + Copy> Queue<K> {
    pub(crate) fn new(misfit: Misfit) -> Queue<K> {
        Queue { watch: Watch::default(), waiting: Ranking::default(), misfit }
    }

    /// Updates the queue after the changes of a view. Returns the jobs that it has examined.
    pub(crate) fn refresh(&mut self, view: &View<'_>, key: impl Fn(JobId) -> K) -> BTreeSet<JobId> {
        let due = self.watch.due(view);
        for &job in &due {
            match view.job(job).state {
                State::Waiting { .. } => self.waiting.put(job, Need::of(view, job), key(job)),
                State::Placed(_) | State::Ended { .. } => self.waiting.remove(job),
            }
        }
        due
    }

    /// Makes the actions that start jobs in order, as far as they fit.
    pub(crate) fn start(&mut self, view: &View<'_>, draft: &mut Draft<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        loop {
            let next = match self.misfit {
                Misfit::Blocks => self.first(view),
                Misfit::IsPassed => self
                    .waiting
                    .first_that(|Need { devices, pool, cpus }| draft.fits_with(devices, pool, cpus)),
            };
            let Some((need, job)) = next else { return actions };
            let Some(devices) = draft.take_with(need.devices, need.pool, need.cpus) else { return actions };
            actions.push(start(view, job, devices));
            self.took(job);
        }
    }

    /// All waiting jobs, in order.
    pub(crate) fn in_order(&self) -> Vec<JobId> {
        self.waiting.in_order()
    }

    /// The first job in order.
    pub(crate) fn head(&self, view: &View<'_>) -> Option<JobId> {
        self.first(view).map(|(_, job)| job)
    }

    /// A job that needs more devices than are present holds up no other: lost devices may never come back.
    fn first(&self, view: &View<'_>) -> Option<(Need, JobId)> {
        let is_present = |need: Need, pool| view.occupancy.present_in(pool) >= need.devices;
        self.waiting.first_that(|need| view.pools().any(|pool| need.allows(pool) && is_present(need, pool)))
    }

    /// Removes a job that the decision starts. The job is examined again at the next turn, as the start may be refused.
    pub(crate) fn took(&mut self, job: JobId) {
        self.waiting.remove(job);
        self.watch.add(job);
    }

    /// Examines the job again at the next turn.
    pub(crate) fn watch(&mut self, job: JobId) {
        self.watch.add(job);
    }

    /// Explains the place of a job in the queue. `order` names the key.
    pub(crate) fn explain(&self, view: &View<'_>, job: JobId, order: &str) -> String {
        let Some((place, all)) = self.waiting.position(job) else { return String::new() };
        let mut text = format!("it is number {place} of {all} in the queue, by {order}");
        if let Some((need, head)) = self.first(view).filter(|_| self.misfit == Misfit::Blocks) {
            let free: u32 =
                view.pools().filter(|pool| need.allows(*pool)).map(|pool| view.occupancy.free_in(pool)).sum();
            let which = if head == job { "it".to_owned() } else { view.request(head).name.clone() };
            text += &format!("; {which} is to start next, needs {}, and {free} are free", need.devices);
        }
        text
    }

    /// Makes the decision of a policy that consists of this queue alone.
    pub(crate) fn decide(&mut self, view: &View<'_>, key: impl Fn(JobId) -> K, why: &str) -> Decision {
        self.refresh(view, key);
        let actions = self.start(view, &mut view.draft());
        let started: Vec<JobId> = actions.iter().map(Action::job).collect();
        let reason = match *started {
            [] => String::new(),
            _ => format!("{why}: {}", jobs_named(view, &started)),
        };
        Decision { actions, wake_at: None, reason }
    }
}
