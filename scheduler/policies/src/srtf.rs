//! Shortest remaining time first (SRTF).
//!
//! Preemptive: after each event, devices go to all jobs, running or not, in order of their remaining time. A job that does not fit
//! in the devices left by the jobs before it is skipped, and stopped with a checkpoint if it runs (`greedy.rs`). Helios
//! and Lucid compare with an SRTF that grants devices by a quota and then places jobs, so that a job may be preempted for one that
//! finds no place. Here a job is preempted only if the other one gets a place, and a switch takes its measured time instead of a
//! constant. The remaining time is the number of remaining steps times the model's time of a step alone. The
//! policy is a bound rather than a competitor of others, because users do not know this time. Jobs of unknown length come last. On
//! one device, and if switches take no time, no schedule has a smaller mean completion time (Schrage, Operations Research 1968).

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    view::View,
};

use crate::kit::{
    belief::Length,
    greedy::{Greedy, Looks},
};

/// The key of a waiting job is its remaining time, and that of a running job the time at which it would end: neither changes as
/// time passes.
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

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let left = format!("its remaining time is {} by its last report", Length::left_of(view, job));
        match self.0.explain(view, job, "remaining time") {
            place if place.is_empty() => left,
            place => format!("{left}; {place}"),
        }
    }
}
