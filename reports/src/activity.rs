//! What jobs did on the devices of a run of `sched`, and how it is drawn.

#[cfg(test)]
pub(crate) mod tests;

pub use formats::activity::*;

use crate::chart::SpanKind;

impl From<Phase> for SpanKind {
    fn from(phase: Phase) -> SpanKind {
        match phase {
            Phase::Running => SpanKind::Running,
            Phase::Paused => SpanKind::Paused,
            Phase::Starting | Phase::Pausing | Phase::Resuming | Phase::Stopping | Phase::Ending => {
                SpanKind::Switching
            }
        }
    }
}
