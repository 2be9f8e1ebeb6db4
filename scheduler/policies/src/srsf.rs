//! Shortest remaining service first (SRSF; Gu et al., "Tiresias", NSDI 2019).
//!
//! As SRTF, with the remaining time times the devices that a job asks for. Both are those of its last report, so that the order of
//! running jobs changes when they report. The policy is a bound rather than a competitor of others, because users do not know this time.
//! Jobs of unknown length come last.

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    view::View,
};
use schema::units::Nanos;

use crate::kit::{belief::Length, greedy::Greedy};

pub(super) struct Srsf(Greedy<Length>);

impl Srsf {
    pub(super) fn new() -> Srsf {
        Srsf(Greedy::default())
    }
}

fn service(view: &View<'_>, job: JobId) -> Length {
    match Length::left_of(view, job) {
        Length::UNKNOWN => Length::UNKNOWN,
        Length(left) => {
            let devices = u64::from(view.asked_by(job).devices);
            Length(Nanos(left.0.saturating_mul(devices)))
        }
    }
}

impl Policy for Srsf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        for (job, looks) in self.0.due(view) {
            if let Some(looks) = looks {
                self.0.put(view, job, looks, service(view, job));
            }
        }
        self.0.decide(view, |service| service, "least service left")
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let left =
            format!("its remaining service is {} times devices by its last report", service(view, job));
        match self.0.explain(view, job, "remaining service") {
            place if place.is_empty() => left,
            place => format!("{left}; {place}"),
        }
    }
}
