//! Rubick: the plan and the resources of each job are chosen together, and chosen again while it runs (Zhang et al., arXiv
//! 2408.08586, section 5; artifact AlibabaPAI/reconfigurable-dl-scheduler).
//!
//! * A job is a workload with a global batch. Its plan, devices and cores are the policy's to choose if it is elastic.
//! * `guaranteed` jobs are never to run slower than under the plan and with the resources that they ask for. The least that
//!   gives them this speed is their minimum: the lowest level of their curve that reaches it, with no more devices than they ask
//!   for (`contender.rs`). `best-effort` jobs may have nothing.
//! * A round (`round.rs`) first gives guaranteed jobs their minimum, in order of arrival, at the cost of others above theirs. Nodes are
//!   kept for a guaranteed job that has waited for `bound` (`reserve.rs`), which the paper does not describe. Then best-effort jobs that
//!   wait are started, in order of arrival: if it pays, or else at the cost of others above what they ask for. Then devices go to the jobs whose curves rise most for each, free
//!   ones first, then from the jobs that lose least, as long as an exchange pays: the speed gained, over the remaining time of the
//!   job that gains, is more than the work lost by the restarts. For a job alone this is Rubick's condition: remaining steps times
//!   the gain of each exceed the time of a restart. Speeds are relative to what a job asks for, so that those of different
//!   workloads compare.
//! * Of the nodes that have the devices, or whose jobs give them up, that with the least loss is taken (`floor.rs`), where the
//!   paper goes through the nodes by their free devices. A job has part of one node, or whole nodes.
//! * Cores follow the devices (`cores.rs`): they matter only to a plan that offloads the optimizer.
//! * `restarts=3%` bounds the part of the time since its first start that a job may lose by restarts, with the next one. There is no bound
//!   by default, because no publication confirms one. The guarantee and the start of another job go before this bound.
//! * Rounds are held when jobs arrive, end or settle, and at least `every` 60 s while jobs run.
//! * `only=plans` (the devices that a job asks for), `only=resources` (its plan, with another degree of data parallelism) and
//!   `only=nothing` are the paper's ablations Rubick-E, -R and -N, as far as their names explain them.
//!
//! Beyond the paper, `risk=Q` decides by a quantile of the predicted times, and not by their median, and `pack=on` starts jobs that
//! wait beside others whose interference is known (`guests.rs`).
//!
//! What the artifact does and the paper does not describe is off: `slack=1.5` (a guarantee counts as kept at two thirds of the
//! speed), `most-restarts=5`, `shield=200000s` (older jobs are not reconfigured), and `reclaim=off` (a defect of its released
//! round, which never takes devices from one job for another).

mod contender;
mod cores;
mod explain;
mod floor;
mod guests;
mod reserve;
mod round;
mod settings;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{
    cluster::{Action, JobId},
    policy::{Decision, Policy},
    view::{Change, View},
};
use schema::units::Nanos;

use self::{contender::Contender, explain::Told, floor::Floor, guests::Guests, settings::Settings};
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Available, Curves, Point, Roster, Standing, Target, pursue},
        jobs_named,
        moves::Moves,
    },
};

pub(super) const RUBICK: Declaration = Declaration {
    name: "rubick",
    source: "arXiv 2408.08586",
    order: "guarantees, then steepest curves",
    misfit: "is passed",
    preemption: "reconfigures and stops jobs where it pays",
    packing: "no",
    needs: "times of steps under all plans, costs of restarts",
    uses: &[Uses::Resizes],
    example: "rubick:risk=0.9:restarts=5%",
    settings: settings::SETTINGS,
    build: |values| {
        let settings = Settings::read(values);
        each(move || Rubick::new(settings.clone()))
    },
};

struct Rubick {
    settings: Settings,
    roster: Roster,
    curves: Curves,
    moves: Moves,
    guests: Guests,
    next_round: Nanos,
    /// The last exchange of each job.
    told: HashMap<JobId, Told>,
}

impl Rubick {
    pub(super) fn new(settings: Settings) -> Rubick {
        Rubick {
            settings,
            roster: Roster::default(),
            curves: Curves::default(),
            moves: Moves::default(),
            guests: Guests::default(),
            next_round: Nanos::ZERO,
            told: HashMap::new(),
        }
    }

    /// Holds a round, and returns its actions.
    fn round(&mut self, view: &View<'_>) -> Vec<Action> {
        let mut jobs = Vec::new();
        for (job, standing) in self.roster.jobs(view, &self.moves) {
            if matches!(standing, Standing::Waits | Standing::Runs(_)) {
                let curve = self.curves.of(view, job, &self.settings.freedom);
                jobs.push(Contender::new(view, job, standing, curve, &self.settings));
            }
        }
        let room = (self.roster.room(view, &self.moves), self.roster.cpus(view, &self.moves));
        let mut floor = Floor::new(view, jobs, room, self.settings.reclaims);
        let made = round::divide(&mut floor);
        explain::tell_reserved(view, &floor, &mut self.told);
        for (claim, exchange) in &made {
            explain::tell(view, &floor, *claim, exchange, &mut self.told);
        }
        let mut targets = self.targets(view, &floor);
        self.place_others(view, &floor, &mut targets);
        // A host with a guest goes on until the guest has left.
        let changes = |(job, target): &(&JobId, &Option<Target>)| {
            let placed = view.job(**job).placed();
            placed.is_some_and(|placed| target.as_ref().is_none_or(|target| !target.is_of(view, placed)))
        };
        let changed: Vec<JobId> = targets.iter().filter(changes).map(|(job, _)| *job).collect();
        let leaving = self.guests.of(&changed);
        let hosts: Vec<JobId> = leaving.iter().filter_map(|guest| self.guests.host_of(*guest)).collect();
        targets.retain(|job, _| !hosts.contains(job));
        let mut actions: Vec<Action> =
            leaving.into_iter().map(|job| Action::Stop { job, checkpoint: true }).collect();
        actions.extend(pursue(view, &mut self.moves, &targets));
        if self.settings.packs {
            actions.extend(self.guests.invite(view, &floor, (&actions, &self.moves)));
        }
        actions
    }

    /// Starts waiting jobs on devices that the round does not consider: on more nodes than a job needs, if jobs are spread, and on
    /// nodes other than those of the round, if these have too few cores.
    fn place_others(&self, view: &View<'_>, floor: &Floor, targets: &mut BTreeMap<JobId, Option<Target>>) {
        let mut available = Available::new(view, &self.roster, &self.moves);
        for target in targets.values().flatten() {
            available.take(&target.nodes, target.cpus);
        }
        let mut lacking = BTreeSet::new();
        for (place, job) in floor.jobs.iter().enumerate().filter(|(_, job)| job.before.is_none()) {
            if targets.get(&job.job).is_some_and(Option::is_some) || available.of_pool(job.curve.pool) == 0 {
                continue;
            }
            let at = job.least.unwrap_or(0);
            let level = &job.curve.levels[at];
            let Point { cpus, plan, .. } = level.points[0];
            let need = (job.curve.pool, level.devices, cpus);
            if lacking.contains(&need) {
                continue;
            }
            match available.find(job.curve.pool, level.devices, cpus) {
                Some(nodes)
                    if nodes
                        .iter()
                        .any(|(node, _)| floor.is_kept_from((place, at), *node, level.devices)) =>
                {
                    available.give_back(&nodes, cpus);
                    lacking.insert(need);
                }
                Some(nodes) => drop(targets.insert(job.job, Some(Target { nodes, plan, cpus }))),
                None => drop(lacking.insert(need)),
            }
        }
    }

    /// Where and how the jobs of a round are to run.
    fn targets(&self, view: &View<'_>, floor: &Floor) -> BTreeMap<JobId, Option<Target>> {
        let points = cores::points(view, &self.roster.cpus(view, &self.moves), floor);
        let target = |(place, job): (usize, &Contender)| {
            let target = job.has.as_ref().and_then(|has| match points.get(&place) {
                Some(None) => None,
                Some(Some(point)) => {
                    Some(Target { nodes: has.nodes.clone(), plan: point.plan, cpus: point.cpus })
                }
                None => view.job(job.job).placed().map(|placed| Target::of(view, placed)),
            });
            (job.job, target)
        };
        floor.jobs.iter().enumerate().map(target).collect()
    }
}

impl Policy for Rubick {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let mut actions = self.moves.refresh(view);
        self.roster.refresh(view);
        self.curves.refresh(view);
        self.guests.refresh(view);
        self.roster.guests = self.guests.jobs();
        for change in view.changes {
            if let Change::Ended(job) = change {
                self.told.remove(job);
            }
        }
        let is_news = |change: &Change| !matches!(change, Change::Progressed(_) | Change::Placed(_));
        let mut reason = String::new();
        if view.changes.iter().any(is_news) || view.now >= self.next_round {
            self.next_round = view.now + self.settings.every;
            let of_round = self.round(view);
            reason = reason_for(view, &of_round, &self.moves);
            actions.extend(of_round);
        }
        // If nothing runs, time changes nothing.
        let mut standings = self.roster.jobs(view, &self.moves);
        let is_busy = !actions.is_empty() || standings.any(|(_, standing)| standing != Standing::Waits);
        Decision { actions, wake_at: is_busy.then_some(self.next_round), reason }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        explain::text(view, job, self.curves.known(job).as_deref(), self.told.get(&job), &self.settings)
    }
}

/// What the actions of a round do, for readers of the journal.
fn reason_for(view: &View<'_>, actions: &[Action], moves: &Moves) -> String {
    let (mut started, mut moved, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for action in actions {
        match *action {
            Action::Start { job, .. } => started.push(job),
            Action::Stop { job, .. } if moves.has(job) => moved.push(job),
            Action::Stop { job, .. } => stopped.push(job),
            _ => {}
        }
    }
    let all = [("start", started), ("reconfigure", moved), ("stop", stopped)];
    let parts = all.iter().filter(|(_, jobs)| !jobs.is_empty());
    parts.map(|(what, jobs)| format!("{what} {}", jobs_named(view, jobs))).collect::<Vec<_>>().join(", ")
}
