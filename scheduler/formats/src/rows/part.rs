//! `parts.csv`: when schedulers of a run began, one row for the first and one for each `--resume`.

use serde::{Deserialize, Serialize};

/// One scheduler of a run. The time of the run stands still while no scheduler is running, so each row
/// relates it to the host's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Number of turns before this scheduler.
    pub turns: u64,
    /// Time from the start of the run.
    pub at_ns: u64,
    /// The host's `CLOCK_MONOTONIC` at that instant.
    pub mono_ns: u64,
    /// As `2026-11-22T10:13:40Z`.
    pub began_utc: String,
    /// Monotonic clocks of two boots cannot be compared.
    pub boot_id: Option<String>,
}
