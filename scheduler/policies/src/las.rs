//! Continuous two-dimensional least attained service, in rounds: the order of Tiresias (Gu et al., NSDI 2019) without its queues, as in the
//! simulators of Gavel (OSDI 2020), Synergy (OSDI 2022) and Blox (EuroSys 2024).
//!
//! The attained service of a job is its running time times the number of its devices. In each round, the jobs with the least service
//! have devices. Jobs of equal service come in order of arrival. The parameters are the length of a round, `every`, by default 300 s
//! as in Synergy, and `bump`, the wait after which a job comes before all others, by default never. Without queues, jobs with
//! about the same service take turns round by round, which Tiresias avoids and which costs them switches.

use engine::{cluster::JobId, view::View};

use crate::{
    declaration::{Declaration, Uses, each},
    kit::in_order::{BUMP, InOrder, Order, Times, every},
};

pub(super) const LAS: Declaration = Declaration {
    name: "las",
    source: "Tiresias, NSDI 2019",
    order: "attained service, the least first",
    misfit: "is passed",
    preemption: "stops and moves jobs, with a checkpoint",
    packing: "no",
    needs: "none",
    uses: &[Uses::Stops, Uses::Rounds],
    example: "las:every=60s:bump=1h",
    settings: &[every("300s"), BUMP],
    build: |values| {
        let times = Times::read(values);
        each(move || InOrder::new(times, Las))
    },
};

struct Las;

impl Order for Las {
    const BY: &'static str = "attained service";

    fn key(&self, view: &View<'_>, job: JobId) -> f64 {
        view.job(job).account_at(view.now).device_time.as_secs_f64()
    }

    fn say(&self, view: &View<'_>, job: JobId) -> String {
        format!("it has attained a service of {}", view.job(job).account_at(view.now).device_time)
    }
}
