//! The priorities of leases: the fraction of time that each is to have, over what it has received.

use std::collections::{BTreeMap, BTreeSet};

use engine::cluster::JobId;
use schema::units::Nanos;

use crate::kit::leases::Lease;

/// What leases have received since the last allocation.
#[derive(Debug)]
pub(super) struct Accounts {
    every: Nanos,
    /// The time of the last allocation.
    since: Nanos,
    accounts: BTreeMap<Lease, Account>,
    /// The leases of the present round, and when it began.
    held: BTreeSet<Lease>,
    held_since: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// The fraction of time in the allocation.
    pub(super) fraction: f64,
    /// What it did not receive of the allocation before, one round at most.
    owed_s: f64,
    pub(super) received_s: f64,
}

impl Account {
    /// What the lease is to have received at a time since the allocation.
    fn due_s(&self, until_s: f64) -> f64 {
        self.owed_s + self.fraction * until_s
    }

    /// The priority in a round that ends at a time since the allocation. A lease that has received nothing comes before all that have.
    fn priority(&self, until_s: f64) -> (bool, f64) {
        match self.received_s > 0.0 {
            true => (false, self.due_s(until_s) / self.received_s),
            false => (true, self.due_s(until_s)),
        }
    }
}

impl Accounts {
    pub(super) fn new(every: Nanos) -> Accounts {
        let (since, held_since) = (Nanos::ZERO, Nanos::ZERO);
        Accounts { every, since, accounts: BTreeMap::new(), held: BTreeSet::new(), held_since }
    }

    /// Adds the time since the last round to what its leases have received.
    pub(super) fn receive(&mut self, now: Nanos) {
        let passed_s = now.saturating_sub(self.held_since).as_secs_f64();
        for lease in &self.held {
            if let Some(account) = self.accounts.get_mut(lease) {
                account.received_s += passed_s;
            }
        }
        self.held_since = now;
    }

    /// Begins an allocation.
    pub(super) fn begin(&mut self, now: Nanos, fractions: &BTreeMap<Lease, f64>) {
        let since_s = now.saturating_sub(self.since).as_secs_f64();
        let most_s = self.every.as_secs_f64();
        let account = |(lease, fraction): (&Lease, &f64)| {
            let owed_s = self
                .accounts
                .get(lease)
                .map_or(0.0, |before| before.owed_s + before.fraction * since_s - before.received_s);
            let account = Account { fraction: *fraction, owed_s: owed_s.clamp(0.0, most_s), received_s: 0.0 };
            (*lease, account)
        };
        self.accounts = fractions.iter().map(account).collect();
        self.since = now;
    }

    /// The leases of the allocation, those with the largest priority first, each with the time that it is owed at the end of a round
    /// from now on.
    pub(super) fn in_order(&self, now: Nanos) -> Vec<(Lease, f64)> {
        let until_s = (now.saturating_sub(self.since) + self.every).as_secs_f64();
        let of = |(lease, account): (&Lease, &Account)| {
            (account.priority(until_s), *lease, account.due_s(until_s) - account.received_s)
        };
        let mut order: Vec<((bool, f64), Lease, f64)> = self.accounts.iter().map(of).collect();
        order.sort_by(|(one, a, _), (other, b, _)| {
            other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)).then(a.cmp(b))
        });
        order.into_iter().map(|(_, lease, owed_s)| (lease, owed_s)).collect()
    }

    /// Begins a round with these leases.
    pub(super) fn hold(&mut self, leases: BTreeSet<Lease>) {
        self.held = leases;
    }

    pub(super) fn held(&self) -> &BTreeSet<Lease> {
        &self.held
    }

    /// The time of the present allocation.
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    /// The accounts of the leases of a job.
    pub(super) fn of(&self, job: JobId) -> impl Iterator<Item = (Lease, Account)> {
        let all = self.accounts.iter().map(|(lease, account)| (*lease, *account));
        all.filter(move |(lease, _)| lease.jobs().any(|other| other == job))
    }
}
