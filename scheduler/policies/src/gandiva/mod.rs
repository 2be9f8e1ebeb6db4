//! Gandiva: jobs take turns, are packed by trial, migrate, grow and shrink, and every action is judged by the rates that jobs report (Xiao
//! et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018, sections 3.1 to 3.2).
//!
//! * A job that comes has devices at once, if need be those that others have (`place.rs`). The jobs of a device take turns of `quantum`
//!   60 s, by weight and strictly by priority (`turns.rs`). How a job is suspended is a choice of the run (`View::suspension`).
//! * Where jobs take turns, one joins another if both do more work together than in turns (`packing.rs`).
//! * Jobs migrate to devices that are less loaded, to fewer nodes, and away from nodes that are mostly free (`moving.rs`). Two spread
//!   jobs trade devices (`swaps.rs`).
//! * Elastic jobs take free devices of their node, and give them back at once when a job comes (`growth.rs`).
//! * Members of a search over hyper-parameters take turns, and are ended by a rule on their losses (`search/`).
//! * Packs, moves and growth are compared with the rates before, and undone if worse (`rates.rs`, `trials.rs`).
//!
//! The paper looks at a job from outside, by the minima of its memory; here jobs report their steps, so that the policy needs reports of
//! progress. Without them jobs take turns and migrate, and are neither packed nor grown. The utilisation by which the paper orders jobs
//! is that of the model of the run, if it has one. The paper does not give the time until a job grows, the length of a trial, nor what
//! a negligible loss by migration is: they are `idle` one quantum, at least `reports` 5 laps in up to one quantum without
//! the end of a slice, and `moves` 3 % of the time. A job resumes on the devices on which it was suspended, unless it moves, which is a restart
//! from a checkpoint.

mod explain;
mod growth;
mod moving;
mod packing;
mod place;
mod rates;
mod residents;
mod settings;
mod swaps;
mod trials;
mod turns;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use engine::{
    cluster::{Action, JobId},
    job::{Phase, Placed, State},
    policy::{Decision, Policy},
    view::{Change, View},
};
use schema::units::Nanos;

use self::{
    rates::Rates,
    residents::{Residents, is_up, waits},
    settings::Settings,
    trials::Trials,
};
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        can_suspend,
        elastic::Rounds,
        kinds::{Kind, Kinds},
        ranking::Need,
        search::{Rule, Searches, Standing},
    },
};

pub(super) const GANDIVA: Declaration = Declaration {
    name: "gandiva",
    source: "Gandiva, OSDI 2018",
    order: "priority, arrival; turns by weight",
    misfit: "shares devices in turns",
    preemption: "suspends jobs, and moves them with a checkpoint",
    packing: "by trial, where jobs take turns",
    needs: "none; reports of progress, costs of restarts, and the utilisation of jobs if it is known",
    uses: &[Uses::Suspends, Uses::Resizes],
    example: "gandiva:quantum=5s:pack=off",
    settings: settings::SETTINGS,
    build: |values| {
        let settings = Settings::read(values)?;
        each(move || Gandiva::new(settings.clone()))
    },
};

/// The turns in a row at which the start of a job is refused before it waits until another one ends.
const REFUSALS: u32 = 3;

struct Gandiva {
    settings: Settings,
    turns: Rounds,
    residents: Residents,
    /// Jobs without residence, in order of priority and arrival.
    queue: BTreeSet<(Reverse<i32>, JobId)>,
    rates: Rates,
    trials: Trials,
    kinds: Kinds,
    searches: Searches,
    /// The kinds of the jobs that have arrived and not ended.
    kind_of: BTreeMap<JobId, Kind>,
    /// Jobs of which an action was refused since the last turn. They are left out until the next one.
    refused: BTreeSet<JobId>,
    /// The turns in a row at which the start of a job was refused.
    refusals: BTreeMap<JobId, u32>,
    /// By device, since when it has no resident. `None` for others and for lost devices.
    free_since: Vec<Option<Nanos>>,
}

impl Gandiva {
    pub(super) fn new(settings: Settings) -> Gandiva {
        Gandiva {
            turns: Rounds::new(settings.quantum),
            searches: Searches::new(settings.search.clone()),
            settings,
            residents: Residents::default(),
            queue: BTreeSet::new(),
            rates: Rates::default(),
            trials: Trials::default(),
            kinds: Kinds::default(),
            kind_of: BTreeMap::new(),
            refused: BTreeSet::new(),
            refusals: BTreeMap::new(),
            free_since: Vec::new(),
        }
    }

    /// Updates what is kept of jobs after the changes of a view. Returns whether devices may have become free.
    fn refresh(&mut self, view: &View<'_>, reasons: &mut Vec<String>) -> bool {
        let mut has_left = false;
        for change in view.changes {
            match *change {
                Change::Waits(job) if !self.residents.has(job) => self.enqueue(view, job),
                Change::Ended(job) => {
                    has_left |= self.leave(view, job);
                    // It may have been in the way of the others.
                    self.refusals.clear();
                    self.queue.remove(&(Reverse(view.request(job).priority), job));
                    self.kind_of.remove(&job);
                    self.refused.remove(&job);
                    self.trials.forget(job);
                }
                Change::Settled(job) => {
                    self.refusals.remove(&job);
                }
                Change::Back(_) => self.refusals.clear(),
                Change::Lost(device) => {
                    for job in self.residents.on(device).clone() {
                        self.leave(view, job);
                        match view.job(job).placed() {
                            // It was to move there, and has not left its devices.
                            Some(Placed { devices, plan, phase, .. })
                                if !matches!(phase, Phase::Stopping | Phase::Ending) =>
                            {
                                self.residents.add(view, job, devices.clone(), *plan);
                            }
                            _ => self.enqueue(view, job),
                        }
                    }
                }
                Change::DoNotFit(one, other) => {
                    self.kinds.keep_apart(view, [one, other]);
                    if self.residents.members(one).any(|member| member == other) {
                        self.unpack(view, one.max(other));
                    }
                }
                Change::TooLarge { job, .. } => self.shrink_to_asked(view, job),
                Change::Refused(job) => self.was_refused(view, job, reasons),
                _ => {}
            }
        }
        self.drop_lone_packs();
        has_left
    }

    fn enqueue(&mut self, view: &View<'_>, job: JobId) {
        if !matches!(view.job(job).state, State::Ended { .. }) {
            let kind = self.kinds.of(view, job);
            self.kind_of.insert(job, kind);
            self.queue.insert((Reverse(view.request(job).priority), job));
        }
    }

    /// Takes a job off its devices. Returns whether it had some.
    fn leave(&mut self, view: &View<'_>, job: JobId) -> bool {
        self.residents.remove(view, job).is_some()
    }

    /// Lets a job that ran out of memory on devices that it did not ask for go back to what it asked for.
    fn shrink_to_asked(&mut self, view: &View<'_>, job: JobId) {
        let asked = view.request(job);
        self.trials.forget_move(job);
        if let Some(resident) = self.residents.get(job).filter(|of| of.devices.len() > asked.devices as usize)
        {
            let nodes = trials::nodes_of(view, &resident.devices);
            self.trials.slower.insert((job, nodes, resident.devices.len()));
            let devices = resident.devices[..asked.devices as usize].to_vec();
            self.residents.relocate(view, job, devices, asked.plan);
        }
    }

    /// Whether a job waits until another one ends, because its starts were refused at [`REFUSALS`] turns in a row.
    fn is_barred(&self, job: JobId) -> bool {
        self.refusals.get(&job).is_some_and(|refusals| *refusals >= REFUSALS)
    }

    /// A job that cannot be put beside others is not packed with such jobs again. Any other is left alone until the next turn.
    fn was_refused(&mut self, view: &View<'_>, job: JobId, reasons: &mut Vec<String>) {
        let is_packed = self.residents.members(job).count() > 1;
        if is_packed && !is_up(view, job) {
            reasons.push(format!("{} cannot run beside others", view.request(job).name));
            self.unpack(view, job);
        } else if waits(view, job) {
            *self.refusals.entry(job).or_default() += 1;
            self.shrink_to_asked(view, job);
        }
        self.refused.insert(job);
    }

    /// Gives devices to jobs in the queue.
    fn place(&mut self, view: &View<'_>, reasons: &mut Vec<String>) {
        // The needs for which no devices were found. Jobs with the same needs would find none either.
        let mut in_vain = BTreeSet::new();
        for (_, job) in self.queue.clone() {
            let asked = view.request(job);
            if !waits(view, job) {
                self.queue.remove(&(Reverse(asked.priority), job));
                continue;
            }
            let waited = match view.job(job).state {
                State::Waiting { since } => view.now - since,
                _ => Nanos::ZERO,
            };
            let relaxed = waited >= self.settings.relax;
            let (virtual_cluster, can_rest) = (&*asked.virtual_cluster, can_suspend(view, job));
            let like = (Need::of(view, job), virtual_cluster, asked.priority, can_rest, relaxed);
            if self.refused.contains(&job) || in_vain.contains(&like) {
                continue;
            }
            let candidates = self.candidates(view, job);
            let needs = asked.devices as usize;
            let has_room = candidates.iter().any(|of| self.free_on(view, of.node).count() >= needs);
            let candidates = match !has_room && self.shrink_for(view, job, &candidates, reasons) {
                true => self.candidates(view, job),
                false => candidates,
            };
            match self.find_devices(view, job, &candidates, relaxed) {
                Some(devices) => {
                    self.queue.remove(&(Reverse(asked.priority), job));
                    self.residents.add(view, job, devices, asked.plan);
                }
                None => {
                    in_vain.insert(like);
                }
            }
        }
    }

    /// The members of searches that are to end.
    fn end_members(&mut self, view: &View<'_>, reasons: &mut Vec<String>) -> BTreeSet<JobId> {
        let ended = self.searches.refresh(view);
        reasons.extend(ended.iter().map(|(_, reason)| reason.clone()));
        // A member that waits for others, or runs exclusively, is in no pack.
        let packed = self
            .residents
            .iter()
            .filter(|(job, of)| of.group != *job || self.residents.members(*job).count() > 1);
        let apart: Vec<JobId> =
            packed.map(|(job, _)| job).filter(|job| self.searches.standing(*job) != Standing::Free).collect();
        apart.into_iter().for_each(|job| self.residents.separate(job));
        self.drop_lone_packs();
        ended.into_iter().map(|(job, _)| job).collect()
    }

    /// Whether nothing happened but reports of progress that concern nothing besides rates. Most decisions of a run are of this sort.
    fn are_only_reports(&self, view: &View<'_>) -> bool {
        let is_report = |change: &Change| matches!(change, Change::Progressed(_) | Change::Believed(_));
        // A job grows when its rate becomes known.
        let grows = || self.settings.grows && self.residents.iter().any(|(job, _)| view.request(job).elastic);
        let searches = self.settings.search != Rule::default();
        !view.changes.is_empty() && view.changes.iter().all(is_report) && !searches && !grows()
    }

    fn wakes_at(&mut self, view: &View<'_>, is_turn: bool) -> Option<Nanos> {
        let goes_on = self.goes_on(view);
        [self.turns.next(is_turn, goes_on), self.next_growth(view)].into_iter().flatten().min()
    }

    /// Whether time changes what happens next: groups take turns, the rules for the placement of waiting jobs relax, or spread jobs may
    /// move once they have run for long enough.
    fn goes_on(&self, view: &View<'_>) -> bool {
        let suspended = |(job, _): (JobId, _)| !is_up(view, job) && !self.is_barred(job);
        // A job for which the devices that are left never suffice waits for a change.
        let relaxes = |(_, job): &(Reverse<i32>, JobId)| match view.job(*job).state {
            State::Waiting { since } => view.now - since < self.settings.relax,
            _ => false,
        };
        // Time changes nothing for members of searches that wait for others, nor for jobs that wait until another one ends.
        let is_blocked = |job| self.is_barred(job) || self.searches.standing(job) == Standing::Held;
        let may_run = |(job, _): (JobId, _)| is_up(view, job) || !is_blocked(job);
        let takes_turns = self.residents.iter().any(suspended) || !self.queue.is_empty();
        (takes_turns && self.residents.iter().any(may_run))
            || self.queue.iter().any(relaxes)
            || (self.queue.is_empty() && self.may_gather_later(view))
    }
}

impl Policy for Gandiva {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let mut reasons = Vec::new();
        self.residents.prepare(view);
        self.residents.count(view);
        let is_turn = self.turns.begins(view);
        let lapped = self.rates.refresh(view);
        let has_left = self.refresh(view, &mut reasons);
        if is_turn {
            self.refused.clear();
        }
        self.judge(view, &lapped, &mut reasons);
        if reasons.is_empty() && !is_turn && self.are_only_reports(view) {
            return Decision { wake_at: self.wakes_at(view, is_turn), ..Decision::default() };
        }
        self.place(view, &mut reasons);
        if self.settings.slices && self.queue.is_empty() && (has_left || is_turn) {
            self.migrate(view, is_turn, &mut reasons);
        }
        self.note_free(view);
        let is_idle = self.queue.is_empty() && self.residents.iter().all(|(job, _)| is_up(view, job));
        if self.settings.grows && is_idle {
            self.grow(view, &mut reasons);
        }
        if self.settings.packs && is_turn {
            self.begin_packs(view, &mut reasons);
        }
        let ended = self.end_members(view, &mut reasons);
        let chosen = self.choose(view, is_turn, &ended);
        let over = ended.iter().map(|job| Action::End { job: *job });
        let actions: Vec<Action> = over.chain(self.pursue(view, &chosen, &ended)).collect();
        if reasons.is_empty() && is_turn && !actions.is_empty() {
            reasons.push("turns".into());
        }
        Decision { actions, wake_at: self.wakes_at(view, is_turn), reason: reasons.join("; ") }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        explain::text(self, view, job)
    }
}
