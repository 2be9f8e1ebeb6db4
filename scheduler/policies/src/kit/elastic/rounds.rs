//! Decisions at fixed times.

use engine::view::View;
use schema::units::Nanos;

/// The times at which a policy decides: all multiples of the time between two rounds, as long as there is anything to decide.
#[derive(Debug)]
pub(crate) struct Rounds {
    every: Nanos,
    /// The time of the next round. `None` if none is due before something changes.
    due: Option<Nanos>,
}

impl Rounds {
    pub(crate) fn new(every: Nanos) -> Rounds {
        Rounds { every, due: None }
    }

    /// Whether a round is due now. It is then over.
    pub(crate) fn begins(&mut self, view: &View<'_>) -> bool {
        let every = self.every.0;
        let due = *self.due.get_or_insert(Nanos(view.now.0.div_ceil(every) * every));
        let begins = view.now >= due;
        if begins {
            self.due = Some(Nanos((view.now.0 / every + 1) * every));
        }
        begins
    }

    /// The time of the next round. There is one if this is no round, or if time changes what the next one decides: a job has
    /// devices, or will have some. Otherwise it waits for a change, so that a run in which nothing can happen any more ends.
    pub(crate) fn next(&mut self, was_round: bool, goes_on: bool) -> Option<Nanos> {
        if was_round && !goes_on {
            self.due = None;
        }
        self.due
    }
}
