//! From step times to numbers that can be published, with their uncertainty.
//!
//! The unit of replication is the launch: steps of one launch share its memory layout, its clocks
//! and its luck, so more of them say nothing about the next launch (T. Kalibera and R. Jones,
//! "Rigorous Benchmarking in Reasonable Time", ISMM 2013). A number therefore goes through two
//! stages:
//!
//! 1. within a launch, [`LaunchSummary::of`]: [`steady::of_launch`] finds the steps to measure, and
//!    [`interval::within_launch_median`] puts an interval around their median that is right although
//!    consecutive steps resemble each other;
//! 2. between launches, [`launches::between_launches`] puts an interval around the launches' medians.
//!
//! [`launches::ratio_paired`] compares two quantities, on the log scale and in pairs;
//! [`runs::between_runs`] compares runs of the same quantities, and [`levels::of_runs`] finds where a series of them changes. [`welch::ratio`] tests whether two independent
//! sets of launches differ, [`holm::adjusted`] corrects such tests for their number, and [`power`] says what they can
//! find. [`averages::paired`] compares arithmetic averages over the same items, and [`share::wilson`] puts an interval around a share.
//! [`line::Line`] is a law through points. All intervals are at 95 %. Nothing here reads a file, a clock or a random number.

pub mod averages;
pub mod bursts;
pub mod drift;
pub mod durations;
pub mod holm;
pub mod interval;
pub mod launches;
pub mod levels;
pub mod line;
pub mod power;
pub mod quantile;
pub mod runs;
pub mod share;
pub mod steady;
pub mod stop;
pub mod warm_up;
pub mod welch;

mod noise;
mod order;
mod pelt;
mod summary;

pub use bursts::Bursts;
pub use durations::Durations;
pub use interval::Interval;
pub use line::Line;
pub use order::{median, median_in_place, quantile_of_sorted};
pub use quantile::Tail;
pub use steady::Steady;
pub use summary::LaunchSummary;
