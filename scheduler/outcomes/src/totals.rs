//! The totals of a run: statistics over all of its jobs.

use formats::rows::{Outcome, Totals};
use record::rows::Status;
use statistics::{median, quantile_of_sorted};

use crate::fairness;

/// Computes the totals of a run on this number of devices.
pub fn totals(policy: &str, outcomes: &[Outcome], devices: u32) -> Totals {
    let mut tally = Tally::default();
    outcomes.iter().for_each(|row| tally.add(row));
    tally.totals(policy, devices)
}

/// What the totals of a run follow from. Rows are added one after another, so that the rows of a large run are never in memory as a
/// whole.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    jobs: u32,
    ok: u32,
    unsupported: u32,
    failed: u32,
    ended_by_policy: u32,
    jct_ns: Vec<u64>,
    queued: Mean,
    switching: Mean,
    makespan: Makespan,
    busy: KnownSum,
    rho: Vec<f64>,
    first_100_ns: Vec<u64>,
    starts: u64,
    pauses: u64,
    preemptions: KnownSum,
    migrations: KnownSum,
    steps_lost: u64,
}

impl Tally {
    /// Adds the row of a job.
    pub fn add(&mut self, row: &Outcome) {
        self.jobs += 1;
        match row.status {
            Status::Ok => {
                self.ok += 1;
                self.jct_ns.extend(row.jct_ns);
                self.queued.add(row.queued_ns);
                self.switching.add(row.switching_ns);
                self.rho.extend(fairness::rho(row.jct_ns, row.fair_ns));
            }
            Status::Unsupported => self.unsupported += 1,
            Status::Failed => self.failed += 1,
            Status::EndedByPolicy => self.ended_by_policy += 1,
        }
        self.makespan.add(row);
        self.busy.add(busy_ns(row.busy_share_ns, row.device_time_ns, row.packed_ns));
        self.first_100_ns.extend(row.first_100_ns);
        self.starts += u64::from(row.starts);
        self.pauses += u64::from(row.pauses);
        self.preemptions.add(row.stops.map(|stops| u64::from(row.pauses) + u64::from(stops)));
        self.migrations.add(row.migrations.map(u64::from));
        self.steps_lost += row.steps_lost;
    }

    /// The totals of a run on this number of devices, all rows of which were added.
    pub fn totals(self, policy: &str, devices: u32) -> Totals {
        let Tally { mut jct_ns, first_100_ns, .. } = self;
        jct_ns.sort_unstable();
        let some_average = |times: &[u64]| (!times.is_empty()).then(|| average(times));
        let makespan_ns = self.makespan.ns();
        let busy = self.busy.0.zip(makespan_ns);
        Totals {
            policy: policy.into(),
            jobs: self.jobs,
            ok: self.ok,
            unsupported: self.unsupported,
            failed: self.failed,
            ended_by_policy: self.ended_by_policy,
            jct_ns_mean: some_average(&jct_ns),
            jct_ns_median: median(&jct_ns).map(|ns| ns.round() as u64),
            jct_ns_p99: (!jct_ns.is_empty()).then(|| quantile_of_sorted(&jct_ns, 0.99)),
            queued_ns_mean: self.queued.ns(),
            switching_ns_mean: self.switching.ns(),
            makespan_ns,
            util_percent: busy.and_then(|(busy, makespan)| percent_of_devices(busy, makespan, devices)),
            fairness: fairness::summary(self.rho.into_iter()),
            first_100_ns_mean: some_average(&first_100_ns),
            first_100_ns_median: median(&first_100_ns).map(|ns| ns.round() as u64),
            starts: self.starts,
            pauses: self.pauses,
            preemptions: self.preemptions.0.map(|sum| sum as u64),
            migrations: self.migrations.0.map(|sum| sum as u64),
            steps_lost: self.steps_lost,
            lacking: Vec::new(),
            decision_times: None,
            drawn: None,
            lower_than: Vec::new(),
        }
    }
}

/// The mean of the times that are known, rounded down.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum_ns: u128,
    count: u32,
}

impl Mean {
    fn add(&mut self, ns: Option<u64>) {
        self.sum_ns += u128::from(ns.unwrap_or(0));
        self.count += u32::from(ns.is_some());
    }

    fn ns(self) -> Option<u64> {
        self.sum_ns.checked_div(u128::from(self.count)).map(|ns| ns as u64)
    }
}

/// A sum, which is not known if one of its parts is not.
#[derive(Clone, Copy, Debug)]
struct KnownSum(Option<u128>);

impl Default for KnownSum {
    fn default() -> KnownSum {
        KnownSum(Some(0))
    }
}

impl KnownSum {
    fn add(&mut self, part: Option<u64>) {
        self.0 = self.0.zip(part).map(|(sum, part)| sum + u128::from(part));
    }
}

/// The first arrival, and the last end of a job that ended well or was ended by the policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Makespan {
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

impl Makespan {
    /// Adds the row of a job.
    pub fn add(&mut self, row: &Outcome) {
        self.first_ns = Some(self.first_ns.map_or(row.submit_ns, |first| first.min(row.submit_ns)));
        self.last_ns = self.last_ns.max(row.end_ns.filter(|_| row.status.is_as_meant()));
    }

    /// The time from the one to the other.
    pub fn ns(self) -> Option<u64> {
        self.last_ns.zip(self.first_ns).and_then(|(last, first)| last.checked_sub(first))
    }
}

/// The makespan: the time from the first arrival to the last end of a job that ended well or was ended by the policy.
pub fn makespan_ns(outcomes: &[Outcome]) -> Option<u64> {
    let mut makespan = Makespan::default();
    outcomes.iter().for_each(|row| makespan.add(row));
    makespan.ns()
}

/// The part of a job in the busy time of devices, from three columns of its row. A row without `busy_share_ns` has it as well if
/// the job was never packed, because all its device time was its own.
pub fn busy_ns(share: Option<u64>, device_time: Option<u64>, packed: Option<u64>) -> Option<u64> {
    match packed {
        None | Some(0) => share.or(Some(device_time.unwrap_or(0))),
        Some(_) => share,
    }
}

/// The utilisation: the time in which devices were busy over the makespan of this number of devices, in percent. `None` if the
/// part of a job is not known, and without any makespan.
pub fn utilisation_percent(
    busy_ns: impl Iterator<Item = Option<u64>>,
    makespan_ns: u64,
    devices: u32,
) -> Option<f64> {
    let mut sum = KnownSum::default();
    busy_ns.for_each(|part| sum.add(part));
    percent_of_devices(sum.0?, makespan_ns, devices)
}

fn percent_of_devices(busy_ns: u128, makespan_ns: u64, devices: u32) -> Option<f64> {
    let there = u128::from(makespan_ns) * u128::from(devices);
    (there > 0).then(|| busy_ns as f64 / there as f64 * 100.0)
}

/// The mean of at least one value, rounded down.
pub fn average(values: &[u64]) -> u64 {
    (values.iter().map(|value| u128::from(*value)).sum::<u128>() / values.len() as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::{average, busy_ns, utilisation_percent};

    #[test]
    fn an_average_is_a_whole_number() {
        assert_eq!((average(&[1, 2, 6]), average(&[1, 2])), (3, 1));
    }

    #[test]
    fn the_busy_time_of_a_packed_job_is_known_only_from_its_share() {
        assert_eq!(busy_ns(Some(3), Some(6), Some(6)), Some(3));
        assert_eq!(busy_ns(None, Some(6), Some(0)), Some(6));
        assert_eq!(busy_ns(None, Some(6), Some(1)), None);
        assert_eq!(busy_ns(None, None, None), Some(0));
        let of = |parts: [Option<u64>; 2], makespan| utilisation_percent(parts.into_iter(), makespan, 2);
        assert_eq!(of([Some(3), Some(6)], 6), Some(75.0));
        assert_eq!((of([Some(3), None], 6), of([Some(0), Some(0)], 0)), (None, None));
    }
}
