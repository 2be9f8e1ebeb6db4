//! Decisions that take too long. Launches are granted nothing while the policy decides.

use rig::output::note;
use schema::units::Nanos;

use super::work::TESTBED_AHEAD;

/// The decision under way, and whether a stall was reported.
#[derive(Debug, Default)]
pub(super) struct Stall {
    since: Option<Nanos>,
    was_reported: bool,
}

impl Stall {
    pub(super) fn decision_began(&mut self) {
        self.since = Some(Nanos::monotonic_now());
    }

    /// Warns of the first decision during which launches may have run out of work. Those that train have at least half of a grant left.
    pub(super) fn decision_ended(&mut self, some_train: bool) {
        let Some(since) = self.since.take() else { return };
        let stall = Nanos::monotonic_now().saturating_sub(since);
        let is_late = stall > (TESTBED_AHEAD / 2).into() && some_train;
        if is_late && !std::mem::replace(&mut self.was_reported, true) {
            note(format_args!(
                "warning: a decision took {stall}, and jobs are granted {} of work at a time: they may have waited for it, and may again",
                Nanos::from(TESTBED_AHEAD)
            ));
        }
    }
}
