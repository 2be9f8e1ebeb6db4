//! Policies that decide in rounds by an order of jobs alone. In each round, devices are offered to all jobs in order, running or not.
//! A job that fits in what is left has a lease for the round, and a job that has none is stopped with a checkpoint (`leases.rs`). A
//! job that arrives waits for the next round. Keys that change all the time, such as attained service, thus cause no more switches than
//! rounds.

use engine::{
    cluster::{Action, JobId},
    job::State,
    policy::{Decision, Policy},
    view::View,
};
use schema::units::Nanos;

use crate::kit::{
    elastic::Rounds,
    jobs_named,
    leases::{Lease, Leases},
    ranking::Need,
    settings::{Kind, Setting, Values},
};

/// An order of jobs.
pub(crate) trait Order {
    /// What the order is by, for readers of the journal.
    const BY: &'static str;

    /// Learns what has changed, at every turn. `jobs` is the number of jobs that were there before.
    fn refresh(&mut self, _view: &View<'_>, _jobs: usize) {}

    /// The key of a job at a round: the smallest comes first, and of equal ones the job that arrived first.
    fn key(&self, view: &View<'_>, job: JobId) -> f64;

    /// The key in words.
    fn say(&self, view: &View<'_>, job: JobId) -> String;
}

/// The times of a policy that decides in rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// The length of a round.
    pub(crate) every: Nanos,
    /// The wait after which a job comes before all others. `None` for never.
    pub(crate) bump: Option<Nanos>,
}

/// The setting `every` of policies that decide in rounds.
pub(crate) const fn every(default: &'static str) -> Setting {
    Setting::new("every", Kind::ROUND, default, "the length of a round")
}

pub(crate) const BUMP: Setting =
    Setting::new("bump", Kind::TIME, "never", "the wait after which a job comes before all others")
        .or("never")
        .such_as("1000h");

impl Times {
    /// Reads the settings `every` and `bump`.
    pub(crate) fn read(values: &Values) -> Times {
        Times { every: values.time("every"), bump: values.time_or_none("bump") }
    }
}

pub(crate) struct InOrder<O> {
    rounds: Rounds,
    bump: Option<Nanos>,
    leases: Leases,
    order: O,
}

impl<O: Order> InOrder<O> {
    pub(crate) fn new(times: Times, order: O) -> InOrder<O> {
        InOrder { rounds: Rounds::new(times.every), bump: times.bump, leases: Leases::default(), order }
    }

    /// The jobs in order.
    fn sorted(&self, view: &View<'_>) -> Vec<JobId> {
        let mut keyed: Vec<(Option<Nanos>, f64, JobId)> = Vec::new();
        for job in self.leases.jobs(view) {
            keyed.push((self.bumped(view, job), self.order.key(view, job), job));
        }
        keyed.sort_by(|a, b| {
            // Jobs that were bumped come first, and of these the one that has waited longest.
            let bumped = a.0.is_none().cmp(&b.0.is_none()).then(a.0.cmp(&b.0));
            bumped.then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        keyed.into_iter().map(|(.., job)| job).collect()
    }

    /// Since when a job waits that comes before all others.
    fn bumped(&self, view: &View<'_>, job: JobId) -> Option<Nanos> {
        match view.job(job).state {
            State::Waiting { since } if self.bump? <= view.now.saturating_sub(since) => Some(since),
            _ => None,
        }
    }
}

impl<O: Order> Policy for InOrder<O> {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let before = self.leases.count();
        let mut actions = self.leases.refresh(view);
        self.order.refresh(view, before);
        let is_round = self.rounds.begins(view);
        let mut reason = String::new();
        if is_round {
            let open = self.leases.open_to(view);
            let wishes: Vec<Lease> =
                self.sorted(view).into_iter().flat_map(|job| wishes(view, job)).collect();
            let (_, new) = self.leases.grant(view, &open, &wishes);
            let jobs: Vec<JobId> = new.iter().map(Action::job).collect();
            if !jobs.is_empty() {
                reason = format!("by {}: leases of {} change", O::BY, jobs_named(view, &jobs));
            }
            actions.extend(new);
        }
        let goes_on = !actions.is_empty() || self.leases.any_placed(view);
        Decision { actions, wake_at: self.rounds.next(is_round, goes_on), reason }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let order = self.sorted(view);
        let Some(place) = order.iter().position(|other| *other == job) else { return String::new() };
        let bumped =
            if self.bumped(view, job).is_some() { "; it has waited so long that it comes first" } else { "" };
        let (place, all) = (place + 1, order.len());
        format!("{}; it is number {place} of {all} jobs, by {}{bumped}", self.order.say(view, job), O::BY)
    }
}

/// The leases that a job may have: where it runs, and then in each other pool in order.
fn wishes(view: &View<'_>, job: JobId) -> Vec<Lease> {
    let need = Need::of(view, job);
    let now = view.job(job).placed().map(|placed| view.occupancy.pool_of(placed.devices[0]));
    let others = view.pools().filter(|pool| need.allows(*pool) && Some(*pool) != now);
    now.into_iter().chain(others).map(|pool| Lease { job, beside: None, pool }).collect()
}
