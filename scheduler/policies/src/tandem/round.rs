//! A decision: the devices of each job.
//!
//! The policy considers waiting jobs in order of their remaining times. A job takes free devices. If there are too few, the job displaces
//! running jobs whose remaining times are longer by more than their restarts take, or shares the devices of a running job, whichever costs
//! less. The policy considers a displaced job again in its turn: the job keeps its devices if the other job needed fewer, moves to other
//! devices, or waits.

use std::collections::{BTreeSet, HashMap};

use engine::{cluster::JobId, occupancy::PoolId, view::View};

use super::{
    displace::{self, Displacement},
    entry::{Entry, Now},
    room::Room,
    settings::Settings,
    share::{Guest, Sharing},
};
use crate::kit::elastic::{Available, Target};

/// The result of a decision for a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// It goes on as it is: it waits, or keeps its devices.
    Stays,
    /// It runs with an option, of which this is the index.
    Runs { option: usize, target: Target },
    /// It gives up its devices, and waits.
    Stops,
}

/// A decision that is being made. Jobs are known by their indices among the entries.
pub(super) struct Round<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) room: Room<'a>,
    pub(super) outcomes: Vec<Outcome>,
    /// Pools of which a job waits for devices.
    short: BTreeSet<PoolId>,
    pub(super) guests: Vec<Guest>,
    sharing: Sharing<'a>,
    /// Jobs that may give up devices.
    victims: Vec<usize>,
    /// How long it takes until devices are free that no job gives up, in seconds. Jobs that need as many wait as well.
    waits_s: HashMap<Need, f64>,
    /// Pools of which all devices that become free are kept for an overdue job.
    kept: BTreeSet<PoolId>,
}

/// A number of devices of a pool, with cores for each.
type Need = (PoolId, u32, Option<u16>);

/// The order of jobs: since when they are overdue, their remaining times, and their indices.
type Priority = (u64, u64, usize);

impl<'a> Round<'a> {
    /// `protected` are jobs that came first because they were overdue, and that are not stopped.
    pub(super) fn new(
        view: &'a View<'a>,
        (entries, available): (&'a [Entry], Available<'a>),
        sharing: Sharing<'a>,
        settings: &Settings,
        protected: &BTreeSet<JobId>,
    ) -> Round<'a> {
        let may_stop = |index: &usize| {
            let entry = &entries[*index];
            settings.preempts && entry.restart_s().is_some() && !protected.contains(&entry.job)
        };
        Round {
            entries,
            room: Room::new(view, available, entries),
            outcomes: vec![Outcome::Stays; entries.len()],
            short: BTreeSet::new(),
            guests: Vec::new(),
            sharing,
            victims: (0..entries.len()).filter(may_stop).collect(),
            waits_s: HashMap::new(),
            kept: BTreeSet::new(),
        }
    }

    /// Considers all waiting jobs, and the jobs that they displace.
    pub(super) fn divide(&mut self, view: &View<'_>) {
        let waiting = (0..self.entries.len()).filter(|index| self.entries[*index].waits());
        let mut pending: BTreeSet<Priority> = waiting.map(|index| self.priority(index)).collect();
        while let Some((.., index)) = pending.pop_first() {
            if self.entries[index].waits() {
                let displaced = self.start(view, index);
                pending.extend(displaced.into_iter().map(|victim| self.priority(victim)));
            } else {
                self.replace(index);
            }
        }
    }

    fn priority(&self, index: usize) -> Priority {
        let entry = &self.entries[index];
        let since = entry.overdue_since.map_or(u64::MAX, |since| since.0);
        // The bits of positive numbers are in the order of the numbers.
        (since, entry.left_s().to_bits(), index)
    }

    /// Gives devices to a job that waits, if that is possible and pays. Returns the jobs that lose theirs.
    fn start(&mut self, view: &View<'_>, index: usize) -> Vec<usize> {
        let entry = &self.entries[index];
        let option = entry.options[entry.base];
        let need = (entry.pool, option.devices, option.cpus);
        let is_overdue = entry.overdue_since.is_some();
        let is_kept = self.kept.contains(&entry.pool);
        let may_start = !is_kept && (is_overdue || !self.waits_s.contains_key(&need));
        if let Some(target) = may_start.then(|| self.room.find(entry.pool, &option)).flatten() {
            self.run(index, entry.base, target, entry.left_s());
            return Vec::new();
        }
        let displacement = may_start.then(|| self.displacement(index)).flatten();
        let wait_s = match self.waits_s.get(&need) {
            Some(wait_s) => *wait_s,
            None => self.room.wait_s(entry.pool, &option),
        };
        let most_s = displacement.as_ref().map_or(wait_s, |displacement| wait_s.min(displacement.loss_s));
        if let Some(guest) = self.sharing.guest(view, (self.entries, index), &self.room, most_s) {
            self.victims.retain(|victim| *victim != guest.host);
            self.guests.push(guest);
            return Vec::new();
        }
        if let Some(displacement) = displacement {
            return self.displace(index, displacement);
        }
        if is_overdue && view.occupancy.present_in(entry.pool) >= option.devices {
            self.kept.insert(entry.pool);
        }
        self.waits_s.insert(need, wait_s);
        self.short.insert(entry.pool);
        Vec::new()
    }

    /// The devices that running jobs give up to a waiting one. An overdue job may displace any of them.
    fn displacement(&self, index: usize) -> Option<Displacement> {
        let entry = &self.entries[index];
        let left_s = entry.left_s();
        let gives_way = |victim: &&usize| {
            let other = &self.entries[**victim];
            let restart_s = other.restart_s().unwrap_or(f64::INFINITY);
            entry.overdue_since.is_some() || other.left_s() > left_s + restart_s
        };
        let victims: Vec<usize> = self.victims.iter().filter(gives_way).copied().collect();
        let option = &entry.options[entry.base];
        displace::cheapest(&self.room, self.entries, &victims, (entry.pool, option, left_s))
    }

    fn displace(&mut self, index: usize, displacement: Displacement) -> Vec<usize> {
        let Displacement { nodes, victims, .. } = displacement;
        for &victim in &victims {
            if let Some(runs) = self.entries[victim].runs() {
                self.room.give_back(victim, &runs.target);
            }
            self.outcomes[victim] = Outcome::Stops;
            self.sharing.close(victim);
        }
        self.victims.retain(|other| !victims.contains(other));
        let entry = &self.entries[index];
        let target = entry.options[entry.base].on(nodes);
        self.room.available.take(&target.nodes, target.cpus);
        self.run(index, entry.base, target, entry.left_s());
        victims
    }

    /// Gives a displaced job its old devices if they are still free, or else the largest option that fits and needs no more devices.
    fn replace(&mut self, index: usize) {
        let entry = &self.entries[index];
        let Now::Runs(runs) = &entry.now else { return };
        if self.room.available.has(&runs.target.nodes, runs.target.cpus) {
            self.room.available.take(&runs.target.nodes, runs.target.cpus);
            self.room.ends_after(index, &runs.target, entry.left_at(runs.rate));
            self.outcomes[index] = Outcome::Stays;
            return;
        }
        let devices = runs.devices();
        let options = entry.options.iter().enumerate().rev().filter(|(_, option)| option.devices <= devices);
        for (number, option) in options {
            if let Some(target) = self.room.find(entry.pool, option) {
                self.run(index, number, target, entry.left_at(option.rate));
                return;
            }
        }
    }

    /// Notes that a job runs there, and for how long in seconds.
    pub(super) fn run(&mut self, index: usize, option: usize, target: Target, left_s: f64) {
        self.room.ends_after(index, &target, left_s);
        self.outcomes[index] = Outcome::Runs { option, target };
    }

    /// Whether a job waits for devices of a pool. A job that this decision displaces does not count, because the remaining devices are too few
    /// for it.
    pub(super) fn any_waits(&self, pool: PoolId) -> bool {
        self.short.contains(&pool)
    }
}
