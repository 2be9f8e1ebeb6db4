//! What a launcher does so that steps of its launches can be skipped.

use schema::units::Nanos;

use crate::launcher::{LaunchId, Launcher};

/// A launcher whose jobs can count steps as done that they did not do. Times are on its clock.
pub trait Skipping: Launcher {
    /// The steps of a launch that have become known since the last call, in order: those of its first rank.
    fn take_steps(&mut self, launch: LaunchId) -> Vec<TimedStep>;

    /// Whether a launch trains, and is not saved at the moment.
    fn trains(&self, launch: LaunchId) -> bool;

    /// The number of steps that may be skipped: those that its job asks for, without those that are done or granted. `None` if the
    /// job runs until it ends by itself.
    fn room(&self, launch: LaunchId) -> Option<u64>;

    /// Counts this number of steps as done, at most [`Skipping::room`]. The launch ends by so many steps earlier. Its next checkpoint
    /// counts them, and a failure before that loses them.
    fn skip_steps(&mut self, launch: LaunchId, steps: u64);

    /// Counts this time as passed, so that checkpoints are due by so much earlier.
    fn skip_time(&mut self, by: Nanos);

    /// When the next launch is to be saved.
    fn saves_at(&self) -> Option<Nanos>;

    /// When a device last ran below its clock because of its power or its temperature.
    fn last_throttled(&self) -> Option<Nanos>;
}

/// A step that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedStep {
    pub end: Nanos,
    /// The time since the end of the step before. `None` for the first step of a launch, and if it rested for a command in between. A time
    /// for which a launch is held without a command counts.
    pub took: Option<Nanos>,
}
