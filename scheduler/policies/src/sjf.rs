//! Shortest job first (SJF), strict or with backfill.
//!
//! Waiting jobs start in order of their length, without preemption. In the strict form, a job that does not fit holds up all jobs behind
//! it. If jobs are consolidated, this is the SJF that Lucid compares with (Hu et al., ASPLOS 2023). With backfill, any job that fits
//! starts before it. The length is the number of steps times the model's time of a step alone.
//! With an exact model, the policy is a bound rather than a competitor of others, because users do not know the lengths of their
//! jobs. Jobs of unknown length come last, in order of arrival.

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    view::View,
};

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        belief::Length,
        queue::{Misfit, Queue},
    },
};

pub(super) const SJF: Declaration = Declaration {
    name: "sjf",
    source: "baseline in Lucid",
    order: "length, the shortest first",
    misfit: "holds up all jobs behind it",
    preemption: "no",
    packing: "no",
    needs: "time of a step alone",
    uses: &[Uses::Lengths],
    example: "sjf",
    settings: &[],
    build: |_| each(Sjf::strict),
};

pub(super) const BACKFILL: Declaration = Declaration {
    name: "sjf-backfill",
    source: "variant of sjf",
    misfit: "is passed, without a reservation",
    example: "sjf-backfill",
    build: |_| each(Sjf::backfill),
    ..SJF
};

struct Sjf(Queue<Length>);

impl Sjf {
    fn strict() -> Sjf {
        Sjf(Queue::new(Misfit::Blocks))
    }

    fn backfill() -> Sjf {
        Sjf(Queue::new(Misfit::IsPassed))
    }
}

impl Policy for Sjf {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.0.decide(view, |job| Length::of(view, job), "shortest")
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        match self.0.explain(view, job, "length") {
            place if place.is_empty() => place,
            place => format!("its length is {}; {place}", Length::of(view, job)),
        }
    }
}
