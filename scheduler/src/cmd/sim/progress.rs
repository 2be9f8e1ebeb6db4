//! The progress of a simulation on a terminal.

use cli::progress;
use engine::{job::State, journal::Journal, view::View};
use formats::decision::{ClusterEvent, Turn};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::online::RunInputs;

/// Shows a bar of the jobs that have ended, and passes each turn on. Dropping it removes the bar.
pub(super) struct Progress<'a> {
    journal: &'a mut dyn Journal,
    bar: ProgressBar,
}

impl<'a> Progress<'a> {
    /// Shows the progress of a simulation of these inputs.
    pub(super) fn new(journal: &'a mut dyn Journal, inputs: &RunInputs) -> Progress<'a> {
        let bar = ProgressBar::with_draw_target(Some(inputs.asked.len() as u64), progress::target());
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} jobs under {msg} ({elapsed} so far)");
        let bar = bar.with_style(style.expect("the template is well formed"));
        let policy = inputs.manifest.scheduling.as_ref().map(|of| of.policy.clone()).unwrap_or_default();
        let bar = bar.with_message(policy).with_finish(ProgressFinish::AndClear);
        Progress { journal, bar }
    }
}

impl Journal for Progress<'_> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        for happened in &turn.events {
            // A job that is not admitted has ended when it arrives.
            if let ClusterEvent::Finished { job, .. }
            | ClusterEvent::Failed { job, .. }
            | ClusterEvent::Arrived { job } = *happened
                && let State::Ended { .. } = view.job(job).state
            {
                self.bar.inc(1);
            }
        }
        self.journal.record(turn, view)
    }

    fn needs_hashes(&self) -> bool {
        self.journal.needs_hashes()
    }
}
