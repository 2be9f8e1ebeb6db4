//! Synergy-TUNE: devices as jobs ask for them, and cores of the host by need (Mohan et al., OSDI 2022, section 3; the code of the
//! authors, `simulator/resources/cluster.py`), in order of arrival, as in the comparison of Rubick (arXiv 2408.08586).
//!
//! Jobs start in order of arrival, under the plan and on the number of devices that they ask for, also elastic ones. A job that does
//! not fit is passed, as in the simulator of the authors (`schedulers/fifo_synergy_new.py`), which takes every job that fits in each round.
//! With `strict=on` it holds up all jobs behind it. The demand of a job for cores is the smallest number for each rank at which its predicted
//! throughput saturates, and its share is what the cores of a node are to its devices (`synergy/demand.rs`). A job is started with
//! its demand, on the node with the fewest free devices where devices and cores suffice, or on several nodes if the placement of the
//! run allows it. If there is no such place, the job is started with its share, where that is less. If that fails for lack of cores
//! too, running jobs that hold more than their share are pushed back to it (`synergy/tune.rs`): on the nodes of the job, those on the
//! fewest nodes first, of these the ones with the most cores. No job has less than its share for the benefit of another.
//!
//! `every` is the length of a round, by default 300 s as in the paper. Differences to the paper and the code:
//!
//! * All jobs are placed anew in each round there. Here a job keeps its devices, and starts at once when it fits. Only the cores of
//!   running jobs change at the end of a round, because the cores of a launch are bound when it begins: a change is a restart from a
//!   checkpoint. A job is pushed back only if a job in the queue then starts. If no job waits, a job is given its demand, if
//!   the cores are free and the restart takes less time than the job saves by it; it is not, if the cost of the restart is not known.
//! * The demand comes from the model of the run instead of a profile of each job, and it ignores the number of cores for which the
//!   job asks. If the model does not know the job with any number of cores, its demand is what it asks for. If the model does not
//!   know it with its share, the job waits for its demand.
//! * The memory of the host is left out, because models know no times that depend on it. So are network and storage, which the code
//!   carries along.
//! * A job that takes no checkpoint is never pushed back.
//!
//! If cores are not counted, this is FIFO with backfill, or with `strict=on` FIFO.

mod demand;
mod tune;

use engine::{
    cluster::{Action, JobId},
    job::Placed,
    occupancy::Draft,
    policy::{Decision, Policy},
    topology::DeviceId,
    view::View,
};
use schema::units::Nanos;

use self::demand::Demands;
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Roster, Standing},
        in_order::every,
        jobs_named,
        moves::Moves,
        queue::{Misfit, Queue},
        settings::{Kind, Setting},
    },
};

pub(super) const SYNERGY: Declaration = Declaration {
    name: "synergy",
    source: "Synergy, OSDI 2022",
    order: "arrival",
    misfit: "is passed",
    preemption: "restarts jobs with other cores, with a checkpoint",
    packing: "no",
    needs: "times of steps alone by cores",
    uses: &[Uses::Cores],
    example: "synergy:every=1h",
    settings: &[
        every("300s"),
        Setting::new(
            "strict",
            Kind::ON_OFF,
            "off",
            "whether a job that does not fit holds up all jobs behind it; otherwise it is passed, as in the simulator of the authors",
        ),
    ],
    build: |values| {
        let every = values.time("every");
        let misfit = if values.is_on("strict") { Misfit::Blocks } else { Misfit::IsPassed };
        each(move || Synergy::new(every, misfit))
    },
};

struct Synergy {
    every: Nanos,
    misfit: Misfit,
    queue: Queue<()>,
    roster: Roster,
    demands: Demands,
    /// The jobs whose cores change.
    moves: Moves,
    /// The end of the round, if the cores of some job may change then.
    round_ends: Option<Nanos>,
}

impl Synergy {
    fn new(every: Nanos, misfit: Misfit) -> Synergy {
        Synergy {
            every,
            misfit,
            queue: Queue::new(misfit),
            roster: Roster::default(),
            demands: Demands::default(),
            moves: Moves::default(),
            round_ends: None,
        }
    }

    /// Starts jobs in order, as far as they fit. At the end of a round, others are pushed back for them.
    fn start(&mut self, view: &View<'_>, draft: &mut Draft<'_>, is_round: bool) -> (Vec<Action>, String) {
        let (mut actions, mut started, mut pushed) = (Vec::new(), Vec::new(), Vec::new());
        for job in self.queue.in_order() {
            if !draft.fits_with(1, None, None) {
                break;
            }
            let mut found = self.place(view, draft, job);
            if found.is_none() && is_round {
                found = self.push_back(view, draft, job, &mut actions, &mut pushed);
            }
            let Some((devices, cpus)) = found else {
                // A job that needs more devices than are present holds up no other.
                if self.misfit == Misfit::Blocks && self.queue.head(view) == Some(job) {
                    break;
                }
                continue;
            };
            actions.push(Action::Start { job, devices, cpus, plan: view.request(job).plan });
            started.push(job);
            self.queue.took(job);
        }
        let mut reason = match *started {
            [] => String::new(),
            _ => format!("next in the queue: {}", jobs_named(view, &started)),
        };
        if !pushed.is_empty() {
            reason += &format!(", with cores that {} held above the share", jobs_named(view, &pushed));
        }
        (actions, reason)
    }

    /// Takes devices for a job, with its demand or else with its share. Returns them with the cores for each rank.
    fn place(
        &mut self,
        view: &View<'_>,
        draft: &mut Draft<'_>,
        job: JobId,
    ) -> Option<(Vec<DeviceId>, Option<u16>)> {
        let count = view.request(job).devices;
        let demands = self.demands.of(view, job);
        let full = demands.iter().map(|(pool, demand)| (*pool, demand.full));
        let share = demands.iter().map(|(pool, demand)| (*pool, demand.share));
        full.chain(share).find_map(|(pool, cpus)| Some((draft.take_with(count, Some(pool), cpus)?, cpus)))
    }

    /// The running jobs that may be stopped, in order of arrival, with their placements.
    fn running<'a>(&self, view: &'a View<'a>) -> Vec<(JobId, &'a Placed)> {
        let jobs = self.roster.jobs(view, &self.moves);
        let runs = jobs.filter(|(_, standing)| matches!(standing, Standing::Runs(_)));
        runs.filter_map(|(job, _)| Some((job, view.job(job).placed()?))).collect()
    }
}

impl Policy for Synergy {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if !view.occupancy.counts_cpus() {
            let why = match self.misfit {
                Misfit::Blocks => "first in the queue",
                Misfit::IsPassed => "first in the queue that fits",
            };
            return self.queue.decide(view, |_| (), why);
        }
        self.demands.refresh(view);
        self.roster.refresh(view);
        let mut actions = self.moves.refresh(view);
        self.queue.refresh(view, |_| ());
        // A job that changes its cores waits for a moment, but not in the queue.
        self.moves.under_way().for_each(|(job, _)| self.queue.took(job));
        let mut draft = view.draft();
        self.moves.hold(&mut draft);
        let is_round = self.round_ends.is_some_and(|at| at <= view.now);
        let (started, mut reason) = self.start(view, &mut draft, is_round);
        actions.extend(started);
        let waits = self.queue.head(view).is_some();
        if is_round && !waits {
            let raised = self.raise(view, &mut draft);
            if !raised.is_empty() {
                let jobs: Vec<JobId> = raised.iter().map(Action::job).collect();
                let separator = if reason.is_empty() { "" } else { "; " };
                reason += &format!("{separator}more cores for {}", jobs_named(view, &jobs));
            }
            actions.extend(raised);
        }
        self.round_ends = match self.may_change(view, waits) {
            true if is_round || self.round_ends.is_none() => {
                Some(Nanos((view.now.0 / self.every.0 + 1) * self.every.0))
            }
            true => self.round_ends,
            false => None,
        };
        Decision { actions, wake_at: self.round_ends, reason }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let mut parts = vec![self.queue.explain(view, job, "arrival")];
        parts.extend(self.demands.explain(view, job));
        parts.retain(|part| !part.is_empty());
        parts.join("; ")
    }
}
