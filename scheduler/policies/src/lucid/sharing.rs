//! Whether jobs share devices: while the predicted load is high (`model::Load`).
//!
//! The prediction is that at the start of the present bin. It changes when a bin ends, which is when it is looked at again, and the jobs
//! that have arrived in the present bin count at once. Before a day was learned, the mean of the last hour takes its place.

use std::time::UNIX_EPOCH;

use engine::history;
use engine::view::View;
use model::{Load, Predicted};
use schema::units::Nanos;

use super::settings::{Settings, Sharing};

/// The number of bins that are predicted.
const AHEAD: usize = 5;

/// The switch, with the arrivals that decide it.
pub(super) struct Switch {
    mode: Sharing,
    busy: f64,
    bin: Nanos,
    /// `None` before the first view.
    arrivals: Option<Arrivals>,
    is_on: bool,
}

struct Arrivals {
    load: Load,
    /// What is to be added to a time of the run, in seconds. If arrivals have dates, this is the time since 1970 at the start of the run.
    offset_s: u64,
    /// The number of jobs that were counted.
    counted: usize,
}

impl Arrivals {
    /// The arrivals of the history before the run, if both have dates.
    fn new(view: &View<'_>, bin: Nanos) -> Arrivals {
        let began_s = view.asked.first().and_then(|first| {
            let submitted_s = first.submitted_at?.duration_since(UNIX_EPOCH).ok()?.as_secs();
            submitted_s.checked_sub(seconds(first.arrival))
        });
        let mut load = Load::new(seconds(bin), AHEAD, began_s.is_some());
        let mut past: Vec<u64> =
            view.known.history.iter().filter_map(|past| history::arrival(past).submit_s).collect();
        past.sort_unstable();
        let before = past.into_iter().filter(|at_s| began_s.is_some_and(|began_s| *at_s < began_s));
        before.for_each(|at_s| load.arrive(at_s));
        Arrivals { load, offset_s: began_s.unwrap_or_default(), counted: 0 }
    }

    fn refresh(&mut self, view: &View<'_>) {
        for asked in &view.asked[self.counted..] {
            self.load.arrive(self.offset_s + seconds(asked.arrival));
        }
        self.counted = view.asked.len();
        self.load.advance(self.offset_s + seconds(view.now));
    }

    /// The jobs that are expected in each of the next bins.
    fn expected(&self) -> f64 {
        let predicted = self.load.predict().map(|predicted| predicted.jobs);
        predicted.unwrap_or_else(|| self.load.recent()).max(self.load.at_least())
    }
}

impl Switch {
    pub(super) fn new(settings: &Settings) -> Switch {
        let Settings { sharing, busy, bin, .. } = *settings;
        Switch { mode: sharing, busy, bin, arrivals: None, is_on: sharing == Sharing::Always }
    }

    /// Counts the jobs that have arrived. Returns whether the switch was turned.
    pub(super) fn refresh(&mut self, view: &View<'_>) -> bool {
        if self.mode != Sharing::ByLoad {
            return false;
        }
        let arrivals = self.arrivals.get_or_insert_with(|| Arrivals::new(view, self.bin));
        arrivals.refresh(view);
        let was_on = std::mem::replace(&mut self.is_on, arrivals.expected() > self.busy);
        was_on != self.is_on
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The time of the run at which the present bin ends. `None` if the load does not matter.
    pub(super) fn looks_again_at(&self) -> Option<Nanos> {
        let Arrivals { load, offset_s, .. } = self.arrivals.as_ref()?;
        Some(Nanos(load.bin_ends_s()?.saturating_sub(*offset_s).saturating_mul(Nanos::SECOND.0)))
    }

    /// Whether jobs share, with the reason.
    pub(super) fn why(&self) -> String {
        let is = if self.is_on { "sharing is on" } else { "sharing is off" };
        let Some(arrivals) = &self.arrivals else { return format!("{is}, as set") };
        let than = if self.is_on { "more than" } else { "no more than" };
        let terms = match arrivals.load.predict() {
            Some(Predicted { terms, .. }) => {
                let terms: Vec<String> =
                    terms.iter().map(|(name, jobs)| format!("{name} {jobs:+.2}")).collect();
                terms.join(", ")
            }
            None => format!("{:.2} in the last hour", arrivals.load.recent()),
        };
        format!(
            "{is}: {:.2} jobs are expected in each of the next {AHEAD} bins of {}, {than} {} ({terms})",
            arrivals.expected(),
            self.bin,
            self.busy
        )
    }
}

fn seconds(time: Nanos) -> u64 {
    time.0 / Nanos::SECOND.0
}
