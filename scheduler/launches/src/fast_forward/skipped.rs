//! How much of each job was skipped.

use std::collections::BTreeMap;

use formats::{
    decision::{ClusterEvent, JobId, Settled, Turn},
    rows::Skip,
};

/// The skipped part of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedOfJob {
    /// Steps that count as done and were not. Those that were lost again are not among them.
    pub steps: u64,
    /// The time of all jumps in which it trained.
    pub ns: u64,
}

/// The skipped part of each job of a run, from its jumps and its journal, which has the steps that were lost.
pub fn skipped_of_jobs(skips: &[Skip], turns: &[Turn]) -> BTreeMap<JobId, SkippedOfJob> {
    // Skipped steps by their positions among the steps of a job: from, and one past the last.
    let mut ranges: BTreeMap<JobId, Vec<(u64, u64)>> = BTreeMap::new();
    let mut times: BTreeMap<JobId, u64> = BTreeMap::new();
    let mut rows = skips.iter().peekable();
    let events = turns.iter().flat_map(|turn| turn.events.iter().map(move |happened| (turn.at_ns, happened)));
    let lost = events.filter_map(|(at, happened)| match *happened {
        ClusterEvent::Failed { job, steps, .. }
        | ClusterEvent::Settled { job, now: Settled::Stopped, steps } => Some((at.0, job, steps)),
        _ => None,
    });
    let mut add = |ranges: &mut BTreeMap<JobId, Vec<(u64, u64)>>, row: &Skip| {
        if let (Some(job), Some(before), Some(steps)) = (row.job, row.steps_before, row.steps) {
            ranges.entry(job).or_default().push((before, before + steps));
            *times.entry(job).or_default() += row.length_ns();
        }
    };
    for (at, job, kept) in lost {
        while let Some(row) = rows.next_if(|row| row.until_ns <= at) {
            add(&mut ranges, row);
        }
        for range in ranges.get_mut(&job).into_iter().flatten() {
            *range = (range.0.min(kept), range.1.min(kept));
        }
    }
    rows.for_each(|row| add(&mut ranges, row));
    let of_job = |(job, ranges): (JobId, Vec<(u64, u64)>)| {
        let steps = ranges.iter().map(|(from, until)| until - from).sum();
        (job, SkippedOfJob { steps, ns: times.get(&job).copied().unwrap_or_default() })
    };
    ranges.into_iter().map(of_job).collect()
}

#[cfg(test)]
mod tests {
    use record::rows::ErrorKind;
    use schema::units::Nanos;

    use super::*;

    fn skip(jump: u64, times: (u64, u64), job: u32, (before, steps): (u64, u64)) -> Skip {
        let (job, steps_before, steps) = (Some(JobId(job)), Some(before), Some(steps));
        Skip { job, steps_before, steps, ..Skip::without_job(jump, times, 0) }
    }

    /// Job 0 skips 100 to 200 and 300 to 400, and falls back to 150. Then it skips 150 to 160.
    #[test]
    fn steps_that_were_lost_again_do_not_count() {
        let rows = [
            skip(0, (10, 20), 0, (100, 100)),
            skip(1, (30, 40), 0, (300, 100)),
            skip(1, (30, 40), 1, (7, 5)),
            skip(2, (60, 61), 0, (150, 10)),
        ];
        let kind = ErrorKind::Crashed;
        let failed = ClusterEvent::Failed { job: JobId(0), steps: 150, kind, detail: String::new() };
        let turn = Turn {
            turn: 0,
            at_ns: Nanos(50),
            model_version: None,
            events: vec![failed],
            actions: vec![],
            refused: vec![],
            wake_at_ns: None,
            reason: String::new(),
            explain: BTreeMap::new(),
            view_hash: String::new(),
        };
        let of_jobs = skipped_of_jobs(&rows, &[turn]);
        assert_eq!(of_jobs[&JobId(0)], SkippedOfJob { steps: 60, ns: 21 });
        assert_eq!(of_jobs[&JobId(1)], SkippedOfJob { steps: 5, ns: 10 });
        assert_eq!(formats::rows::skipped_ns(&rows), 21);
    }
}
