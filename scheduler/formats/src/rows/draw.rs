//! `draws.csv`: simulations of a trace, each with its own draw of what is uncertain in the prediction.

use std::fmt;

use schema::units::Nanos;
use serde::{Deserialize, Serialize};

/// A simulation with its own draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    /// The number of the draw, counted from 0.
    pub draw: u32,
    pub seed: u64,
    /// Number of jobs that ended well.
    pub ok: u32,
    /// Mean over these jobs; absent without any.
    pub jct_ns_mean: Option<u64>,
    /// Time from the first arrival to the last end of these jobs.
    pub makespan_ns: Option<u64>,
}

/// A quantity over all draws in which it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub median_ns: u64,
    /// The 95 % interval.
    pub ci_lo_ns: u64,
    pub ci_hi_ns: u64,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", Nanos(self.ci_lo_ns), Nanos(self.ci_hi_ns))
    }
}

impl Range {
    /// Whether a value is within the interval.
    pub fn contains(&self, ns: u64) -> bool {
        (self.ci_lo_ns..=self.ci_hi_ns).contains(&ns)
    }
}

/// The totals of a run over its draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnTotals {
    pub draws: u32,
    pub jct_ns_mean: Range,
    pub makespan_ns: Range,
}
