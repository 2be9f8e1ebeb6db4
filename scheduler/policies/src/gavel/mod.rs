//! Gavel (Narayanan et al., OSDI 2020), for devices of several types.
//!
//! An allocation says for which fraction of the time each job is to have devices of each type. It is the solution of a linear program
//! (`program.rs`, `allocation.rs`) in which no job runs for more than all of the time and no type gives out more devices than there
//! are. With space sharing, a pair of jobs with as many devices is a unit of its own that counts against both jobs. There is a new
//! allocation when jobs have come or gone, or when devices have. In rounds (section 5), the units with the largest priority have
//! leases first: the priority is the fraction of time of a unit over the fraction that it has received since the last allocation
//! (`priority.rs`). A job whose lease is of the same type as before stays where it is (`../leases.rs`).
//!
//! The parameters are the objective, `space-sharing`, and the length of a round, `every`, by default 360 s as in the paper:
//!
//! * `max-min` (section 4.1): the smallest throughput of a job, over its mean over the types, weighted by their numbers of devices, and
//!   times its devices. This is the least attained service of Gavel.
//! * `max-throughput` (section 4.2): the sum of throughputs over the same means. The paper adds up steps, which are not comparable
//!   between workloads.
//! * `finish-time` (section 4.2; Themis, NSDI 2020): the largest ratio of the time from the arrival of a job to its end to that on an
//!   isolated share, 1/n of each type for n jobs. The steps that the job has done so far count at the shares that it would
//!   have had then, as in the artifact (stanford-futuredata/gavel, `policies/finish_time_fairness.py`). The artifact has a convex
//!   solver; here a few linear programs find the same optimum.
//!
//! The program of the paper is over the fraction of each unit, and has optima that no rounds give, because it does not know which units
//! fit beside each other at an instant. Up to `FEW_JOBS` jobs, the program is therefore over whole sets of units that fit
//! (`configurations.rs`), and a round has the set to which most time is owed (`heaviest.rs`). What jobs receive is then within 1 % of
//! the optimum in the long run, also in pairs and with different numbers of devices (`tests/it/gavel.rs`). With more jobs, the program and
//! the rounds are those of the paper.
//!
//! Deviations: among several allocations with the same smallest throughput or largest ratio, the one with the largest sum is taken.
//! A linear program has such allocations at its corners, and the interior-point solver of the artifact has none of these. What a unit has
//! not received of one allocation it is owed in the next, one round at most; the artifact starts anew but for ties. Devices that are
//! left when all units of the allocation were considered go to jobs that wait, those that are fastest there first. Weights of jobs are
//! left out: column `priority` is a rank with 0 as its default, and no share of anything. Throughputs are those of the model of the
//! run, and the matrix completion for jobs that were not profiled is left out; a job of which no time is known has one step in a
//! second, as in the artifact. Pairs that the model does not know together do not share, nor do jobs that take no checkpoint. Jobs
//! have the plan and the number of devices that they ask for.

mod allocation;
mod configurations;
mod heaviest;
mod priority;
mod program;
mod settings;
mod speeds;

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    cluster::{Action, JobId},
    job::State,
    occupancy::PoolId,
    policy::{Decision, Policy},
    view::View,
};
use schema::units::Nanos;

use self::{
    allocation::{Allocation, Among, Isolated},
    heaviest::{Candidate, heaviest},
    priority::Accounts,
    settings::Settings,
    speeds::Speeds,
};
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::Rounds,
        jobs_named,
        leases::{Lease, Leases},
    },
};

pub(super) const GAVEL: Declaration = Declaration {
    name: "gavel",
    source: "Gavel, OSDI 2020",
    order: "time owed by a linear program",
    misfit: "is passed",
    preemption: "stops and moves jobs, with a checkpoint",
    packing: "with space-sharing=on, two jobs",
    needs: "times of steps alone by type, and together",
    uses: &[Uses::Stops, Uses::Rounds, Uses::DeviceTypes],
    example: "gavel:objective=finish-time:space-sharing=on",
    settings: settings::SETTINGS,
    build: |values| {
        let settings = Settings::read(values);
        each(move || Gavel::new(settings))
    },
};

/// The most jobs for which a program is over configurations and the leases of a round are a best set. The search for configurations takes
/// many times as long as the program of the paper.
const FEW_JOBS: usize = 24;

struct Gavel {
    settings: Settings,
    rounds: Rounds,
    leases: Leases,
    speeds: Speeds,
    isolated: Isolated,
    among: Among,
    allocation: Allocation,
    accounts: Accounts,
    /// Whether the next round needs another allocation although the same jobs and devices are there.
    is_outdated: bool,
}

impl Gavel {
    pub(super) fn new(settings: Settings) -> Gavel {
        Gavel {
            settings,
            rounds: Rounds::new(settings.every),
            leases: Leases::default(),
            speeds: Speeds::default(),
            isolated: Isolated::default(),
            among: Among::default(),
            allocation: Allocation::default(),
            accounts: Accounts::new(settings.every),
            is_outdated: false,
        }
    }

    fn round(&mut self, view: &View<'_>) -> (Vec<Action>, String) {
        self.accounts.receive(view.now);
        let among = among(view, &self.leases.jobs(view));
        let mut reasons = Vec::new();
        if among != self.among || self.is_outdated {
            self.is_outdated = false;
            self.allocation =
                Allocation::new(view, &self.settings, &among, &mut self.speeds, &mut self.isolated);
            self.accounts.begin(view.now, &self.allocation.fractions);
            let why = self.allocation.failure.as_ref().map(|why| format!("; isolated shares, because {why}"));
            reasons.push(format!(
                "a new allocation for {} jobs{}",
                among.jobs.len(),
                why.unwrap_or_default()
            ));
            self.among = among;
        }
        let open = self.leases.open_to(view);
        let wishes = self.wishes(view, &open);
        let (granted, actions) = self.leases.grant(view, &open, &wishes);
        let is_there: BTreeSet<JobId> = self.leases.jobs(view).into_iter().collect();
        let stays = |lease: &&Lease| {
            lease.jobs().all(|job| is_there.contains(&job)) && lease.jobs().any(|job| !open.contains(&job))
        };
        let kept = self.accounts.held().iter().filter(stays);
        let held: BTreeSet<Lease> = granted.into_iter().chain(kept.copied()).collect();
        self.accounts.hold(held);
        let jobs: BTreeSet<JobId> = actions.iter().map(Action::job).collect();
        let jobs: Vec<JobId> = jobs.into_iter().collect();
        if !jobs.is_empty() {
            reasons.push(format!("leases of {} change", jobs_named(view, &jobs)));
        }
        (actions, reasons.join("; "))
    }

    /// The leases in the order in which they are granted: by priority, and then leases for the devices that are left.
    fn wishes(&self, view: &View<'_>, open: &BTreeSet<JobId>) -> Vec<Lease> {
        let order = self.accounts.in_order(view.now);
        let mut wishes: Vec<Lease> = order.iter().map(|(lease, _)| *lease).collect();
        let owed: Vec<(Lease, f64)> =
            order.into_iter().filter(|(lease, _)| lease.jobs().all(|job| open.contains(&job))).collect();
        if self.among.jobs.len() <= FEW_JOBS {
            let first = most_owed(view, &self.leases.free_by_pool(view, open), &owed);
            // The order within both parts is still that of priorities.
            wishes.sort_by_key(|lease| !first.contains(lease));
        }
        let stays = |lease: &Lease| {
            let placed = view.job(lease.job).placed();
            placed.is_some_and(|placed| view.occupancy.pool_of(placed.devices[0]) == lease.pool)
        };
        let waiting = self.allocation.possible.iter().filter(|(lease, _)| open.contains(&lease.job));
        let mut left: Vec<(bool, f64, Lease)> =
            waiting.map(|(lease, speed)| (!stays(lease), *speed, *lease)).collect();
        left.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
        wishes.extend(left.into_iter().map(|(.., lease)| lease));
        wishes
    }
}

/// The leases that fit beside each other to which most time is owed together, of leases in order of priority. Their choice in every
/// round keeps the time that is owed bounded, if any choice does (Tassiulas and Ephremides, IEEE Transactions on Automatic Control 1992).
/// Leases that are granted one after the other, as in the paper, may leave devices over that no other lease can use. Empty if the solver
/// fails, so that leases are granted by priority alone.
fn most_owed(view: &View<'_>, room: &BTreeMap<PoolId, u32>, owed: &[(Lease, f64)]) -> BTreeSet<Lease> {
    let pools: Vec<PoolId> = room.keys().copied().collect();
    let devices: Vec<f64> = room.values().map(|devices| f64::from(*devices)).collect();
    // Of sets to which as much is owed, that with the larger priorities is a little heavier.
    let most_s = owed.iter().map(|(_, owed_s)| *owed_s).fold(0.0, f64::max);
    let first_s = |place: usize| 1e-4 * most_s * (1.0 - place as f64 / owed.len() as f64);
    let candidate = |(place, &(lease, owed_s)): (usize, &(Lease, f64))| {
        let pool = pools.binary_search(&lease.pool).ok().filter(|_| owed_s > 0.0)?;
        let jobs = lease.jobs().map(|job| job.0 as usize).collect();
        let devices = f64::from(view.request(lease.job).devices);
        Some((lease, Candidate { jobs, pool, devices, weight: owed_s + first_s(place) }))
    };
    let (leases, candidates): (Vec<Lease>, Vec<Candidate>) =
        owed.iter().enumerate().filter_map(candidate).unzip();
    let chosen = heaviest(&candidates, &devices).unwrap_or_default();
    chosen.into_iter().map(|place| leases[place]).collect()
}

/// The jobs that have arrived, but for those that keep their devices until they end, and the devices that these leave.
fn among(view: &View<'_>, jobs: &[JobId]) -> Among {
    let pools: Vec<_> = view.pools().collect();
    let mut devices: Vec<u32> = pools.iter().map(|pool| view.occupancy.present_in(*pool)).collect();
    let mut kept = Vec::new();
    for &job in jobs {
        let placed = view.job(job).placed().filter(|placed| !placed.phase.has_left());
        match placed.filter(|_| view.request(job).takes_no_checkpoint.is_some()) {
            None => kept.push(job),
            Some(placed) => {
                let pool = view.occupancy.pool_of(placed.devices[0]);
                let own = placed.devices.iter().filter(|device| !view.occupancy.is_lost(**device)).count();
                if let Some(place) = pools.iter().position(|other| *other == pool) {
                    devices[place] = devices[place].saturating_sub(own as u32);
                }
            }
        }
    }
    Among { jobs: kept, pools, devices }
}

impl Policy for Gavel {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let mut actions = self.leases.refresh(view);
        self.is_outdated |= self.speeds.refresh(view);
        let is_round = self.rounds.begins(view);
        let mut reason = String::new();
        if is_round {
            let (new, why) = self.round(view);
            actions.extend(new);
            reason = why;
        }
        let goes_on = !actions.is_empty() || self.leases.any_placed(view);
        Decision { actions, wake_at: self.rounds.next(is_round, goes_on), reason }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let of_job: Vec<String> = self
            .accounts
            .of(job)
            .map(|(lease, account)| {
                let node = view.occupancy.nodes_in(lease.pool).next();
                let of = node.map_or("", |node| &view.topology.nodes()[node.0 as usize].device_type);
                let other = lease.jobs().find(|other| *other != job);
                let beside =
                    other.map_or(String::new(), |other| format!(" beside {}", view.request(other).name));
                let received = Nanos::from_secs_f64(account.received_s);
                format!(
                    "{:.1} % of the time on {of}{beside}, of which it has received {received}",
                    account.fraction * 100.0
                )
            })
            .collect();
        let text = match (&of_job[..], &view.job(job).state) {
            (_, State::Ended { .. }) => return String::new(),
            ([], _) => "the allocation has no time for it".to_owned(),
            (of_job, _) => {
                format!("the allocation since {} has {}", self.accounts.since(), of_job.join(" and "))
            }
        };
        let lease = self.accounts.held().iter().any(|lease| lease.jobs().any(|other| other == job));
        format!("{text}; it has {} lease in this round", if lease { "a" } else { "no" })
    }
}
