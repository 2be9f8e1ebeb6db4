//! A decision: who has which devices.
//!
//! Jobs that wait are considered in order of their keys. A job takes free devices. If there are none, it takes those of others, provided that
//! they lose less time in sum than it would wait. The jobs that lose their devices are considered again in their turn: they keep
//! them if the other needed fewer, move, or wait.

use std::collections::{BTreeSet, HashMap};

use engine::{cluster::JobId, occupancy::PoolId, view::View};

use super::{
    displace::{self, Displacement},
    entry::{Entry, Now},
    room::Room,
    settings::Settings,
};
use crate::kit::elastic::{Available, Target};

/// What is decided for a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// It stays as it is: it waits, or keeps its devices.
    Stays,
    /// It runs with an option, of which the place is given.
    Runs { option: usize, target: Target },
    /// It gives up its devices.
    Stops,
}

/// A decision that is being made.
pub(super) struct Round<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) room: Room<'a>,
    /// By the place of a job among the entries.
    pub(super) outcomes: Vec<Outcome>,
    /// Jobs that wait and get no devices, in order.
    pub(super) unplaced: Vec<usize>,
    settings: &'a Settings,
    /// Jobs that came first because they were overdue, and that are not stopped since then.
    protected: &'a BTreeSet<JobId>,
    /// The jobs that may be stopped.
    victims: Vec<usize>,
    /// For devices and cores that are not free: how long it takes in seconds until they are.
    waits_s: HashMap<Need, f64>,
    /// The pools of which the devices are kept for an overdue job.
    kept: BTreeSet<PoolId>,
}

type Need = (PoolId, u32, Option<u16>);

impl<'a> Round<'a> {
    pub(super) fn new(
        view: &'a View<'a>,
        available: Available<'a>,
        entries: &'a [Entry],
        settings: &'a Settings,
        protected: &'a BTreeSet<JobId>,
    ) -> Round<'a> {
        let may_stop =
            |place: &usize| entries[*place].restart_s().is_some() && !protected.contains(&entries[*place].job);
        let victims = (0..entries.len()).filter(may_stop).filter(|_| settings.preempts).collect();
        Round {
            entries,
            room: Room::new(view, available, entries),
            outcomes: vec![Outcome::Stays; entries.len()],
            unplaced: Vec::new(),
            settings,
            protected,
            victims,
            waits_s: HashMap::new(),
            kept: BTreeSet::new(),
        }
    }

    /// Considers all jobs that wait, and those that they displace.
    pub(super) fn divide(&mut self, view: &View<'_>) {
        let waiting = (0..self.entries.len()).filter(|place| self.entries[*place].waits());
        let mut pending: BTreeSet<Turn> = waiting.map(|place| self.turn(place)).collect();
        while let Some((.., place)) = pending.pop_first() {
            if !self.entries[place].waits() {
                self.replace(place);
            } else if let Some(displaced) = self.start(view, place) {
                pending.extend(displaced.into_iter().map(|victim| self.turn(victim)));
            } else {
                self.unplaced.push(place);
            }
        }
    }

    fn turn(&self, place: usize) -> Turn {
        let entry = &self.entries[place];
        let since = entry.overdue_since.map_or(u64::MAX, |since| since.0);
        // The bits of numbers above 0 are in the order of the numbers.
        (since, entry.key(self.settings.width).to_bits(), place)
    }

    /// Gives devices to a job that waits. Returns the jobs that it displaces. `None` if it goes on waiting.
    fn start(&mut self, view: &View<'_>, place: usize) -> Option<Vec<usize>> {
        let entry = &self.entries[place];
        if self.kept.contains(&entry.pool) {
            return None;
        }
        let option = &entry.options[entry.base];
        let need = (entry.pool, option.devices, option.cpus);
        let is_overdue = entry.overdue_since.is_some();
        if self.waits_s.contains_key(&need) && !is_overdue {
            return None;
        }
        let left_s = entry.left_s();
        if let Some(target) = self.room.find(entry.pool, option) {
            self.runs(place, entry.base, target, left_s);
            return Some(Vec::new());
        }
        let wait_s = self.room.wait_s(entry.pool, option);
        let displacement =
            displace::cheapest(&self.room, self.entries, &self.victims, (entry.pool, option, left_s));
        match displacement.filter(|displacement| displacement.loss_s < wait_s || is_overdue) {
            Some(displacement) => Some(self.displace(place, displacement)),
            None => {
                if is_overdue && view.occupancy.present_in(entry.pool) >= option.devices {
                    self.kept.insert(entry.pool);
                }
                self.waits_s.insert(need, wait_s);
                None
            }
        }
    }

    fn displace(&mut self, place: usize, displacement: Displacement) -> Vec<usize> {
        let Displacement { nodes, victims, .. } = displacement;
        for &victim in &victims {
            if let Some(runs) = self.entries[victim].runs() {
                self.room.give_back(victim, &runs.target);
            }
            self.outcomes[victim] = Outcome::Stops;
        }
        self.victims.retain(|other| !victims.contains(other));
        let entry = &self.entries[place];
        let target = entry.options[entry.base].on(nodes);
        self.room.available.take(&target.nodes, target.cpus);
        self.runs(place, entry.base, target, entry.left_s());
        victims
    }

    /// Finds devices for a job that was displaced: those that it has, or as many or fewer elsewhere.
    fn replace(&mut self, place: usize) {
        let entry = &self.entries[place];
        let Now::Runs(runs) = &entry.now else { return };
        if self.room.available.has(&runs.target.nodes, runs.target.cpus) {
            self.room.available.take(&runs.target.nodes, runs.target.cpus);
            self.room.ends_after(place, &runs.target, entry.left_at(runs.rate));
            self.outcomes[place] = Outcome::Stays;
            return;
        }
        let devices = entry.devices();
        let options = entry.options.iter().enumerate().rev().filter(|(_, option)| option.devices <= devices);
        for (number, option) in options {
            if let Some(target) = self.room.find(entry.pool, option) {
                self.runs(place, number, target, entry.left_at(option.rate));
                return;
            }
        }
    }

    /// Notes that a job runs there, and for how long in seconds.
    pub(super) fn runs(&mut self, place: usize, option: usize, target: Target, left_s: f64) {
        self.room.ends_after(place, &target, left_s);
        self.outcomes[place] = Outcome::Runs { option, target };
    }

    /// In how many seconds a job that gets no devices would have some.
    pub(super) fn wait_s(&self, place: usize) -> f64 {
        let entry = &self.entries[place];
        let option = &entry.options[entry.base];
        self.waits_s.get(&(entry.pool, option.devices, option.cpus)).copied().unwrap_or(f64::INFINITY)
    }

    /// Whether a job may be stopped to run elsewhere or in another way.
    pub(super) fn may_move(&self, place: usize) -> bool {
        let entry = &self.entries[place];
        entry.restart_s().is_some() && !self.protected.contains(&entry.job)
    }
}

/// The place of a job in the order: since when it is overdue, its key, and its place among the entries.
type Turn = (u64, u64, usize);
