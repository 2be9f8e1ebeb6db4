//! The allocation: for which fraction of the time each job, or pair of jobs, is to have devices of each type.

use std::collections::BTreeMap;

use engine::{cluster::JobId, occupancy::PoolId, view::View};

use super::{
    program::{Finish, Program, Unit},
    settings::{Objective, Settings},
    speeds::Speeds,
};
use crate::kit::elastic::steps_left;
use crate::kit::leases::Lease;

/// Fractions are multiples of this.
const LEAST: f64 = 1e-6;
/// The most pairs of jobs in pools that are given to the solver, so that a decision with many jobs does not take minutes. Those that
/// gain least are left out.
const MOST_PAIRS: usize = 3_000;

/// The jobs and the devices that an allocation is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Among {
    pub(super) jobs: Vec<JobId>,
    pub(super) pools: Vec<PoolId>,
    /// The number of devices of each pool.
    pub(super) devices: Vec<u32>,
}

/// Fractions of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Allocation {
    /// Those above zero.
    pub(super) fractions: BTreeMap<Lease, f64>,
    /// What jobs may have besides, where devices are left: their throughput there over the mean of all pools.
    pub(super) possible: BTreeMap<Lease, f64>,
    /// Why the fractions are those of isolated shares.
    pub(super) failure: Option<String>,
}

/// For finish-time fairness: the time that the steps that a job has done would have taken on its isolated shares.
#[derive(Debug, Default)]
pub(super) struct Isolated {
    jobs: BTreeMap<JobId, IsolatedTime>,
}

#[derive(Clone, Copy, Debug)]
struct IsolatedTime {
    /// Up to the last allocation.
    until_then_s: f64,
    /// The steps that were left then.
    left: f64,
    steps_per_s: f64,
}

/// A job of a program.
struct Contender {
    job: JobId,
    devices: u32,
    /// The steps in a second in each pool, alone.
    alone: Vec<f64>,
    /// Their mean over pools, weighted by the devices of the pools.
    mean: f64,
    /// The steps in a second on an isolated share.
    isolated: f64,
    /// The steps in a second where the job runs now.
    now: f64,
}

impl Allocation {
    pub(super) fn new(
        view: &View<'_>,
        settings: &Settings,
        among: &Among,
        speeds: &mut Speeds,
        isolated: &mut Isolated,
    ) -> Allocation {
        let contenders = among.jobs.iter().map(|job| Contender::new(view, *job, among, speeds));
        // A job whose devices are all lost gets nothing, and would be the one that is worst off.
        let contenders: Vec<Contender> = contenders.filter(|contender| contender.mean > 0.0).collect();
        let (leases, program) = program(view, settings, among, &contenders, speeds);
        let own = |contender: &Contender| f64::from(contender.devices);
        let solved = match settings.objective {
            Objective::MaxMin => {
                let needs: Vec<f64> = contenders.iter().map(|contender| 1.0 / own(contender)).collect();
                program.max_min(&needs)
            }
            Objective::MaxThroughput => program.max_sum(&vec![1.0; contenders.len()]),
            Objective::FinishTime => {
                let finishes: Vec<Finish> =
                    contenders.iter().map(|contender| isolated.finish(view, contender)).collect();
                let shares: Vec<f64> =
                    contenders.iter().map(|contender| contender.isolated / contender.mean).collect();
                isolated.jobs.retain(|job, _| among.jobs.contains(job));
                program.min_max_rho(&finishes, &shares)
            }
        };
        let (fractions, failure) = match solved {
            Ok((_, fractions)) => (fractions, None),
            Err(why) => (isolated_shares(among, &leases, &program), Some(why)),
        };
        // Without errors in the arithmetic of the solver, jobs that are alike have the same.
        let whole = |fraction: &f64| (fraction / LEAST).round() * LEAST;
        let fractions: Vec<f64> = fractions.iter().map(whole).collect();
        let all = || leases.iter().copied().zip(&fractions).zip(&program.units);
        let given = all().filter(|((_, fraction), _)| **fraction > 0.0);
        let left = all().filter(|((lease, fraction), _)| **fraction <= 0.0 && lease.beside.is_none());
        Allocation {
            fractions: given.map(|((lease, fraction), _)| (lease, *fraction)).collect(),
            possible: left.map(|((lease, _), unit)| (lease, unit.speeds[0].1)).collect(),
            failure,
        }
    }
}

impl Contender {
    fn new(view: &View<'_>, job: JobId, among: &Among, speeds: &mut Speeds) -> Contender {
        let alone = speeds.alone(view, job, &among.pools);
        let devices = view.request(job).devices;
        let shares: Vec<f64> = among.devices.iter().map(|devices| f64::from(*devices)).collect();
        let all: f64 = shares.iter().sum();
        let sum: f64 = alone.iter().zip(&shares).map(|(speed, devices)| speed * devices).sum();
        let mean = sum / all;
        // The share of each job is one part of each pool in as many as there are jobs.
        let fraction_of_all = all / (among.jobs.len() as f64 * f64::from(devices));
        let now = present_speed(view, job, speeds);
        Contender { job, devices, alone, mean, isolated: mean * fraction_of_all.min(1.0), now }
    }
}

/// The program for these jobs, in whose throughputs 1 is the mean of a job over all pools, and the lease of each unit.
fn program(
    view: &View<'_>,
    settings: &Settings,
    among: &Among,
    contenders: &[Contender],
    speeds: &mut Speeds,
) -> (Vec<Lease>, Program) {
    let mut units = Vec::new();
    let is_there = |pool: &usize| among.devices[*pool] > 0;
    for (number, contender) in contenders.iter().enumerate() {
        for pool in (0..among.pools.len()).filter(is_there).filter(|pool| contender.alone[*pool] > 0.0) {
            let speed = contender.alone[pool] / contender.mean;
            let lease = Lease { job: contender.job, beside: None, pool: among.pools[pool] };
            let devices = f64::from(contender.devices);
            units.push((lease, Unit { pool, devices, speeds: vec![(number, speed)] }));
        }
    }
    if settings.shares && view.jobs_per_device >= 2 {
        units.extend(pairs(view, among, contenders, speeds));
    }
    let (leases, units) = units.into_iter().unzip();
    let devices = among.devices.iter().map(|devices| f64::from(*devices)).collect();
    (leases, Program { jobs: contenders.len(), devices, units })
}

/// The pairs of jobs with as many devices that are faster together than in turns. Two that are not gain nothing in any program: each
/// can have a part of the time alone instead, and is as fast.
fn pairs(
    view: &View<'_>,
    among: &Among,
    contenders: &[Contender],
    speeds: &mut Speeds,
) -> Vec<(Lease, Unit)> {
    let takes_checkpoints =
        |contender: &&Contender| view.request(contender.job).takes_no_checkpoint.is_none();
    let of: Vec<(usize, &Contender)> =
        contenders.iter().enumerate().filter(|(_, contender)| takes_checkpoints(contender)).collect();
    let mut found: Vec<(f64, Lease, Unit)> = Vec::new();
    for (place, (first, one)) in of.iter().enumerate() {
        for (second, other) in of[place + 1..].iter().filter(|(_, other)| other.devices == one.devices) {
            for pool in (0..among.pools.len()).filter(|pool| among.devices[*pool] > 0) {
                let alone = [one.alone[pool], other.alone[pool]];
                if alone.contains(&0.0) {
                    continue;
                }
                let Some(together) = speeds.together(view, [one.job, other.job], among.pools[pool]) else {
                    continue;
                };
                let sum = together[0] / alone[0] + together[1] / alone[1];
                if sum > 1.0 {
                    let lease = Lease { job: one.job, beside: Some(other.job), pool: among.pools[pool] };
                    let speeds = vec![(*first, together[0] / one.mean), (*second, together[1] / other.mean)];
                    found.push((sum, lease, Unit { pool, devices: f64::from(one.devices), speeds }));
                }
            }
        }
    }
    found.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    found.truncate(MOST_PAIRS);
    found.into_iter().map(|(_, lease, unit)| (lease, unit)).collect()
}

/// The fraction of each unit if every job has one part of each pool, in as many as there are jobs.
fn isolated_shares(among: &Among, leases: &[Lease], program: &Program) -> Vec<f64> {
    let jobs = among.jobs.len() as f64;
    let all: f64 = program.devices.iter().sum();
    let fraction = |(lease, unit): (&Lease, &Unit)| match lease.beside {
        Some(_) => 0.0,
        None => program.devices[unit.pool] / (jobs * unit.devices) / (all / (jobs * unit.devices)).max(1.0),
    };
    leases.iter().zip(&program.units).map(fraction).collect()
}

impl Isolated {
    /// The times of a job by which its finish-time fairness is judged, at an allocation.
    fn finish(&mut self, view: &View<'_>, contender: &Contender) -> Finish {
        let job = contender.job;
        let left = match steps_left(view, job, contender.now) {
            left if left.is_finite() => left,
            // A job that runs until it ends is judged by its throughput alone.
            _ => contender.mean * 1e9,
        };
        let before = self.jobs.get(&job).copied();
        let done = before
            .map_or(0.0, |before| before.until_then_s + (before.left - left).max(0.0) / before.steps_per_s);
        let now = IsolatedTime { until_then_s: done, left, steps_per_s: contender.isolated };
        self.jobs.insert(job, now);
        Finish {
            age: (view.now - view.request(job).arrival).as_secs_f64(),
            left: left / contender.mean,
            isolated: done + left / contender.isolated,
        }
    }
}

/// The steps in a second of a job on its present devices: as it reports them, or else as the model predicts them. 0 if the job does
/// not run.
fn present_speed(view: &View<'_>, job: JobId, speeds: &mut Speeds) -> f64 {
    let Some(placed) = view.job(job).placed() else { return 0.0 };
    if let Some(measured) = view.job(job).measured {
        return 1e9 / measured.step_ns;
    }
    let (first, pool) = (placed.devices[0], view.occupancy.pool_of(placed.devices[0]));
    match view.occupancy.kept_by(first).iter().find(|other| **other != job) {
        Some(other) => speeds.together(view, [job, *other], pool).map_or(0.0, |[own, _]| own),
        None => speeds.alone(view, job, &[pool])[0],
    }
}
