//! From the step times of a launch to the numbers that are published for it.

use crate::interval::{Interval, within_launch_median};
use crate::order::median;
use crate::quantile::Tail;
use crate::steady::{self, Steady};

/// The summary of one launch; times in ns, for the steps of its steady window only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaunchSummary {
    /// The steps that were used.
    pub steady: Steady,
    /// The median step time.
    pub step_ns_median: f64,
    /// The interval around this launch's own median; absent if the window is too short for one. If the
    /// machine drifts by 2 % during the launch, as simulated, it covers the launch's own level in 86 of 100
    /// launches that are called steady.
    pub median_interval: Option<Interval>,
    /// Quantiles of step time.
    pub tail: Tail,
}

impl LaunchSummary {
    /// Summarises the step times of one launch, warm-up included, in order of execution.
    ///
    /// `None` for a launch without steps. A launch without a steady state is summarised too, over the
    /// window of [`steady::of_launch`]; the caller must report this beside the numbers.
    pub fn of(step_ns: &[u64]) -> Option<Self> {
        Self::within(step_ns, steady::of_launch(step_ns))
    }

    /// Summarises a window that was found elsewhere, for example if other jobs decide which part of a
    /// launch counts.
    ///
    /// `None` for an empty window.
    pub fn within(step_ns: &[u64], steady: Steady) -> Option<Self> {
        let used = &step_ns[steady.start..steady.end];
        Some(Self {
            steady,
            step_ns_median: median(used)?,
            median_interval: within_launch_median(used),
            tail: Tail::of(used)?,
        })
    }
}
