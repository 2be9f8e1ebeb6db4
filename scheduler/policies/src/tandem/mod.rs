//! Tandem: shortest remaining time first, with packing and elastic jobs. There is no paper. The policy puts together what others of this
//! crate do one by one, so that an ablation shows what each part is worth.
//!
//! * Order: jobs that wait are considered by their remaining time alone, the least first, and a job that gets no devices is passed. The time
//!   is that of the option with the least device time (`entry.rs`): an elastic job starts on the number of devices that it uses best.
//!   A job whose length is not known is taken to run as long again as it has run.
//! * Preemption (`displace.rs`): a running job gives up its devices only to a job whose remaining time is shorter by more than a restart takes.
//!   Of the nodes, those are freed whose jobs lose the least time in sum, whether or not devices become free soon without a stop. A job that
//!   can go on with fewer devices keeps these.
//! * Packing (`share.rs`): instead, the job shares the devices of another one, if the tables say that the gain is sure and if both lose less
//!   time than by waiting or by stopping others. A job that shares devices moves when others are free.
//! * Growth (`grow.rs`): devices for which no job waits go to elastic jobs, as in Optimus: to the job that gains the most time for each. A
//!   running job grows only if it then ends sooner, with its restart.
//! * Plans: a plan of another kind is chosen only if it is predicted to be faster by `margin`. Of many predictions with errors, the best
//!   is too good.
//! * Guarantees: a guaranteed elastic job has the devices that it asks for, or an option that is predicted to be faster than these by
//!   `margin`. Once a best-effort job has arrived, guaranteed jobs share no devices. They may be stopped: their promise is of speed.
//! * Aging: after `bound`, a job comes before all others, whatever they lose, and is not stopped again. If not even that gives it devices, all
//!   that become free are kept for it.
//!
//! The policy decides when jobs arrive, end or settle. A job keeps its devices if it takes no checkpoint, or if the cost of a restart is not
//! known. The policy uses the first type of device of which the times of a job are known, packs jobs that
//! run as they ask, two at most, and ignores priorities.

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
    job::{Phase, State},
    policy::{Decision, Policy},
    topology::DeviceId,
    view::{Change, View},
};
use formats::trace::Class;
use schema::units::Nanos;

use self::{
    entry::{Entry, Now, Work},
    round::{Outcome, Round},
    settings::Settings,
    share::{Guest, Separation, Sharing, Unsure},
};
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Available, Curves, Roster, Standing, Target, pursue, restart_s},
        jobs_named,
        moves::Moves,
        packs::{Packs, can_leave},
        ranking::Need,
        start,
    },
};

pub(super) const TANDEM: Declaration = Declaration {
    name: "tandem",
    source: "this project",
    order: "remaining time, the least first",
    misfit: "is passed, until it has waited for the bound",
    preemption: "stops, moves and resizes jobs where it pays",
    packing: "two jobs, where it pays",
    needs: "times of steps alone and together, costs of restarts",
    uses: &[Uses::Guesses, Uses::Stops, Uses::Resizes, Uses::Packs, Uses::Together],
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

    /// The jobs that wait or have devices, and the guests that may leave their hosts. `stopped` are jobs that this decision stops already.
    fn entries(&mut self, view: &View<'_>, stopped: &[JobId]) -> (Vec<Entry>, Vec<Separation>) {
        let mut entries = Vec::new();
        let mut indices = BTreeMap::new();
        let destinations: BTreeSet<DeviceId> =
            self.moves.under_way().flat_map(|(_, to)| to.devices.iter().copied()).collect();
        for (job, standing) in self.roster.jobs(view, &self.moves) {
            let curve = self.curves.of(view, job, &self.settings.freedom);
            let is_own = |device: DeviceId| {
                let mut others = view.occupancy.kept_by(device).iter().filter(|other| **other != job);
                let is_shared = others.any(|other| !self.roster.guests.contains(other));
                !is_shared && !view.occupancy.is_lost(device) && !destinations.contains(&device)
            };
            if let Some(entry) = Entry::new(view, (job, standing), &curve, &self.settings, &is_own) {
                indices.insert(job, entries.len());
                entries.push(entry);
            }
        }
        let mut separations = Vec::new();
        for pack in self.roster.guests.iter().filter_map(|guest| self.packs.of(*guest)) {
            let [Some(host), Some(guest)] = pack.jobs().map(|job| indices.get(&job).copied()) else {
                continue;
            };
            let job = entries[guest].job;
            let runs = view.job(job).placed().is_some_and(|placed| placed.phase == Phase::Running);
            let may_leave = runs && can_leave(view, job) && !stopped.contains(&job);
            if let Some(restart_s) = restart_s(view, job).filter(|_| may_leave) {
                separations.push(Separation { guest, host, restart_s });
            }
            let guest_s = entries[guest].share_devices();
            entries[host].hold_devices(guest_s);
        }
        (entries, separations)
    }

    /// Decides the devices of each job. `stopped` are jobs that this decision stops already.
    fn round(&mut self, view: &View<'_>, stopped: &[JobId]) -> Vec<Action> {
        let (entries, separations) = self.entries(view, stopped);
        let Settings { packs, grows, guarantees, .. } = self.settings;
        let guarantees = guarantees && self.has_best_effort;
        let known = (&mut self.packs, &mut self.unsure);
        let sharing = Sharing::new(view, &entries, known, packs, guarantees);
        let available = Available::new(view, &self.roster, &self.moves);
        let mut round = Round::new(view, (&entries, available), sharing, &self.settings, &self.protected);
        round.divide(view);
        let separated = round.separate(view, &separations);
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
        let separated: Vec<JobId> = separated.into_iter().map(|guest| entries[guest].job).collect();
        let guest_actions = self.share(view, (&entries, &actions), &separated, &guests);
        actions.extend(guest_actions);
        self.wake_at = self.wakes_at(view, &entries);
        actions
    }

    /// Moves guests to devices that are free and that no job takes by these actions, and starts others, as far as there are cores.
    fn share(
        &mut self,
        view: &View<'_>,
        (entries, actions): (&[Entry], &[Action]),
        separated: &[JobId],
        guests: &[Guest],
    ) -> Vec<Action> {
        let mut draft = view.draft();
        self.moves.hold(&mut draft);
        for action in actions {
            if let Action::Start { devices, cpus, .. } = action {
                draft.hold(devices);
                draft.take_cpus(devices, *cpus);
            }
        }
        let mut guest_actions = Vec::new();
        for &guest in separated {
            let need = Need::of(view, guest);
            if let Some(devices) = draft.take_with(need.devices, need.pool, need.cpus) {
                let asked = view.request(guest);
                guest_actions.push(self.moves.begin(guest, devices, asked.plan, asked.cpus));
            }
        }
        for &Guest { guest, host, gain } in guests {
            let [guest, host] = [guest, host].map(|index| entries[index].job);
            let devices = view.job(host).placed().map(|placed| placed.devices.clone()).unwrap_or_default();
            let cpus = view.request(guest).cpus;
            if draft.has_cpus(&devices, cpus) {
                draft.take_cpus(&devices, cpus);
                guest_actions.push(start(view, guest, devices));
                self.packs.add([host, guest], gain.alone_ns.map(Some));
                self.roster.guests.insert(guest);
            }
        }
        guest_actions
    }

    /// What the actions of a decision do.
    fn reasons(&self, view: &View<'_>, actions: &[Action]) -> Vec<String> {
        let is_started = |job: JobId| matches!(view.job(job).state, State::Waiting { .. });
        let shares = |job: JobId| self.roster.guests.contains(&job);
        let kinds: [(&str, &dyn Fn(JobId) -> bool); 4] = [
            ("stops", &|job| !is_started(job) && !self.moves.has(job)),
            ("moves", &|job| self.moves.has(job)),
            ("starts", &|job| is_started(job) && !shares(job)),
            ("starts beside others", &|job| is_started(job) && shares(job)),
        ];
        let reason = |(what, is_one): (&str, &dyn Fn(JobId) -> bool)| {
            let jobs: Vec<JobId> = actions.iter().map(Action::job).filter(|job| is_one(*job)).collect();
            (!jobs.is_empty()).then(|| format!("{what} {}", jobs_named(view, &jobs)))
        };
        kinds.into_iter().filter_map(reason).collect()
    }

    /// When to decide again if nothing changes: when a job that waits becomes overdue, or when a running job of unknown length has run for
    /// twice as long as now.
    fn wakes_at(&self, view: &View<'_>, entries: &[Entry]) -> Option<Nanos> {
        let any_waits = entries.iter().any(Entry::waits);
        let at = |entry: &Entry| match (&entry.now, entry.work) {
            (Now::Waits, _) => {
                let bound = self.settings.bound.filter(|_| entry.overdue_since.is_none())?;
                let State::Waiting { since } = view.job(entry.job).state else { return None };
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
        let undone = self.packs.undo(view, &mut reasons);
        let stopped: Vec<JobId> = undone.iter().map(Action::job).collect();
        actions.extend(undone);
        let is_news = |change: &Change| !matches!(change, Change::Progressed(_) | Change::Placed(_));
        let is_due = self.wake_at.is_some_and(|at| at <= view.now);
        if is_due || view.changes.iter().any(is_news) {
            let round_actions = self.round(view, &stopped);
            reasons.extend(self.reasons(view, &round_actions));
            actions.extend(round_actions);
        }
        Decision { actions, wake_at: self.wake_at, reason: reasons.join("; ") }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let Some(curve) = self.curves.known(job) else { return String::new() };
        let waits = matches!(view.job(job).state, State::Waiting { .. });
        let standing = if waits { Standing::Waits } else { Standing::IsOnItsWay };
        if let Some(entry) = Entry::new(view, (job, standing), &curve, &self.settings, &|_| true) {
            let devices = entry.options[entry.base].devices;
            let time = Nanos::from_secs_f64(entry.left_s());
            let kind = if matches!(entry.work, Work::Guessed(_)) { "is taken to have" } else { "has" };
            return format!("it {kind} {time} left on {devices} devices, and no job gives way to it");
        }
        let Some(pack) = self.packs.of(job) else { return String::new() };
        let names: Vec<&str> = pack.beside(job).map(|other| &*view.request(other).name).collect();
        format!("it shares its devices with {}", names.join(", "))
    }
}
