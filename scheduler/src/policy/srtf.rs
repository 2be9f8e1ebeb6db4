//! Shortest remaining time first.
//!
//! Preemptive: whenever something happens, devices go to all jobs, running or not, in order of what is left of them; a job that does
//! not fit in what those before it leave is passed, and stopped with a checkpoint if it runs (`greedy.rs`). This is the SRTF that
//! Helios and Lucid compare with, with placement and the measured time of a switch where those have a quota of devices and a constant.
//! What is left is the steps left times the model's time of a step alone: a bound and no competitor, as users do not know it. Jobs of
//! unknown length come last. On one device, and where switches take no time, no schedule has a smaller mean completion time
//! (Schrage, Operations Research 1968).

use super::{
    Decision, Policy,
    belief::Length,
    greedy::{Greedy, Looks},
};
use crate::view::View;

/// Waiting jobs are in order of what is left of them, running ones of when they would end: that does not change as time goes by.
pub(super) struct Srtf(Greedy<Length>);

impl Srtf {
    pub(super) fn new() -> Srtf {
        Srtf(Greedy::default())
    }
}

impl Policy for Srtf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        for (job, looks) in self.0.due(view) {
            let left = Length::left_of(view, job);
            match looks {
                Some(Looks::Waiting) => self.0.put(view, job, Looks::Waiting, left),
                Some(Looks::Running) => {
                    self.0.put(view, job, Looks::Running, left.plus(view.job(job).steps_at));
                }
                None => {}
            }
        }
        self.0.decide(view, |left| left.plus(view.now), "least left")
    }
}
