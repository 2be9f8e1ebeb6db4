//! Tandem: the shortest first, where each change has to pay. There is no paper: it is what this project's parts give together.
mod displace;
mod entry;
mod grow;
mod room;
mod round;
mod settings;
mod share;

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    cluster::{Action, JobId},
    policy::{Decision, Policy},
    view::{Change, View},
};
use formats::trace::Class;
use schema::units::Nanos;

use self::{
    entry::{Entry, Now, Work},
    round::{Outcome, Round},
    settings::Settings,
    share::Unsure,
};
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Available, Curves, Roster, Target, pursue},
        gain::SEATS,
        jobs_named,
        moves::Moves,
        packs::Packs,
        start,
    },
};

pub(super) const TANDEM: Declaration = Declaration {
    name: "tandem",
    source: "this project, no paper",
    order: "remaining work, the least first",
    misfit: "is passed, until it has waited for the bound",
    preemption: "stops, moves and resizes jobs where it pays",
    packing: "two jobs, where it pays",
    needs: "times of steps alone and together, costs of restarts",
    uses: &[Uses::Lengths, Uses::Stops, Uses::Resizes, Uses::Packs],
    example: "tandem:width=0:bound=12h",
    settings: settings::SETTINGS,
    build: |values| {
        let settings = Settings::read(values);
        each(move || Tandem::new(settings.clone()))
    },
};

struct Tandem {
    settings: Settings,
    roster: Roster,
    curves: Curves,
    moves: Moves,
    packs: Packs,
    unsure: Unsure,
    /// Jobs that came first because they were overdue.
    protected: BTreeSet<JobId>,
    /// Whether a best-effort job has arrived, so that guaranteed jobs are promised more than others.
    has_best_effort: bool,
    /// When it decides again if nothing changes.
    wake_at: Option<Nanos>,
}

impl Tandem {
    fn new(settings: Settings) -> Tandem {
        Tandem {
            settings,
            roster: Roster::default(),
            curves: Curves::default(),
            moves: Moves::default(),
            packs: Packs::default(),
            unsure: Unsure::default(),
            protected: BTreeSet::new(),
            has_best_effort: false,
            wake_at: None,
        }
    }

    fn refresh(&mut self, view: &View<'_>) {
        self.roster.refresh(view);
        self.curves.refresh(view);
        for pack in self.packs.refresh(view) {
            self.roster.guests.remove(&pack.jobs()[1]);
        }
        for change in view.changes {
            match *change {
                Change::Waits(job) => {
                    self.has_best_effort |= view.request(job).class == Class::BestEffort;
                }
                Change::Ended(job) => {
                    self.protected.remove(&job);
                    self.unsure.forget(job);
                }
                Change::Believed(job) => self.unsure.forget(job),
                _ => {}
            }
        }
    }

    fn entries(&mut self, view: &View<'_>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (job, standing) in self.roster.jobs(view, &self.moves) {
            let curve = self.curves.of(view, job, &self.settings.freedom);
            entries.extend(Entry::new(view, job, standing, &curve, &self.settings));
        }
        // A host keeps its devices as long as its guest does.
        let places: BTreeMap<JobId, usize> =
            entries.iter().enumerate().map(|(place, entry)| (entry.job, place)).collect();
        for guest in self.roster.guests.clone() {
            let Some(pack) = self.packs.of(guest) else { continue };
            let [host, guest] = pack.jobs().map(|job| places.get(&job).copied());
            let guest_s = guest.and_then(|place| entries[place].release_with_other());
            if let Some(Now::Runs(runs) | Now::Stays(runs)) = host.map(|place| &mut entries[place].now) {
                runs.restart_s = None;
                runs.ends_s = runs.ends_s.zip(guest_s).map(|(one, other)| one.max(other));
            }
        }
        entries
    }

    /// Decides who has which devices.
    fn round(&mut self, view: &View<'_>) -> (Vec<Action>, Option<Nanos>) {
        let entries = self.entries(view);
        let available = Available::new(view, &self.roster, &self.moves);
        let mut round = Round::new(view, available, &entries, &self.settings, &self.protected);
        round.divide(view);
        if self.settings.packs {
            round.part(view, &self.packs);
        }
        if self.settings.grows {
            round.grow();
        }
        let mut targets: BTreeMap<JobId, Option<Target>> = BTreeMap::new();
        let mut overdue = Vec::new();
        for (entry, outcome) in entries.iter().zip(&round.outcomes) {
            match outcome {
                Outcome::Stays => {}
                Outcome::Runs { target, .. } => {
                    targets.insert(entry.job, Some(target.clone()));
                    overdue.extend(entry.overdue_since.map(|_| entry.job));
                }
                Outcome::Stops => drop(targets.insert(entry.job, None)),
            }
        }
        let mut actions = pursue(view, &mut self.moves, &targets);
        if self.settings.packs && view.jobs_per_device as usize >= SEATS {
            let mut draft = view.draft();
            self.moves.hold(&mut draft);
            for action in &actions {
                if let Action::Start { devices, cpus, .. } = action {
                    draft.take_cpus(devices, *cpus);
                }
            }
            let promises = self.settings.guarantees && self.has_best_effort;
            let guests = share::guests(view, &round, (&mut self.packs, &mut self.unsure), &mut draft, promises);
            for share::Guest { guest, host, gain } in guests {
                let devices = view.job(host).placed().map(|placed| placed.devices.clone()).unwrap_or_default();
                actions.push(start(view, guest, devices));
                self.packs.add([host, guest], gain.alone_ns.map(Some));
                self.roster.guests.insert(guest);
            }
        }
        self.protected.extend(overdue);
        (actions, self.wakes_at(view, &entries))
    }

    /// When a job is overdue that is not yet, or has run as long again if nothing is known of it.
    fn wakes_at(&self, view: &View<'_>, entries: &[Entry]) -> Option<Nanos> {
        let any_waits = entries.iter().any(Entry::waits);
        let at = |entry: &Entry| match (&entry.now, entry.work) {
            (Now::Waits, _) => {
                let bound = self.settings.bound.filter(|_| entry.overdue_since.is_none())?;
                let engine::job::State::Waiting { since } = view.job(entry.job).state else { return None };
                Some(since + bound)
            }
            (Now::Runs(_), Work::Guessed(left_s)) if any_waits => Some(view.now + Nanos::from_secs_f64(left_s)),
            _ => None,
        };
        entries.iter().filter_map(at).min()
    }
}

impl Policy for Tandem {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let mut actions = self.moves.refresh(view);
        self.refresh(view);
        let mut reasons = Vec::new();
        actions.extend(self.packs.undo(view, &mut reasons));
        let is_news = |change: &Change| !matches!(change, Change::Progressed(_) | Change::Placed(_));
        let is_due = view.changes.is_empty() || self.wake_at.is_some_and(|at| at <= view.now);
        if is_due || view.changes.iter().any(is_news) {
            let (of_round, wake_at) = self.round(view);
            self.wake_at = wake_at;
            if !of_round.is_empty() {
                let jobs: Vec<JobId> = of_round.iter().map(Action::job).collect();
                reasons.push(format!("least left: {}", jobs_named(view, &jobs)));
            }
            actions.extend(of_round);
        }
        Decision { actions, wake_at: self.wake_at, reason: reasons.join("; ") }
    }

    fn explain(&self, _view: &View<'_>, _job: JobId) -> String {
        String::new()
    }
}
