//! The settings of a simulation.

use anyhow::ensure;
use record::suspension::Suspension;
use schema::{sharing::Sharing, units::Nanos};

/// The settings of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The way in which packed jobs share their devices.
    pub sharing: Sharing,
    /// How jobs are suspended.
    pub suspension: Suspension,
    /// The standard deviation of the step times of launches on the log scale. Each launch is faster or slower than the model says
    /// by a random factor. 0 for no noise.
    pub noise: f64,
    /// The interval between progress reports of a job, from the time at which its launch began to run.
    pub progress_every: Option<Nanos>,
    /// The interval between checkpoints of a running job. The time of a checkpoint is spread over the steps between two of them.
    pub checkpoint_every: Option<Nanos>,
    pub faults: Faults,
    /// Whether a job that would take more than a hundred years is refused when it starts. A simulation of a hundred years takes hours
    /// under a policy with turns of seconds. Where endless jobs are allowed, the policy ends them.
    pub refuses_endless: bool,
}

/// Mean times, in nanoseconds. Times are drawn from exponential distributions. Without a mean nothing fails.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The mean time between failures of a device.
    pub device_mtbf_ns: Option<f64>,
    /// The mean time from the failure of a device to its return.
    pub device_repair_ns: f64,
    /// The mean running time of a launch between crashes of its own.
    pub launch_mtbf_ns: Option<f64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 0,
            sharing: Sharing::TIME_SLICE,
            suspension: Suspension::default(),
            noise: 0.0,
            progress_every: None,
            checkpoint_every: None,
            faults: Faults::default(),
            refuses_endless: false,
        }
    }
}

impl Settings {
    /// Checks the settings.
    ///
    /// # Errors
    /// Fails if the noise is no standard deviation, and if an interval is 0.
    pub fn check(&self) -> anyhow::Result<()> {
        let Settings { noise, progress_every, checkpoint_every, .. } = self;
        ensure!(
            noise.is_finite() && *noise >= 0.0,
            "the noise is {noise}; write a standard deviation of 0 or more, such as 0.02"
        );
        for (what, every) in [("progress reports", progress_every), ("checkpoints", checkpoint_every)] {
            ensure!(*every != Some(Nanos::ZERO), "the interval of {what} is 0; write a time above 0");
        }
        Ok(())
    }
}
