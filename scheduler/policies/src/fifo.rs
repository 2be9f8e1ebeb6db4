//! First in, first out (FIFO), strict or with backfill.
//!
//! Jobs start in order of arrival and run to their end. A job that failed and is to be started again keeps its place. In the strict
//! form, a job that does not fit holds up all jobs behind it. If jobs are consolidated, this is the FIFO of Helios and Lucid (Hu et
//! al., SC 2021, ASPLOS 2023). With backfill, which some papers call best effort, any job that fits starts before it. Backfill makes
//! no reservation, which would need known lengths: a job that needs many devices may wait until arrivals cease. The policy ignores users, classes and types of device: a job goes to the first type with enough free
//! devices.

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    view::View,
};

use crate::{
    declaration::{Declaration, each},
    kit::queue::{Misfit, Queue},
};

pub(super) const FIFO: Declaration = Declaration {
    name: "fifo",
    source: "baseline in Helios",
    order: "arrival",
    misfit: "holds up all jobs behind it",
    preemption: "no",
    packing: "no",
    needs: "none",
    uses: &[],
    example: "fifo",
    settings: &[],
    build: |_| each(Fifo::strict),
};

pub(super) const BACKFILL: Declaration = Declaration {
    name: "fifo-backfill",
    source: "variant of fifo",
    misfit: "is passed, without a reservation",
    example: "fifo-backfill",
    build: |_| each(Fifo::backfill),
    ..FIFO
};

struct Fifo {
    queue: Queue<()>,
    why: &'static str,
}

impl Fifo {
    fn strict() -> Fifo {
        Fifo { queue: Queue::new(Misfit::Blocks), why: "first in the queue" }
    }

    fn backfill() -> Fifo {
        Fifo { queue: Queue::new(Misfit::IsPassed), why: "first in the queue that fits" }
    }
}

impl Policy for Fifo {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.queue.decide(view, |_| (), self.why)
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        self.queue.explain(view, job, "arrival")
    }
}
