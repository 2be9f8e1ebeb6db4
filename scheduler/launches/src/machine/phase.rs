//! Where a launch is in its life.

use super::inputs::Place;

/// The phase of a launch. A launch changes it as the README of the scheduler says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaunchPhase {
    /// Not all ranks are ready.
    Starting,
    Running,
    /// It is granted no more steps, because it is to be suspended, and does the steps that it was granted.
    Draining,
    /// Its ranks have not answered the command to pause, or its memory is being moved to the host.
    Suspending,
    Suspended,
    /// Suspended by a stop of its processes.
    Frozen,
    /// Its ranks have not answered the command to resume, or its memory is being moved back.
    Resuming,
    /// It leaves when it has written a checkpoint.
    Saving,
    /// It was ordered to leave, or is being ended.
    Leaving,
    /// Its processes have ended.
    Gone,
}

impl LaunchPhase {
    /// Whether it trained once: it has steps that a checkpoint could hold.
    pub fn has_begun(self) -> bool {
        self != LaunchPhase::Starting
    }

    /// Whether it is suspended, or on the way there or back.
    pub fn is_held(self) -> bool {
        use LaunchPhase::{Draining, Frozen, Resuming, Suspended, Suspending};
        matches!(self, Draining | Suspending | Suspended | Frozen | Resuming)
    }

    /// Whether it leaves its devices or has left them.
    pub fn is_leaving(self) -> bool {
        matches!(self, LaunchPhase::Saving | LaunchPhase::Leaving | LaunchPhase::Gone)
    }
}

/// Where the memory of a launch is, if it is moved as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    OnDevice,
    Moving(Place),
    OnHost,
}
