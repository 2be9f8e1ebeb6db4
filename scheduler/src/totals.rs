//! The totals of a run: statistics over all of its jobs.

use schema::rows::{Outcome, Status, Totals};
use statistics::{median, quantile_of_sorted};

/// Computes the totals of a run on this number of devices.
pub fn totals(policy: &str, outcomes: &[Outcome], devices: u32) -> Totals {
    let done: Vec<&Outcome> = outcomes.iter().filter(|row| row.status == Status::Ok).collect();
    let of =
        |time: fn(&Outcome) -> Option<u64>| done.iter().filter_map(|row| time(row)).collect::<Vec<u64>>();
    let some_average = |times: Vec<u64>| (!times.is_empty()).then(|| average(&times));
    let mut jct = of(|row| row.jct_ns);
    jct.sort_unstable();
    let makespan_ns = makespan_ns(outcomes);
    let device_time: u128 = outcomes.iter().filter_map(|row| row.device_time_ns).map(u128::from).sum();
    let there = makespan_ns.map(|ns| u128::from(ns) * u128::from(devices)).filter(|ns| *ns > 0);
    let count = |status| outcomes.iter().filter(|row| row.status == status).count() as u32;
    Totals {
        policy: policy.into(),
        jobs: outcomes.len() as u32,
        ok: done.len() as u32,
        unsupported: count(Status::Unsupported),
        failed: count(Status::Failed),
        jct_ns_mean: some_average(jct.clone()),
        jct_ns_median: median(&jct).map(|ns| ns.round() as u64),
        jct_ns_p99: (!jct.is_empty()).then(|| quantile_of_sorted(&jct, 0.99)),
        queued_ns_mean: some_average(of(|row| row.queued_ns)),
        switching_ns_mean: some_average(of(|row| row.switching_ns)),
        makespan_ns,
        util_percent: there.map(|there| device_time as f64 / there as f64 * 100.0),
        starts: outcomes.iter().map(|row| u64::from(row.starts)).sum(),
        pauses: outcomes.iter().map(|row| u64::from(row.pauses)).sum(),
        steps_lost: outcomes.iter().map(|row| row.steps_lost).sum(),
    }
}

/// The makespan: the time from the first arrival to the last end of a job that ended well.
pub(crate) fn makespan_ns(outcomes: &[Outcome]) -> Option<u64> {
    let ends = outcomes.iter().filter(|row| row.status == Status::Ok).filter_map(|row| row.end_ns);
    let first = outcomes.iter().map(|row| row.submit_ns).min();
    ends.max().zip(first).map(|(last, first)| last - first)
}

/// The mean of at least one value, rounded down.
pub(crate) fn average(values: &[u64]) -> u64 {
    (values.iter().map(|value| u128::from(*value)).sum::<u128>() / values.len() as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::average;

    #[test]
    fn an_average_is_a_whole_number() {
        assert_eq!((average(&[1, 2, 6]), average(&[1, 2])), (3, 1));
    }
}
