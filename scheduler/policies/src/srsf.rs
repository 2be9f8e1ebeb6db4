//! Shortest remaining service first (SRSF; Gu et al., "Tiresias", NSDI 2019).
//!
//! As SRTF, with the remaining time times the devices that a job asks for. The remaining service of running jobs falls as time passes,
//! faster for those with more devices, so that their order is made anew at each decision. The policy is a bound rather than a competitor
//! of others, because users do not know this time. Jobs of unknown length come last.

use std::collections::BTreeMap;

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    view::View,
};
use schema::units::Nanos;

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        belief::Length,
        greedy::{Greedy, Looks},
        in_rounds,
        remaining::Remaining,
    },
};

pub(super) const SRSF: Declaration = Declaration {
    name: "srsf",
    source: "Tiresias, NSDI 2019",
    order: "remaining work times devices",
    misfit: "is passed",
    preemption: "stops jobs, with a checkpoint",
    packing: "no",
    needs: "time of a step alone",
    uses: &[Uses::Lengths, Uses::Stops, Uses::Rounds],
    example: "srsf:every=300s",
    settings: in_rounds::SETTINGS,
    build: |values| match in_rounds::times(values)? {
        None => each(Srsf::default),
        Some(times) => each(move || in_rounds::remaining::<true>(times)),
    },
};

#[derive(Default)]
struct Srsf {
    jobs: Greedy<Length>,
    /// The remaining times of running jobs, and the devices that they ask for.
    running: BTreeMap<JobId, (Remaining, u32)>,
}

fn service(left: Length, devices: u32) -> Length {
    match left {
        Length::UNKNOWN => Length::UNKNOWN,
        Length(left) => Length(Nanos(left.0.saturating_mul(devices.into()))),
    }
}

impl Policy for Srsf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        for (job, looks) in self.jobs.due(view) {
            self.running.remove(&job);
            let Some(looks) = looks else { continue };
            let (left, devices) = (Remaining::new(view, job), view.request(job).devices);
            self.jobs.put(view, job, looks, service(left.at(view.now), devices));
            if looks == Looks::Running {
                self.running.insert(job, (left, devices));
            }
        }
        let running = self.running.iter();
        self.jobs.renew(running.map(|(job, (left, devices))| (*job, service(left.at(view.now), *devices))));
        self.jobs.decide(view, |service| service, "least service left")
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let service = service(Remaining::new(view, job).at(view.now), view.request(job).devices);
        let left = format!("its remaining service is {service} times devices as of now");
        match self.jobs.explain(view, job, "remaining service") {
            place if place.is_empty() => left,
            place => format!("{left}; {place}"),
        }
    }
}
