//! Detects a policy that asks to be woken again and again and does nothing. In virtual time such a run would never end.

use anyhow::ensure;
use schema::units::Nanos;

/// The number of idle wakes in a row that is an error if they occur within [`WITHIN`].
const WAKES: u32 = 1_000;
/// The time of the run in which [`WAKES`] idle wakes are an error.
const WITHIN: Nanos = Nanos::SECOND;
/// The number of idle wakes in a row after which a run is stuck, if actions were refused and nothing but the policy can change.
const REFUSED_WAKES: u32 = 100;

/// Counts idle wakes in a row: turns whose event is [`ClusterEvent::Deadline`](formats::decision::ClusterEvent) and that have no action.
#[derive(Debug, Default)]
pub(super) struct IdleWakes {
    since: Option<Nanos>,
    count: u32,
    /// Whether an action was refused in these turns or in the turn before them.
    was_refused: bool,
}

impl IdleWakes {
    /// Counts a turn.
    ///
    /// # Errors
    /// Fails if there were [`WAKES`] idle wakes within [`WITHIN`].
    pub(super) fn count(&mut self, now: Nanos, is_idle: bool, was_refused: bool) -> anyhow::Result<()> {
        if !is_idle {
            *self = IdleWakes { was_refused, ..IdleWakes::default() };
            return Ok(());
        }
        self.was_refused |= was_refused;
        let since = *self.since.get_or_insert(now);
        self.count += 1;
        if self.count < WAKES {
            return Ok(());
        }
        let passed = now.saturating_sub(since);
        ensure!(
            passed >= WITHIN,
            "the policy was woken {WAKES} times within {passed} of the run and did nothing; it has to ask for a later time"
        );
        *self = IdleWakes { was_refused: self.was_refused, ..IdleWakes::default() };
        Ok(())
    }

    /// Whether a run in which nothing but the policy can change is stuck: the policy asks for what is refused, or waits since.
    pub(super) fn are_stuck(&self) -> bool {
        self.was_refused && self.count >= REFUSED_WAKES
    }
}
