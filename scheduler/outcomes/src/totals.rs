//! The totals of a run: statistics over all of its jobs.

use schema::rows::{Outcome, Status, Totals};
use statistics::{median, quantile_of_sorted};

use crate::fairness;

/// Computes the totals of a run on this number of devices.
pub fn totals(policy: &str, outcomes: &[Outcome], devices: u32) -> Totals {
    let done: Vec<&Outcome> = outcomes.iter().filter(|row| row.status == Status::Ok).collect();
    let of =
        |time: fn(&Outcome) -> Option<u64>| done.iter().filter_map(|row| time(row)).collect::<Vec<u64>>();
    let some_average = |times: Vec<u64>| (!times.is_empty()).then(|| average(&times));
    let mut jct = of(|row| row.jct_ns);
    jct.sort_unstable();
    let first_100: Vec<u64> = outcomes.iter().filter_map(|row| row.first_100_ns).collect();
    let makespan_ns = makespan_ns(outcomes);
    let busy = outcomes.iter().map(|row| busy_ns(row.busy_share_ns, row.device_time_ns, row.packed_ns));
    let count = |status| outcomes.iter().filter(|row| row.status == status).count() as u32;
    Totals {
        policy: policy.into(),
        jobs: outcomes.len() as u32,
        ok: done.len() as u32,
        unsupported: count(Status::Unsupported),
        failed: count(Status::Failed),
        ended_by_policy: count(Status::EndedByPolicy),
        jct_ns_mean: some_average(jct.clone()),
        jct_ns_median: median(&jct).map(|ns| ns.round() as u64),
        jct_ns_p99: (!jct.is_empty()).then(|| quantile_of_sorted(&jct, 0.99)),
        queued_ns_mean: some_average(of(|row| row.queued_ns)),
        switching_ns_mean: some_average(of(|row| row.switching_ns)),
        makespan_ns,
        util_percent: makespan_ns.and_then(|ns| utilisation_percent(busy, ns, devices)),
        fairness: fairness::summary(done.iter().filter_map(|row| fairness::rho(row.jct_ns, row.fair_ns))),
        first_100_ns_mean: some_average(first_100.clone()),
        first_100_ns_median: median(&first_100).map(|ns| ns.round() as u64),
        starts: outcomes.iter().map(|row| u64::from(row.starts)).sum(),
        pauses: outcomes.iter().map(|row| u64::from(row.pauses)).sum(),
        preemptions: outcomes.iter().map(|row| Some(u64::from(row.pauses) + u64::from(row.stops?))).sum(),
        migrations: outcomes.iter().map(|row| row.migrations.map(u64::from)).sum(),
        steps_lost: outcomes.iter().map(|row| row.steps_lost).sum(),
        decision_times: None,
        drawn: None,
    }
}

/// The makespan: the time from the first arrival to the last end of a job that ended well or was ended by the policy.
pub fn makespan_ns(outcomes: &[Outcome]) -> Option<u64> {
    let ends = outcomes.iter().filter(|row| row.status.is_as_meant()).filter_map(|row| row.end_ns);
    let first = outcomes.iter().map(|row| row.submit_ns).min();
    ends.max().zip(first).and_then(|(last, first)| last.checked_sub(first))
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
    mut busy_ns: impl Iterator<Item = Option<u64>>,
    makespan_ns: u64,
    devices: u32,
) -> Option<f64> {
    let there = u128::from(makespan_ns) * u128::from(devices);
    let busy = busy_ns.try_fold(0, |all: u128, part| Some(all + u128::from(part?)))?;
    (there > 0).then(|| busy as f64 / there as f64 * 100.0)
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
