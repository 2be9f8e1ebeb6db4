//! A policy that has itself woken over and over and does nothing keeps a run where it is, for ever in virtual time.

use anyhow::ensure;
use schema::units::Nanos;

/// So many wakes in a row that came to nothing ..
const WAKES: u32 = 1_000;
/// .. are no waiting, where no more time of the run than this has passed.
const WITHIN: Nanos = Nanos::SECOND;

/// Wakes since the last turn that was of something else, or in which something was done.
#[derive(Debug, Default)]
pub(super) struct IdleWakes {
    since: Option<Nanos>,
    count: u32,
}

impl IdleWakes {
    /// Counts a turn.
    ///
    /// # Errors
    /// Where it is one too many.
    pub(super) fn count(&mut self, now: Nanos, came_to_nothing: bool) -> anyhow::Result<()> {
        if !came_to_nothing {
            *self = IdleWakes::default();
            return Ok(());
        }
        let since = *self.since.get_or_insert(now);
        self.count += 1;
        if self.count < WAKES {
            return Ok(());
        }
        let passed = now.saturating_sub(since);
        ensure!(
            passed >= WITHIN,
            "the policy was woken {WAKES} times within {passed} of the run and did nothing; it has to ask for a later instant"
        );
        *self = IdleWakes::default();
        Ok(())
    }
}
