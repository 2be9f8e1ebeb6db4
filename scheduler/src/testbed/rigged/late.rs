//! Decisions that take too long: nobody grants launches more steps while somebody else has the word.

use rig::output::note;
use schema::units::Nanos;

use super::{
    Rigged,
    launch::{GRANTED_AHEAD, Launch},
};

/// Since when others have the word.
#[derive(Debug, Default)]
pub(super) struct Away {
    since: Option<Nanos>,
    was_told: bool,
}

impl Rigged {
    pub(super) fn goes_away(&mut self) {
        self.away.since = Some(Nanos::monotonic_now());
    }

    /// Tells of the first time that launches may have stood still meanwhile: half of what they are granted is left to them at least.
    pub(super) fn comes_back(&mut self) {
        let Some(since) = self.away.since.take() else { return };
        let away = Nanos::monotonic_now().saturating_sub(since);
        let is_late = away > (GRANTED_AHEAD / 2).into() && self.launches.values().any(Launch::trains);
        if is_late && !std::mem::replace(&mut self.away.was_told, true) {
            note(format_args!(
                "warning: a decision took {away}, and jobs are granted {} of work at a time: they may have waited for it, and may again",
                Nanos::from(GRANTED_AHEAD)
            ));
        }
    }
}
