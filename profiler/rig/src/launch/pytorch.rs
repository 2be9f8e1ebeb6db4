//! Looks for PyTorch in the processes of a program that has not told the step hook of it.
//!
//! A program may lose the hook: Python runs with `-E`, `-I` or `-S`, or in an emptied environment. Its steps are then not
//! seen, and nothing but the libraries that it maps shows that it trains with PyTorch.

use std::time::Duration;

use schema::units::Nanos;

use crate::processes::loads;

/// A part of the path of a file that every process with PyTorch has mapped.
const PYTORCH: &str = "/libtorch";

/// The shortest and the longest time between looks, each of which takes about a millisecond. In between it is a share of the time
/// since the start, because a program that runs for long imports PyTorch late at most once.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
const ONE_IN: u64 = 4;

pub(super) struct PytorchWatch {
    began: Nanos,
    look_at: Nanos,
    is_seen: bool,
}

impl PytorchWatch {
    pub(super) fn new() -> PytorchWatch {
        let now = Nanos::monotonic_now();
        PytorchWatch { began: now, look_at: now + SHORTEST.into(), is_seen: false }
    }

    /// Looks at the processes from `root` on, if it is time for that.
    pub(super) fn look(&mut self, root: u32) {
        let now = Nanos::monotonic_now();
        if self.is_seen || now < self.look_at {
            return;
        }
        self.is_seen = loads(root as i32, PYTORCH);
        let pause = Nanos(now.saturating_sub(self.began).0 / ONE_IN);
        self.look_at = now + pause.clamp(SHORTEST.into(), LONGEST.into());
    }

    pub(super) fn is_seen(&self) -> bool {
        self.is_seen
    }
}
