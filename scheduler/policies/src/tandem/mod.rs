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
    share::{Guest, Parting, Sharing, Unsure},
};
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Available, Curves, Roster, Target, pursue, restart_s},
        jobs_named,
        moves::Moves,
        packs::{Packs, can_leave},
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
    example: "tandem:pack=off:bound=12h",
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

    /// The jobs that wait or have devices, and the guests that may leave their hosts.
    fn entries(&mut self, view: &View<'_>) -> (Vec<Entry>, Vec<Parting>) {
        let mut entries = Vec::new();
        let mut places = BTreeMap::new();
        for (job, standing) in self.roster.jobs(view, &self.moves) {
            let curve = self.curves.of(view, job, &self.settings.freedom);
            if let Some(entry) = Entry::new(view, job, standing, &curve, &self.settings) {
                places.insert(job, entries.len());
                entries.push(entry);
            }
        }
        let mut partings = Vec::new();
        for pack in self.roster.guests.iter().filter_map(|guest| self.packs.of(*guest)) {
            let [Some(host), Some(guest)] = pack.jobs().map(|job| places.get(&job).copied()) else {
                continue;
            };
            let job = entries[guest].job;
            if let Some(restart_s) = restart_s(view, job).filter(|_| can_leave(view, job)) {
                partings.push(Parting { guest, host, restart_s });
            }
            let guest_s = entries[guest].share_devices();
            entries[host].hold_devices(guest_s);
        }
        (entries, partings)
    }

    /// Decides who has which devices.
    fn round(&mut self, view: &View<'_>) -> Vec<Action> {
        let (entries, partings) = self.entries(view);
        let Settings { packs, grows, guarantees, .. } = self.settings;
        let guarantees = guarantees && self.has_best_effort;
        let known = (&mut self.packs, &mut self.unsure);
        let sharing = Sharing::new(view, &entries, known, packs, guarantees);
        let available = Available::new(view, &self.roster, &self.moves);
        let mut round = Round::new(view, (&entries, available), sharing, &self.settings, &self.protected);
        round.divide(view);
        round.part(&partings);
        if grows {
            round.grow();
        }
        let Round { outcomes, guests, .. } = round;
        let mut targets: BTreeMap<JobId, Option<Target>> = BTreeMap::new();
        for (entry, outcome) in entries.iter().zip(outcomes) {
            match outcome {
                Outcome::Stays => {}
                Outcome::Runs { target, .. } => {
                    self.protected.extend(entry.overdue_since.map(|_| entry.job));
                    targets.insert(entry.job, Some(target));
                }
                Outcome::Stops => drop(targets.insert(entry.job, None)),
            }
        }
        let mut actions = pursue(view, &mut self.moves, &targets);
        for Guest { guest, host, gain } in guests {
            let [guest, host] = [guest, host].map(|place| entries[place].job);
            let devices = view.job(host).placed().map(|placed| placed.devices.clone()).unwrap_or_default();
            actions.push(start(view, guest, devices));
            self.packs.add([host, guest], gain.alone_ns.map(Some));
            self.roster.guests.insert(guest);
        }
        self.wake_at = self.wakes_at(view, &entries);
        actions
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
            (Now::Runs(_), Work::Guessed(left_s)) if any_waits => {
                Some(view.now + Nanos::from_secs_f64(left_s))
            }
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
            let of_round = self.round(view);
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
