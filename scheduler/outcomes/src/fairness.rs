//! Finish-time fairness (Themis, Mahajan et al., NSDI 2020, section 3).
//!
//! `rho` of a job is its completion time over the time that it would take alone on its fair share of the devices, a 1/N share
//! where N jobs are present. A job with a rho above 1 would have ended earlier if the cluster had been divided equally. N is the
//! mean number of jobs that were present during the stay of the job, itself included, from its arrival to its end, as in
//! Shockwave (Zheng et al., NSDI 2023; `get_finish_time_fairness` of its artifact, whose N is a mean over rounds). A job that asks
//! for `d` of the `M` devices that it may use takes as long as alone if its share `M / N` is at least `d`, and else `d N / M` times
//! as long, which is the time on the isolated share of Gavel (Narayanan et al., OSDI 2020; `policies/isolated.py`). The artifact of
//! Shockwave divides by `M / N` also for jobs of several devices, which makes them look less fairly treated than they are.

use std::iter;

use formats::rows::{FinishTimeFairness, Outcome};
use statistics::{median_in_place, quantile_of_sorted};

/// A rho counts as above 1 from here on. Times are whole nanoseconds, and rounding is not unfair; Shockwave rounds rho to five digits.
const UNFAIR: f64 = 1.0 + 5e-6;

/// The devices of which jobs have a fair share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Devices {
    /// The part of the cluster: a virtual cluster. Only jobs of the same part are counted as present.
    pub part: usize,
    /// The number of devices there that the job may use.
    pub count: u32,
}

/// The time for which a job was present in a part of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    pub part: usize,
    pub submit_ns: u64,
    /// `None` for a job that stayed until the end of the run.
    pub end_ns: Option<u64>,
}

/// How many jobs were present, for each part of the cluster.
pub struct FairTimes(Vec<Present>);

impl FairTimes {
    /// Counts the jobs of a run. A job that was not admitted was never present.
    pub fn new(stays: impl Iterator<Item = Stay>) -> FairTimes {
        let mut parts: Vec<[Vec<u64>; 2]> = Vec::new();
        for Stay { part, submit_ns, end_ns } in stays {
            parts.resize(parts.len().max(part + 1), Default::default());
            let [come, leave] = &mut parts[part];
            come.push(submit_ns);
            leave.extend(end_ns);
        }
        let present =
            |[come, leave]: [Vec<u64>; 2]| Present { come: Instants::new(come), leave: Instants::new(leave) };
        FairTimes(parts.into_iter().map(present).collect())
    }

    /// The `fair_ns` of a row that has `alone_ns` and has ended. Its job is one of those that were counted.
    pub fn fair_ns(&self, row: &Outcome, Devices { part, count }: Devices) -> Option<u64> {
        let (alone_ns, end_ns) = row.alone_ns.zip(row.end_ns)?;
        let jobs = self.0.get(part)?.mean(row.submit_ns, end_ns);
        let slower = f64::from(row.devices) * jobs / f64::from(count.max(1));
        Some((alone_ns as f64 * slower.max(1.0)).round() as u64)
    }
}

/// The finish-time fairness of a job. `None` if one of its times is not known.
pub fn rho(jct_ns: Option<u64>, fair_ns: Option<u64>) -> Option<f64> {
    let fair = fair_ns.filter(|ns| *ns > 0)?;
    Some(jct_ns? as f64 / fair as f64)
}

/// Summarises the rho of jobs. `None` without jobs.
pub fn summary(rho: impl Iterator<Item = f64>) -> Option<FinishTimeFairness> {
    let mut rho: Vec<f64> = rho.collect();
    rho.sort_unstable_by(f64::total_cmp);
    let jobs = rho.len();
    let unfair = rho.iter().filter(|rho| **rho >= UNFAIR).count();
    (jobs > 0).then(|| FinishTimeFairness {
        jobs: jobs as u32,
        rho_mean: rho.iter().sum::<f64>() / jobs as f64,
        rho_p99: quantile_of_sorted(&rho, 0.99),
        rho_max: quantile_of_sorted(&rho, 1.0),
        rho_median: median_in_place(&mut rho),
        unfair_percent: unfair as f64 / jobs as f64 * 100.0,
    })
}

/// The jobs that come to a part of the cluster and leave it.
struct Present {
    come: Instants,
    leave: Instants,
}

/// The number of instants between two sums. With a sum for each instant, those of a million jobs take three times the memory.
const SUMMED: usize = 16;

/// Instants in order.
struct Instants {
    sorted: Vec<u64>,
    /// The sum of the first [`SUMMED`] instants, of twice as many, and so on. The first sum is 0.
    sums: Vec<u128>,
}

impl Instants {
    fn new(mut instants: Vec<u64>) -> Instants {
        instants.sort_unstable();
        let sums = instants.chunks(SUMMED).scan(0, |before, block| {
            *before += sum(block);
            Some(*before)
        });
        Instants { sums: iter::once(0).chain(sums).collect(), sorted: instants }
    }

    /// The sum of the times that have passed at an instant since each of the earlier ones.
    fn passed(&self, at: u64) -> u128 {
        let earlier = self.sorted.partition_point(|instant| *instant <= at);
        let summed = earlier / SUMMED;
        let sum = self.sums[summed] + sum(&self.sorted[summed * SUMMED..earlier]);
        earlier as u128 * u128::from(at) - sum
    }
}

fn sum(instants: &[u64]) -> u128 {
    instants.iter().map(|at| u128::from(*at)).sum()
}

impl Present {
    /// The integral over time of the number of jobs that are present.
    fn until(&self, at: u64) -> u128 {
        self.come.passed(at) - self.leave.passed(at)
    }

    /// The mean number of jobs from one instant to another, at least 1.
    fn mean(&self, from: u64, to: u64) -> f64 {
        match to.checked_sub(from) {
            None | Some(0) => 1.0,
            Some(time) => ((self.until(to) - self.until(from)) as f64 / time as f64).max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_number_of_jobs_is_that_of_every_instant() {
        // Three jobs leave and come at one instant, one stays for ever, and no job is there at first.
        let stays = [(3, Some(9)), (3, Some(5)), (5, Some(20)), (5, None), (9, Some(10))];
        let come = Instants::new(stays.iter().map(|(from, _)| *from).collect());
        let leave = Instants::new(stays.iter().filter_map(|(_, to)| *to).collect());
        let present = Present { come, leave };
        let jobs_at = |at: u64| {
            let is_there = |(from, to): &&(u64, Option<u64>)| *from <= at && to.is_none_or(|to| at < to);
            stays.iter().filter(is_there).count() as f64
        };
        for (from, to) in [(3, 9), (3, 5), (5, 20), (0, 30), (9, 10), (25, 40)] {
            let mean = (from..to).map(jobs_at).sum::<f64>() / (to - from) as f64;
            let found = present.mean(from, to);
            assert!((found - mean.max(1.0)).abs() < 1e-12, "{from}..{to}: {found} is not {mean}");
        }
        let empty = Present { come: Instants::new(Vec::new()), leave: Instants::new(Vec::new()) };
        assert_eq!((present.mean(4, 4), empty.mean(0, 5)), (1.0, 1.0));
    }

    #[test]
    fn a_summary_counts_what_is_above_one_by_more_than_rounding() {
        let found = summary([2.0, 0.5, 1.0 + 1e-9, 1.0].into_iter()).unwrap();
        assert_eq!((found.jobs, found.rho_max, found.unfair_percent), (4, 2.0, 25.0));
        assert!((found.rho_mean - 4.5 / 4.0).abs() < 1e-9 && (found.rho_median - 1.0).abs() < 1e-9);
        assert_eq!((summary([].into_iter()), rho(Some(3), Some(0)), rho(None, Some(1))), (None, None, None));
        assert_eq!(rho(Some(3), Some(2)), Some(1.5));
    }
}
