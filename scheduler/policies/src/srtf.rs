//! Shortest remaining time first (SRTF).
//!
//! Preemptive: after each event, devices go to all jobs, running or not, in order of their remaining time. A job that does not fit
//! in the devices left by the jobs before it is skipped, and stopped with a checkpoint if it runs (`kit/greedy.rs`). Helios
//! and Lucid compare with an SRTF that grants devices by a quota and then places jobs, so that a job may be preempted for one that
//! finds no place. Here a job is preempted only if the other one gets a place, and a switch takes its measured time instead of a
//! constant. The remaining time is the number of remaining steps times the model's time of a step alone. The
//! policy is a bound rather than a competitor of others, because users do not know this time. Jobs of unknown length come last. On
//! one device, and if switches take no time, no schedule has a smaller mean completion time (Schrage, Operations Research 1968).

use std::collections::BTreeMap;

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    view::View,
};

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        belief::Length,
        greedy::{Greedy, Looks},
        in_rounds,
        remaining::Remaining,
    },
};

pub(super) const SRTF: Declaration = Declaration {
    name: "srtf",
    source: "Schrage, 1968",
    order: "remaining work, the least first",
    misfit: "is passed",
    preemption: "stops jobs, with a checkpoint",
    packing: "no",
    needs: "time of a step alone",
    uses: &[Uses::Lengths, Uses::Stops, Uses::Rounds],
    example: "srtf:every=300s:bump=1000h",
    settings: in_rounds::SETTINGS,
    build: |values| match in_rounds::times(values)? {
        None => each(Srtf::default),
        Some(times) => each(move || in_rounds::remaining::<false>(times)),
    },
};

/// The key of a waiting job is its remaining time, and the key of a running job the time at which it would end on what it asks for:
/// neither changes as time passes. Only jobs that are faster or slower on their devices have other keys later.
#[derive(Default)]
struct Srtf {
    jobs: Greedy<Length>,
    /// Running jobs whose keys change.
    drifting: BTreeMap<JobId, Remaining>,
}

impl Policy for Srtf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        for (job, looks) in self.jobs.due(view) {
            self.drifting.remove(&job);
            let Some(looks) = looks else { continue };
            let left = Remaining::new(view, job);
            match looks {
                Looks::Waiting => self.jobs.put(view, job, looks, left.at(view.now)),
                Looks::Running => {
                    self.jobs.put(view, job, looks, left.at(view.now).plus(view.now));
                    if left.drifts() {
                        self.drifting.insert(job, left);
                    }
                }
            }
        }
        let drifting = self.drifting.iter();
        self.jobs.renew(drifting.map(|(job, left)| (*job, left.at(view.now).plus(view.now))));
        self.jobs.decide(view, |left| left.plus(view.now), "least left")
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let left = format!("its remaining time is {} as of now", Remaining::new(view, job).at(view.now));
        match self.jobs.explain(view, job, "remaining time") {
            place if place.is_empty() => left,
            place => format!("{left}; {place}"),
        }
    }
}
