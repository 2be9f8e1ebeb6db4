//! Numbers over time: of busy devices, and of waiting jobs.

use std::collections::{HashMap, HashSet};

use record::rows::Status;

use super::{Activity, Phase};
use crate::{
    decision::{DeviceId, JobId},
    rows::Outcome,
};

/// An interval of time: from, and until.
pub(super) type TimeSpan = (u64, u64);

impl Activity {
    /// The intervals in which each device was busy: at least one job ran on it. They are in order and apart.
    pub fn busy(&self) -> HashMap<DeviceId, Vec<TimeSpan>> {
        let mut busy: HashMap<DeviceId, Vec<TimeSpan>> = HashMap::new();
        for stay in self.stays.iter().filter(|stay| stay.phase == Phase::Running) {
            for device in stay.devices.iter() {
                busy.entry(*device).or_default().push((stay.from_ns, stay.until_ns));
            }
        }
        busy.values_mut().for_each(|intervals| *intervals = joined(std::mem::take(intervals)));
        busy
    }

    /// The intervals in which jobs waited, by the account of the engine: from their arrival, and until their end if they ended
    /// without devices. A job without a row that failed last waits up to the last turn.
    pub fn waiting(&self, outcomes: &[Outcome]) -> Vec<(JobId, TimeSpan)> {
        let rows: HashMap<JobId, &Outcome> = outcomes.iter().map(|row| (row.job, row)).collect();
        let mut seen = HashSet::new();
        let mut intervals = Vec::new();
        for wait in &self.waits {
            let row = rows.get(&wait.job);
            // A job that is not admitted has ended before its arrival.
            if row.is_some_and(|row| row.status == Status::Unsupported && row.starts == 0) {
                continue;
            }
            let arrived = row.map(|row| row.submit_ns).filter(|_| seen.insert(wait.job));
            let ended = row.and_then(|row| row.end_ns);
            let until = wait.until_ns.or(ended).unwrap_or(self.until_ns);
            intervals.push((wait.job, (arrived.unwrap_or(wait.from_ns), until)));
        }
        intervals
    }
}

/// Joins intervals that overlap or touch.
fn joined(mut intervals: Vec<TimeSpan>) -> Vec<TimeSpan> {
    intervals.sort_unstable();
    let mut joined: Vec<TimeSpan> = Vec::with_capacity(intervals.len());
    for (from, until) in intervals {
        match joined.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(until),
            _ => joined.push((from, until)),
        }
    }
    joined
}

/// The number of intervals at each time at which it changes, from time 0 on.
pub fn steps_of(intervals: impl IntoIterator<Item = TimeSpan>) -> Vec<(u64, u64)> {
    let mut changes = Vec::new();
    for (from, until) in intervals.into_iter().filter(|(from, until)| until > from) {
        changes.extend([(from, 1i64), (until, -1)]);
    }
    changes.sort_unstable();
    let (mut steps, mut count): (Vec<(u64, u64)>, i64) = (vec![(0, 0)], 0);
    for (at, change) in changes {
        count += change;
        let now = (at, count.max(0) as u64);
        match steps.last_mut() {
            Some(last) if last.0 == at => *last = now,
            _ => steps.push(now),
        }
    }
    steps
}
