//! First in, first out.
//!
//! Jobs start in order of arrival and run to their end; one that failed and is given another chance has its old place. In the strict
//! form the first that does not fit holds up all behind it, as in the FIFO of Helios and Lucid (Hu et al., SC 2021, ASPLOS 2023). With
//! backfill any job that fits passes it, what some papers call best effort. It makes no reservation, as that needs known lengths, so that a job which
//! wants many devices may wait until arrivals cease. Placement: as few nodes as can be. Blind to users, virtual clusters and classes,
//! and to types of device: a job goes to the first type that has room.

use super::{
    Decision, Policy,
    queue::{Misfit, Queue},
};
use crate::view::View;

pub(super) struct Fifo {
    queue: Queue<()>,
    why: &'static str,
}

impl Fifo {
    pub(super) fn strict() -> Fifo {
        Fifo { queue: Queue::new(Misfit::Blocks), why: "first in the queue" }
    }

    pub(super) fn backfill() -> Fifo {
        Fifo { queue: Queue::new(Misfit::IsPassed), why: "first in the queue that fits" }
    }
}

impl Policy for Fifo {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.queue.decide(view, |_| (), self.why)
    }
}
