//! SRTF and SRSF in rounds, as in the simulator of Synergy (Mohan et al., OSDI 2022, msr-fiddle/synergy), whose rounds take 300 s and which
//! lets a job that has waited for 1,000 h come first: `srtf:every=300s:bump=1000h`.

use anyhow::ensure;
use engine::{cluster::JobId, view::View};

use crate::kit::{
    belief,
    elastic::steps_left,
    in_order::{BUMP, InOrder, Order, Times},
    progress::Progress,
    settings::{Kind, Setting, Values},
};

/// The remaining time of a job, or that times its devices.
pub(crate) struct Remaining<const SERVICE: bool>;

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new(
        "every",
        Kind::ROUND,
        "event",
        "the length of a round; with event, the policy decides at each event",
    )
    .or("event")
    .such_as("300s"),
    BUMP,
];

/// The times of rounds. `None` for decisions at every event.
///
/// # Errors
/// Fails if there are no rounds in which a job could come first.
pub(crate) fn times(values: &Values) -> anyhow::Result<Option<Times>> {
    let bump = values.time_or_none("bump");
    let every = values.time_or_none("every");
    ensure!(every.is_some() || bump.is_none(), "bump needs rounds; add their length, such as every=300s");
    Ok(every.map(|every| Times { every, bump }))
}

pub(crate) fn remaining<const SERVICE: bool>(times: Times) -> InOrder<Remaining<SERVICE>> {
    InOrder::new(times, Remaining)
}

impl<const SERVICE: bool> Order for Remaining<SERVICE> {
    const BY: &'static str = if SERVICE { "remaining service" } else { "remaining time" };

    fn key(&self, view: &View<'_>, job: JobId) -> f64 {
        let Some(step) = belief::step(view, job) else { return f64::INFINITY };
        let step_now_ns = Progress::new(view, job).step_ns().unwrap_or(step.step_ns);
        let left_s = steps_left(view, job, 1e9 / step_now_ns) * step.step_ns / 1e9;
        left_s * if SERVICE { f64::from(view.request(job).devices) } else { 1.0 }
    }

    fn say(&self, view: &View<'_>, job: JobId) -> String {
        format!("its {} is {:.0} s", Self::BY, self.key(view, job))
    }
}
