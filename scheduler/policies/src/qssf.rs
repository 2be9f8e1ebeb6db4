//! Quasi-shortest service first (QSSF), strict or with backfill (Hu et al., "Characterization and prediction of deep learning workloads in
//! large-scale GPU datacenters", SC 2021, section 4).
//!
//! Waiting jobs start in order of their estimated service, without preemption: the estimated time for which they run times the devices
//! that they ask for. The estimate is the rolling part of the original (`model::duration::Rolling`). It is made when a job begins to wait, from the jobs
//! that have ended by then, of this run and of the history that the user has named. Of jobs with the same service, the one with
//! fewer devices comes first, and jobs of which nothing is known come last. In the strict form, which is the original, a job that
//! does not fit holds up all jobs behind it. With backfill, any job that fits starts before it.

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    view::View,
};
use model::duration::Rolling;

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        durations::Learned,
        queue::{Misfit, Queue},
    },
};

pub(super) const QSSF: Declaration = Declaration {
    name: "qssf",
    source: "Helios, SC 2021",
    order: "estimated service, the least first",
    misfit: "holds up all jobs behind it",
    preemption: "no",
    packing: "no",
    needs: "jobs that have ended",
    uses: &[Uses::History],
    example: "qssf",
    settings: &[],
    build: |_| each(Qssf::strict),
};

pub(super) const BACKFILL: Declaration = Declaration {
    name: "qssf-backfill",
    source: "variant of qssf",
    misfit: "is passed, without a reservation",
    example: "qssf-backfill",
    build: |_| each(Qssf::backfill),
    ..QSSF
};

struct Qssf {
    queue: Queue<Service>,
    durations: Learned<Rolling>,
}

/// An estimated service in nanoseconds times devices, and the devices.
type Service = (u64, u32);

impl Qssf {
    fn strict() -> Qssf {
        Qssf { queue: Queue::new(Misfit::Blocks), durations: Learned::new(Rolling::default()) }
    }

    fn backfill() -> Qssf {
        Qssf { queue: Queue::new(Misfit::IsPassed), ..Qssf::strict() }
    }
}

impl Policy for Qssf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.durations.refresh(view);
        let service = |job: JobId| {
            let devices = view.request(job).devices;
            let service_s =
                self.durations.estimate(view, job).map(|estimate_s| estimate_s * f64::from(devices));
            (service_s.map_or(u64::MAX, |service_s| (service_s * 1e9) as u64), devices)
        };
        self.queue.decide(view, service, "least estimated service")
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        match self.queue.explain(view, job, "estimated service") {
            place if place.is_empty() => place,
            place => match self.durations.estimate(view, job) {
                Some(estimate_s) => format!("it is estimated to run for {estimate_s:.0} s; {place}"),
                None => format!("nothing is known of how long it runs; {place}"),
            },
        }
    }
}
