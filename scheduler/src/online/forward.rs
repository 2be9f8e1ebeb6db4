//! The jumps of a fast-forwarded run: their file, and what they amount to.

use std::{cell::RefCell, rc::Rc};

use engine::job::JobRequest;
use formats::{
    decision,
    rows::{Outcome, Skip, skipped_ns},
};
use launches::{
    fast_forward::{SkipLog, Waited, skipped_of_jobs},
    recorded::RecordedStretch,
};
use record::{
    rows::{self, Appender},
    run_dir::RunDir,
};
use schema::units::Nanos;

/// The rows of `skips.csv` so far, in order.
pub(super) type SharedSkips = Rc<RefCell<Vec<Skip>>>;

/// What fast-forwarding has amounted to.
pub struct Forwarded {
    pub jumps: u64,
    pub skipped_ns: u64,
    /// Steps that count as done and were not.
    pub steps: u64,
    /// Why the last scheduler of the run waited for steps.
    pub waited: Waited,
}

/// A log of jumps that appends to the file of a run and to `skips`.
///
/// # Errors
/// Fails if the file cannot be opened.
pub(super) fn log<'a>(
    run: &RunDir,
    asked: &'a [JobRequest],
    skips: SharedSkips,
) -> Result<SkipLog<'a>, rows::RowError> {
    let mut file = Appender::<Skip>::open(&run.skips_path())?;
    Ok(Box::new(move |of_jump| {
        let named = |row: &Skip| {
            let name = row.job.map(|job| asked[job.0 as usize].name.clone());
            Skip { name, ..row.clone() }
        };
        let of_jump: Vec<Skip> = of_jump.iter().map(named).collect();
        file.push(&of_jump)?;
        skips.borrow_mut().extend(of_jump);
        Ok(())
    }))
}

/// Adds what was skipped of each job to the outcomes.
///
/// # Errors
/// Fails if the journal cannot be read.
pub(super) fn add_skipped(
    run: &RunDir,
    skips: &[Skip],
    waited: Waited,
    outcomes: &mut [Outcome],
) -> anyhow::Result<Forwarded> {
    let of_jobs = skipped_of_jobs(skips, &decision::read(&run.decisions_path())?);
    for row in &mut *outcomes {
        let skipped = of_jobs.get(&row.job).copied().unwrap_or_default();
        (row.steps_skipped, row.skipped_ns) = (skipped.steps, skipped.ns);
    }
    Ok(Forwarded {
        jumps: next_jump(skips),
        skipped_ns: skipped_ns(skips),
        steps: outcomes.iter().map(|row| row.steps_skipped).sum(),
        waited,
    })
}

pub(super) fn next_jump(skips: &[Skip]) -> u64 {
    skips.last().map_or(0, |last| last.jump + 1)
}

/// The part of a stretch whose steps were executed and measured. For a stretch with skipped steps that is the window before the first
/// jump, and nothing if an earlier stretch has that window.
pub(super) fn executed(of: &RecordedStretch, skips: &[Skip]) -> Option<RecordedStretch> {
    let first = skips.partition_point(|row| row.from_ns < of.from.0);
    let within = skips[first..].iter().take_while(|row| row.from_ns < of.until.0);
    let Some(row) = within.clone().find(|row| row.job == Some(of.job)) else { return Some(of.clone()) };
    let (from, until) = (row.window_from_ns?, row.window_until_ns?);
    (until > of.from.0).then(|| RecordedStretch {
        from: Nanos(from),
        until: Nanos(until),
        steps: row.window_steps.unwrap_or_default(),
        ..of.clone()
    })
}

#[cfg(test)]
mod tests {
    use formats::decision::JobId;

    use super::*;

    #[test]
    fn what_was_skipped_of_a_stretch_is_no_measurement() {
        let stretch = |from, until, steps| RecordedStretch {
            job: JobId(1),
            launch: 0,
            from: Nanos(from),
            until: Nanos(until),
            steps,
            with: vec![],
        };
        let skip = |jump, job, from_ns, until_ns| Skip {
            job: Some(JobId(job)),
            window_from_ns: Some(110),
            window_until_ns: Some(138),
            window_steps: Some(28),
            ..Skip::without_job(jump, (from_ns, until_ns), 0)
        };
        let skips = [skip(0, 0, 140, 200), skip(0, 1, 140, 200), skip(1, 1, 200, 300)];
        assert_eq!(executed(&stretch(0, 100, 99), &skips), Some(stretch(0, 100, 99)), "all were executed");
        assert_eq!(executed(&stretch(100, 200, 99), &skips), Some(stretch(110, 138, 28)));
        assert_eq!(executed(&stretch(200, 300, 99), &skips), None, "the window counts once");
        assert_eq!(executed(&stretch(300, 400, 99), &skips), Some(stretch(300, 400, 99)));
    }
}
