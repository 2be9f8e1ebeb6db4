//! The time of a run, by the clock of its launcher.

use schema::units::Nanos;

/// The run's time on the launcher's clock. It stands still while no scheduler is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) began: Nanos,
    pub(super) at: Nanos,
}

impl Clock {
    pub(super) fn of_run(self, launcher: Nanos) -> Nanos {
        self.at + launcher.saturating_sub(self.began)
    }

    pub(super) fn of_launcher(self, run: Nanos) -> Nanos {
        self.began + run.saturating_sub(self.at)
    }
}

/// The first instant after `now` that is a multiple of `every` after `began`.
pub(super) fn next_multiple(began: Nanos, every: Nanos, now: Nanos) -> Nanos {
    let every = every.0.max(1);
    began + Nanos((now.saturating_sub(began).0 / every + 1) * every)
}
