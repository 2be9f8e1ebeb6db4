//! `skips.csv`: the steps that a fast-forwarded run counted without doing them.

use serde::{Deserialize, Serialize};

use crate::decision::JobId;

/// A job in a jump of the clock. A jump has one row for each job that trained, and one without a job if none did.
///
/// Instants without `mono` in their name are from the start of the run, and include earlier jumps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skip {
    /// Counts from 0 within a run.
    pub jump: u64,
    pub from_ns: u64,
    pub until_ns: u64,
    /// The host's `CLOCK_MONOTONIC` at the jump.
    pub mono_ns: u64,
    pub job: Option<JobId>,
    pub name: Option<String>,
    /// The steps of the job before the jump, and the number of those that were skipped.
    pub steps_before: Option<u64>,
    pub steps: Option<u64>,
    /// The mean time of a step in the window before the jump, with its 95 % interval.
    pub step_ns: Option<f64>,
    pub step_ns_ci_lo: Option<f64>,
    pub step_ns_ci_hi: Option<f64>,
    /// The window of executed steps in which this time was measured.
    pub window_from_ns: Option<u64>,
    pub window_until_ns: Option<u64>,
    pub window_steps: Option<u64>,
}

impl Skip {
    /// A jump in which no job trained, between two times of the run.
    pub fn without_job(jump: u64, (from_ns, until_ns): (u64, u64), mono_ns: u64) -> Skip {
        Skip {
            jump,
            from_ns,
            until_ns,
            mono_ns,
            job: None,
            name: None,
            steps_before: None,
            steps: None,
            step_ns: None,
            step_ns_ci_lo: None,
            step_ns_ci_hi: None,
            window_from_ns: None,
            window_until_ns: None,
            window_steps: None,
        }
    }

    pub fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }
}

/// The time that these jumps skipped. A jump counts once, however many jobs trained.
pub fn skipped_ns(skips: &[Skip]) -> u64 {
    skips.chunk_by(|a, b| a.jump == b.jump).map(|of_jump| of_jump[0].length_ns()).sum()
}
