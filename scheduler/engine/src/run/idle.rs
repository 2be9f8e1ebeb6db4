//! Detects a policy that asks to be woken again and again and does nothing. In virtual time such a run would never end.

use anyhow::ensure;
use schema::units::Nanos;

/// The number of idle wakes in a row that is an error if they occur within [`WITHIN`].
const WAKES: u32 = 1_000;
/// The time of the run in which [`WAKES`] idle wakes are an error.
const WITHIN: Nanos = Nanos::SECOND;
/// A run is stuck after this number of consecutive idle wakes with refused actions, if only the policy can change the state.
const REFUSED_WAKES: u32 = 100;

/// Counts idle wakes in a row: turns whose event is [`ClusterEvent::Deadline`](formats::decision::ClusterEvent) and that have no action.
#[derive(Debug, Default)]
pub(super) struct IdleWakes {
    since: Option<Nanos>,
    count: u32,
    /// The number of consecutive idle wakes, up to the last one, at which an action was refused.
    refused: u32,
}

impl IdleWakes {
    /// Counts a turn.
    ///
    /// # Errors
    /// Fails if there were [`WAKES`] idle wakes within [`WITHIN`].
    pub(super) fn count(&mut self, now: Nanos, is_idle: bool, was_refused: bool) -> anyhow::Result<()> {
        if !is_idle {
            *self = IdleWakes::default();
            return Ok(());
        }
        self.refused = if was_refused { self.refused + 1 } else { 0 };
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
        *self = IdleWakes { refused: self.refused, ..IdleWakes::default() };
        Ok(())
    }

    /// Whether the policy repeats refused actions. The run is then stuck, if only the policy can change the state.
    pub(super) fn are_stuck(&self) -> bool {
        self.refused >= REFUSED_WAKES
    }
}
